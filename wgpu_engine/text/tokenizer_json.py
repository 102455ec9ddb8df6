"""Derives a Hugging Face `tokenizer.json` from a vocabulary, for whichever library encodes text in this home.

Format: that of the `tokenizers` library, kept to what `@huggingface/tokenizers` reads too. It describes plain text
only: special tokens are split off before (`Tokenizer`), so `added_tokens` is empty, and no control token can come out
of a user's text.
"""

import json
from typing import Any

from wgpu_engine.errors import ModelFileError
from wgpu_engine.text.vocabulary import SPACE, TokenType, Vocabulary

# Pieces of SentencePiece have 16 characters by default, runs of white space some more; a longer one is no sane token,
# and trying each of its splits would take quadratic time.
_LONGEST_MERGED_PIECE = 256


def tokenizer_json(vocabulary: Vocabulary) -> str:
    """The text of a `tokenizer.json` that encodes plain text as llama.cpp does with this vocabulary.

    Raises:
        ModelFileError: the vocabulary lacks what its kind can't do without.
    """
    if vocabulary.kind == "bert":
        parts = _word_piece(vocabulary)
    elif vocabulary.kind == "llama":
        parts = _sentence_piece(vocabulary)
    else:
        parts = _byte_pairs(vocabulary)
    document: dict[str, Any] = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": []}
    return json.dumps({**document, **parts, "post_processor": None, "decoder": None}, ensure_ascii=False)


def _plain_tokens(vocabulary: Vocabulary) -> dict[str, int]:
    """Tokens that plain text can hold, by text."""
    control = TokenType.CONTROL
    return {
        text: index
        for index, (text, kind) in enumerate(zip(vocabulary.tokens, vocabulary.types, strict=True))
        if kind != control or index == vocabulary.unk_id
    }


def _bpe(vocab: dict[str, int], merges: list[str], **settings: Any) -> dict[str, Any]:
    model = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
    }
    return model | settings | {"vocab": vocab, "merges": merges}


def _unknown(vocabulary: Vocabulary) -> str | None:
    return None if vocabulary.unk_id is None else vocabulary.tokens[vocabulary.unk_id]


def _spaces_as_blocks() -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}


def _byte_pairs(vocabulary: Vocabulary) -> dict[str, Any]:
    pre = vocabulary.pre
    blocks = not pre.byte_level and not pre.plain
    vocab = _plain_tokens(vocabulary)
    steps: list[dict[str, Any]] = [
        {"type": "Split", "pattern": {"Regex": expression}, "behavior": "Isolated", "invert": False}
        for expression in pre.expressions
    ]
    if pre.byte_level:
        steps.append({"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False})
    return {
        "normalizer": _spaces_as_blocks() if blocks else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps},
        "model": _bpe(
            vocab,
            [merge for merge in vocabulary.merges if _can_merge(merge, vocab)],
            ignore_merges=pre.ignore_merges,
            byte_fallback=blocks,
            unk_token=_unknown(vocabulary) if blocks else None,
        ),
    }


def _can_merge(merge: str, vocab: dict[str, int]) -> bool:
    """Whether all tokens of a merge exist; the library refuses one that could never yield an id."""
    left, _, right = merge.partition(" ")
    return left in vocab and right in vocab and left + right in vocab


def _sentence_piece(vocabulary: Vocabulary) -> dict[str, Any]:
    return {
        "normalizer": _spaces_as_blocks(),
        "pre_tokenizer": None,
        "model": _bpe(
            _plain_tokens(vocabulary),
            _scored_merges(vocabulary),
            unk_token=_unknown(vocabulary),
            fuse_unk=True,
            byte_fallback=True,
        ),
    }


def _scored_merges(vocabulary: Vocabulary) -> list[str]:
    """SentencePiece joins the neighbours that make the token of the highest score: ranked merges, from scores.

    All splits of a token into two tokens are listed; only the one that its own pieces lead to is ever met, so the order
    among them is of no account.
    """
    merged = (TokenType.NORMAL, TokenType.USER_DEFINED, TokenType.UNUSED)
    pieces = {
        text: -score
        for text, kind, score in zip(vocabulary.tokens, vocabulary.types, vocabulary.scores, strict=True)
        if kind in merged and len(text) <= _LONGEST_MERGED_PIECE and " " not in text
    }
    return [
        f"{text[:at]} {text[at:]}"
        for text in sorted(pieces, key=pieces.__getitem__)
        for at in range(1, len(text))
        if text[:at] in pieces and text[at:] in pieces
    ]


def _word_piece(vocabulary: Vocabulary) -> dict[str, Any]:
    if vocabulary.unk_id is None:
        raise ModelFileError("the WordPiece vocabulary has no unknown token: convert the model again")
    normal = TokenType.NORMAL
    texts = [
        _word_piece_text(text) if kind == normal else text
        for text, kind in zip(vocabulary.tokens, vocabulary.types, strict=True)
    ]
    return {
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": vocabulary.strip_accents,
            "lowercase": vocabulary.lowercase,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "model": {
            "type": "WordPiece",
            "unk_token": texts[vocabulary.unk_id],
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {text: index for index, text in enumerate(texts)},
        },
    }


def _word_piece_text(text: str) -> str:
    """GGUF marks the start of a word with ▁, BERT's own files mark what continues one with ##."""
    return text[1:] if text.startswith(SPACE) else f"##{text}"
