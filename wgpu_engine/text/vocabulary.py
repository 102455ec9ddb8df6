"""The vocabulary of a model: token texts, their types and scores, and the ids with a meaning of their own.

Read from the `tokenizer.ggml.*` keys of a GGUF file; the format is described in ggml's docs/gguf.md, the defaults are
those of llama.cpp (src/llama-vocab.cpp).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any, Literal

from wgpu_engine.errors import ModelFileError, UnsupportedModelError
from wgpu_engine.text.markers import END_IS_NOT_LAST, END_OF_MESSAGE, END_OF_TURN, END_TEXTS, FILL_TEXTS
from wgpu_engine.text.pre_tokenizers import PreTokenizer, pre_tokenizer

Metadata = Mapping[str, Any]
Kind = Literal["gpt2", "llama", "bert"]

_ABSENT = (-1, 0xFFFFFFFF)
"""how files write "no such token" """

_KINDS: dict[str, Kind] = {"gpt2": "gpt2", "gemma4": "gpt2", "llama": "llama", "bert": "bert"}

_DEFAULT_IDS: dict[Kind, dict[str, int]] = {
    "gpt2": {},
    "llama": {"unknown": 0, "bos": 1, "eos": 2},
    "bert": {"padding": 0, "unknown": 100, "bos": 101, "seperator": 102},
}


class TokenType(IntEnum):
    """What a token is for, numbered as in GGUF."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


def _byte_alphabet() -> dict[str, int]:
    """Letter → byte of GPT-2's alphabet: printable Latin-1 stands for itself, the other bytes for U+0100 and up."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + n): byte for n, byte in enumerate(others)}


BYTE_OF_LETTER = _byte_alphabet()
SPACE = "\N{LOWER ONE EIGHTH BLOCK}"
"""stands for a space in SentencePiece vocabularies, for the start of a word in WordPiece ones"""


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Tokens by id, and which of them mean something to the engine."""

    kind: Kind
    """gpt2: byte-level BPE; llama: SentencePiece BPE; bert: WordPiece"""
    tokens: Sequence[str]
    types: Sequence[int]
    """a TokenType for each token"""
    scores: Sequence[float]
    """llama: the higher, the earlier its pieces merge; empty for the other kinds"""
    merges: Sequence[str]
    """gpt2: "left right", best first; empty for the other kinds"""
    pre: PreTokenizer
    bos_id: int | None
    eos_id: int | None
    eot_id: int | None
    eom_id: int | None
    unk_id: int | None
    pad_id: int | None
    sep_id: int | None
    add_bos: bool
    add_eos: bool
    add_space_prefix: bool
    lowercase: bool
    strip_accents: bool
    end_ids: frozenset[int]
    """generation ends at any of these"""
    strip_after_ids: frozenset[int]
    """white space right after these special tokens is dropped"""

    @classmethod
    def from_metadata(cls, metadata: Metadata) -> "Vocabulary":
        """The vocabulary that a GGUF file's metadata describes.

        Raises:
            ModelFileError: a key is missing, of the wrong type, or contradicts another.
            UnsupportedModelError: a kind of tokenizer, or a pre-tokenizer, that this version doesn't know.
        """
        kind, pre = _kind_and_rules(metadata)
        tokens = _tokens(metadata)
        types = _types(metadata, len(tokens))
        id_of = {text: index for index, text in enumerate(tokens)}
        if len(id_of) != len(tokens):
            twice = next(text for index, text in enumerate(tokens) if id_of[text] != index)
            raise ModelFileError(f"the vocabulary lists the token {twice!r} twice: convert or download the model again")

        named = {
            name: _special_id(metadata, name, _DEFAULT_IDS[kind].get(name), len(tokens))
            for name in ("bos", "eos", "eot", "eom", "unknown", "padding", "seperator", "cls")
        }
        if kind == "bert" and _key("bos_token_id") not in metadata:
            named["bos"] = named["cls"] if named["cls"] is not None else named["bos"]
        if named["eot"] is None:
            named["eot"] = next((id_of[text] for text in END_OF_TURN if text in id_of), None)
        if named["eom"] is None:
            named["eom"] = id_of.get(END_OF_MESSAGE)
        end_ids = end_ids_of(id_of, types, (named["eos"], named["eot"], named["eom"]))
        for index in (*end_ids, *(id_of[text] for text in FILL_TEXTS if text in id_of)):
            types[index] = TokenType.CONTROL

        add_bos = _flag(metadata, "add_bos_token", kind != "gpt2" or pre.add_bos)
        add_eos = _flag(metadata, "add_eos_token", False)
        for wanted, name in ((add_bos, "bos"), (add_eos, "eos")):
            if wanted and named[name] is None:
                raise ModelFileError(
                    f"the file asks for a {name.upper()} token but {_key(f'{name}_token_id')} names none: "
                    "convert the model again"
                )
        lowercase = _flag(metadata, "normalizer.lowercase", True)
        return cls(
            kind=kind,
            tokens=tokens,
            types=types,
            scores=_scores(metadata, len(tokens)) if kind == "llama" else (),
            merges=_merges(metadata) if kind == "gpt2" else (),
            pre=pre,
            bos_id=named["bos"],
            eos_id=named["eos"],
            eot_id=named["eot"],
            eom_id=named["eom"],
            unk_id=named["unknown"],
            pad_id=named["padding"],
            sep_id=named["seperator"],
            add_bos=add_bos,
            add_eos=add_eos,
            add_space_prefix=kind == "llama" and _flag(metadata, "add_space_prefix", True),
            lowercase=lowercase,
            strip_accents=_flag(metadata, "normalizer.strip_accents", lowercase),
            end_ids=end_ids,
            strip_after_ids=_strip_after_ids(metadata, tokens, types),
        )

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def id_of(self) -> dict[str, int]:
        """Id of each token by its text as the file spells it."""
        return {text: index for index, text in enumerate(self.tokens)}

    def is_special(self, token_id: int) -> bool:
        """Whether the token is a marker (control or unknown) and no part of the text."""
        return self.types[token_id] in (TokenType.CONTROL, TokenType.UNKNOWN)

    def token_bytes(self, token_id: int) -> bytes:
        """What the token adds to the text, as bytes; a single token may hold half a UTF-8 character."""
        text, kind = self.tokens[token_id], self.types[token_id]
        if kind in (TokenType.CONTROL, TokenType.UNKNOWN, TokenType.USER_DEFINED):
            return text.encode()
        if kind == TokenType.BYTE and len(text) == 6 and text.startswith("<0x") and text.endswith(">"):
            return bytes.fromhex(text[3:5])
        if self.kind == "gpt2" and self.pre.byte_level:
            try:
                return bytes(BYTE_OF_LETTER[letter] for letter in text)
            except KeyError:  # not spelled in the alphabet: taken as it stands
                return text.encode()
        return (text if self.pre.plain else text.replace(SPACE, " ")).encode()


def _key(name: str) -> str:
    return f"tokenizer.ggml.{name}"


def _kind_and_rules(metadata: Metadata) -> tuple[Kind, PreTokenizer]:
    name, pre = metadata.get(_key("model")), metadata.get(_key("pre"), "")
    if not isinstance(name, str) or not isinstance(pre, str):
        raise ModelFileError(f"the file has no readable {_key('model')}: convert the model together with its tokenizer")
    if name not in _KINDS:
        raise UnsupportedModelError(
            f"the tokenizer kind {name!r} is not supported, only byte-level BPE (gpt2), SentencePiece BPE (llama) and "
            "WordPiece (bert) are: choose another model"
        )
    kind = _KINDS[name]
    if kind != "gpt2":
        return kind, PreTokenizer((), byte_level=False)
    return kind, pre_tokenizer("gemma4" if name == "gemma4" else pre)


def _array(metadata: Metadata, name: str, length: int | None) -> Sequence[Any] | None:
    values = metadata.get(_key(name))
    if values is None:
        return None
    if isinstance(values, str | bytes) or not isinstance(values, Sequence):
        raise ModelFileError(f"{_key(name)} is not an array: convert or download the model again")
    if length is not None and len(values) != length:
        raise ModelFileError(
            f"{_key(name)} has {len(values)} entries for {length} tokens: convert or download the model again"
        )
    return values


def _strings(metadata: Metadata, name: str) -> list[str]:
    values = _array(metadata, name, None)
    if not values:
        raise ModelFileError(f"the file has no {_key(name)}: convert the model together with its tokenizer")
    if not all(isinstance(value, str) for value in values):
        raise ModelFileError(f"{_key(name)} holds something other than text: convert or download the model again")
    return list(values)


def _tokens(metadata: Metadata) -> list[str]:
    return [text or f"[EMPTY_{index}]" for index, text in enumerate(_strings(metadata, "tokens"))]


def _merges(metadata: Metadata) -> list[str]:
    return _strings(metadata, "merges")


def _types(metadata: Metadata, length: int) -> list[int]:
    values = _array(metadata, "token_type", length)
    if values is None:
        return [TokenType.NORMAL] * length
    known = {int(kind): int(kind) for kind in TokenType} | {0: int(TokenType.NORMAL)}
    try:
        return [known[value] for value in values]
    except (KeyError, TypeError):
        raise ModelFileError(
            f"{_key('token_type')} holds a type that GGUF doesn't define: convert or download the model again"
        ) from None


def _scores(metadata: Metadata, length: int) -> Sequence[float]:
    values = _array(metadata, "scores", length)
    if values is None:
        raise ModelFileError(f"the file has no {_key('scores')}: convert the model together with its tokenizer")
    if not all(isinstance(value, int | float) and not math.isnan(value) for value in values):
        raise ModelFileError(f"{_key('scores')} holds something other than numbers: convert or download it again")
    return values


def _special_id(metadata: Metadata, name: str, default: int | None, length: int) -> int | None:
    value = metadata.get(_key(f"{name}_token_id"))
    if value is None or value in _ABSENT:
        return default if default is not None and default < length else None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < length:
        raise ModelFileError(
            f"{_key(f'{name}_token_id')} is {value!r}, outside the vocabulary of {length} tokens: "
            "convert or download the model again"
        )
    return value


def _flag(metadata: Metadata, name: str, default: bool) -> bool:
    value = metadata.get(_key(name), default)
    if not isinstance(value, bool):
        raise ModelFileError(f"{_key(name)} is {value!r} where true or false belongs: convert the model again")
    return value


def end_ids_of(id_of: Mapping[str, int], types: Sequence[int], named: Sequence[int | None]) -> frozenset[int]:
    texts = [text for text in END_TEXTS if text in id_of]
    if any(pair <= set(texts) for pair in END_IS_NOT_LAST):
        texts = [text for text in texts if text != "<|end|>"]
        named = [index for index in named if index != id_of.get("<|end|>")]
    if "</s>" in id_of and types[id_of["</s>"]] != TokenType.NORMAL:
        texts.append("</s>")
    return frozenset(id_of[text] for text in texts) | {index for index in named if index is not None}


def _strip_after_ids(metadata: Metadata, tokens: Sequence[str], types: Sequence[int]) -> frozenset[int]:
    """Phi-3's markers swallow the white space after them; GGUF doesn't say so, the model's name does."""
    name = str(metadata.get("general.name", "")).lower()
    if "phi-3" not in name and "phi3" not in name:
        return frozenset()
    special = (TokenType.CONTROL, TokenType.UNKNOWN, TokenType.USER_DEFINED)
    keep = ("<unk>", "<s>", "<|endoftext|>")
    return frozenset(
        index for index, text in enumerate(tokens) if text == "</s>" or (types[index] in special and text not in keep)
    )
