"""Vocabularies for the tests of the text room: small ones made here, and real ones from files."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wgpu_engine.files.gguf import read_gguf
from wgpu_engine.platform.drive import drive
from wgpu_engine.platform.file_source import FileSource
from wgpu_engine.platform.tokenizers_encoder import TokenizersEncoder
from wgpu_engine.text.tokenizer import Tokenizer
from wgpu_engine.text.tokenizer_json import tokenizer_json
from wgpu_engine.text.vocabulary import BYTE_OF_LETTER, Vocabulary

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6


@pytest.fixture(scope="session")
def read_metadata() -> Callable[[Path], dict[str, Any]]:
    """Metadata of a GGUF file."""
    return lambda path: dict(drive(read_gguf(FileSource(path))).metadata)


@pytest.fixture(scope="session")
def make_tokenizer() -> Callable[[dict[str, Any]], Tokenizer]:
    """A tokenizer from metadata."""

    def make(metadata: dict[str, Any]) -> Tokenizer:
        vocabulary = Vocabulary.from_metadata(metadata)
        return Tokenizer(vocabulary, TokenizersEncoder(tokenizer_json(vocabulary)))

    return make


@pytest.fixture
def bpe() -> dict[str, Any]:
    """Byte-level BPE: 256 letters, a few merges, ChatML's markers and a user-defined token."""
    merges = ["h e", "l l", "he ll", "hell o", "Ġ w", "o r", "Ġw or", "l d", "Ġwor ld", "1 2", "Ċ Ċ", "Ġ Ġ", "ð Ł"]
    tokens = [*BYTE_OF_LETTER, *(merge.replace(" ", "") for merge in merges)]
    types = [NORMAL] * len(tokens)
    tokens += ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool>", "<tool>s"]
    types += [CONTROL] * 3 + [USER_DEFINED] * 2
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.bos_token_id": tokens.index("<|im_start|>"),
        "tokenizer.ggml.eos_token_id": tokens.index("<|im_end|>"),
    }


@pytest.fixture
def spm() -> dict[str, Any]:
    """SentencePiece BPE: bytes, letters, and pieces from the best score to the worst."""
    pieces = ["he", "ll", "hell", "hello", "▁hello", "▁▁", "▁▁▁▁", "aa", "aaaa", "aaa", "bc", "ab", "abc", "lo", "▁he"]
    pieces += ["▁", "a", "b", "c", "e", "h", "l", "o", "é", "日"]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *pieces, "<tool>"]
    types = [UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256 + [NORMAL] * len(pieces) + [USER_DEFINED]
    scores = [0.0] * 259 + [-1.0 - index for index in range(len(pieces))] + [0.0]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.scores": scores,
    }


@pytest.fixture
def word_piece() -> dict[str, Any]:
    """WordPiece with a few words and what continues them."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokens = [*special, "▁hello", "▁world", "▁un", "aff", "able", "▁!", "▁,", "▁中", "▁cafe"]
    return {
        "tokenizer.ggml.model": "bert",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [CONTROL] * 5 + [NORMAL] * 9,
        "tokenizer.ggml.unknown_token_id": 1,
        "tokenizer.ggml.cls_token_id": 2,
        "tokenizer.ggml.seperator_token_id": 3,
    }
