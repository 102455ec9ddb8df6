"""The same tokenizer from a tokenizer.json, which its own library reads, and from the keys of a GGUF file."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Library
from tokenizers.models import BPE, WordPiece
from tokenizers.trainers import BpeTrainer, WordPieceTrainer

from wgpu_engine.platform.tokenizers_encoder import TokenizersEncoder
from wgpu_engine.text.opening import open_tokenizer
from wgpu_engine.text.tokenizer import Tokenizer

CORPUS = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8").split("\n") * 2
MARKERS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_HEAD = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
SPLITS: dict[str, list[Any]] = {
    "gpt-2": [pre_tokenizers.ByteLevel(add_prefix_space=False)],
    "llama-bpe": [
        pre_tokenizers.Split(Regex(_HEAD + r"\p{N}{1,3}" + _TAIL), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ],
    "qwen2": [
        pre_tokenizers.Split(Regex(_HEAD + r"\p{N}" + _TAIL), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ],
    "smollm": [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)],
}
"""as the models' own tokenizer.json files have them"""
TEXTS = st.lists(
    st.one_of(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
        st.text(st.sampled_from("aeThe 019'sRE\n\r\t.,-_é中🦙\u0301\u00a0"), max_size=12),
        st.sampled_from([*MARKERS, "<|im_", "the model", "WebGPU's", "  ", "\n\n", "[MASK]", "12345"]),
    ),
    max_size=8,
).map("".join)


@dataclass(frozen=True)
class Pair:
    library: Library
    ours: Tokenizer


@cache
def byte_pairs(pre: str) -> Pair:
    """A byte-level BPE of 600 tokens, trained on a page of text."""
    library = Library(BPE(ignore_merges=pre == "llama-bpe"))
    library.pre_tokenizer = pre_tokenizers.Sequence(SPLITS[pre])
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    library.train_from_iterator(CORPUS, BpeTrainer(vocab_size=600, initial_alphabet=alphabet, show_progress=False))
    library.add_special_tokens([AddedToken(text, normalized=False) for text in MARKERS])
    model = json.loads(library.to_str())["model"]
    tokens = [library.id_to_token(index) for index in range(library.get_vocab_size())]
    metadata = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3 if token in MARKERS else 1 for token in tokens],
        "tokenizer.ggml.merges": [" ".join(merge) for merge in model["merges"]],
        "tokenizer.ggml.eos_token_id": tokens.index(MARKERS[0]),
        "tokenizer.ggml.bos_token_id": tokens.index(MARKERS[0]),
        "tokenizer.ggml.add_bos_token": False,
    }
    return Pair(library, open_tokenizer(metadata, len(tokens), TokenizersEncoder))


@cache
def word_pieces() -> Pair:
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    library = Library(WordPiece(unk_token="[UNK]"))
    library.normalizer = normalizers.BertNormalizer(lowercase=True)
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    library.train_from_iterator(CORPUS, WordPieceTrainer(vocab_size=500, special_tokens=special, show_progress=False))
    library.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    texts = [library.id_to_token(index) for index in range(library.get_vocab_size())]
    metadata = {
        "tokenizer.ggml.model": "bert",
        "tokenizer.ggml.tokens": [text if text in special else _as_gguf(text) for text in texts],
        "tokenizer.ggml.token_type": [3 if text in special else 1 for text in texts],
        "tokenizer.ggml.unknown_token_id": 1,
        "tokenizer.ggml.cls_token_id": 2,
        "tokenizer.ggml.seperator_token_id": 3,
        "tokenizer.ggml.padding_token_id": 0,
    }
    return Pair(library, open_tokenizer(metadata, len(texts), TokenizersEncoder))


def _as_gguf(text: str) -> str:
    return text[2:] if text.startswith("##") else f"\N{LOWER ONE EIGHTH BLOCK}{text}"


PAIRS: dict[str, Callable[[], Pair]] = {
    **{pre: (lambda pre=pre: byte_pairs(pre)) for pre in SPLITS},
    "word pieces": word_pieces,
}


@pytest.mark.parametrize("kind", PAIRS)
@settings(max_examples=300, deadline=None)
@given(text=TEXTS)
def test_ids_are_the_librarys(kind: str, text: str) -> None:
    pair = PAIRS[kind]()
    assert pair.ours.encode(text) == pair.library.encode(text).ids


@pytest.mark.parametrize("pre", SPLITS)
@settings(max_examples=100, deadline=None)
@given(text=TEXTS)
def test_the_text_comes_back(pre: str, text: str) -> None:
    ours = byte_pairs(pre).ours
    for parse_special in (True, False):
        ids = ours.encode(text, add_special=False, parse_special=parse_special)
        assert ours.decode(ids, skip_special=False) == text


@pytest.mark.model
@pytest.mark.conformance
def test_a_vocabulary_of_30_thousand_word_pieces(
    minilm: Path, conformance: Path, read_metadata: Callable[[Path], dict[str, Any]]
) -> None:
    """BERT's own, which all-MiniLM-L6-v2 has as tokenizer.json and BGE as GGUF."""
    library = Library.from_file(str(minilm / "tokenizer.json"))
    library.no_truncation()
    library.no_padding()
    metadata = read_metadata(conformance / "vocabularies" / "ggml-vocab-bert-bge.gguf")
    tokens = metadata["tokenizer.ggml.tokens"]
    ours = open_tokenizer(metadata, len(tokens), TokenizersEncoder)
    assert library.get_vocab_size() == len(tokens)

    @settings(max_examples=300, deadline=None)
    @given(text=TEXTS)
    def same(text: str) -> None:
        assert ours.encode(text) == library.encode(text).ids

    same()
