"""The vocabulary of a model whose tokenizer is a `tokenizer.json`, or of one without a tokenizer.

The metadata is that of `files/hf_folder.py`. Format: the `tokenizers` library, which encodes by the file itself; what
is read here is what the engine has to know besides: each token's bytes, and the ids with a meaning of their own.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from wgpu_engine.errors import ModelFileError, UnsupportedModelError
from wgpu_engine.text.markers import END_OF_MESSAGE, END_OF_TURN, FILL_TEXTS
from wgpu_engine.text.pre_tokenizers import PreTokenizer
from wgpu_engine.text.vocabulary import SPACE, Kind, Metadata, TokenType, Vocabulary, end_ids_of

_KEY = "tokenizer.huggingface."
_BYTE = re.compile("<0x[0-9A-Fa-f]{2}>")
_KINDS: dict[str, Kind] = {"BPE": "llama", "WordPiece": "bert"}


def read_document(metadata: Metadata) -> dict[str, Any]:
    """The object in `tokenizer.json`.

    Raises:
        ModelFileError: it is none, or has no model of tokens.
    """
    text = metadata.get(f"{_KEY}json")
    try:
        document = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict) or not isinstance(document.get("model"), dict):
        raise _damaged("it is no JSON object with a model")
    if "merges" in document["model"]:
        document["model"].setdefault("type", "BPE")  # left out by old files
    return document


def hf_vocabulary(document: dict[str, Any], metadata: Metadata, size: int) -> Vocabulary:
    """The vocabulary of a `tokenizer.json`, filled up to the `size` tokens that the model has embeddings for.

    Raises:
        ModelFileError: the file is damaged, or of another model.
        UnsupportedModelError: a kind of tokenizer that this version doesn't know.
    """
    kind = _kind(document)
    texts, types = _tokens(document, kind, size)
    id_of = {text: index for index, text in enumerate(texts)}
    first, last = _added_ends(document)
    ids = {name: _special(metadata, name, id_of, size) for name in ("bos", "eos", "unk", "pad")}
    unknown = document["model"].get("unk_token")
    if isinstance(unknown, str) and unknown in id_of:
        ids["unk"] = id_of[unknown]
        types[id_of[unknown]] = TokenType.UNKNOWN
    if first in id_of:
        ids["bos"] = id_of[first]
    add_bos = _flag(metadata, "add_bos_token", first is not None) and ids["bos"] is not None
    add_eos = _flag(metadata, "add_eos_token", last is not None)
    sep = id_of.get(last) if last is not None else None
    if add_eos and last is not None:
        ids["eos"] = sep
    eot = next((id_of[text] for text in END_OF_TURN if text in id_of), None)
    eom = id_of.get(END_OF_MESSAGE)
    end_ids = end_ids_of(id_of, types, (ids["eos"], eot, eom, *_end_ids(metadata, size)))
    for index in (*end_ids, *(id_of[text] for text in FILL_TEXTS if text in id_of)):
        types[index] = TokenType.CONTROL
    return Vocabulary(
        kind=kind,
        tokens=texts,
        types=types,
        scores=(),
        merges=(),
        pre=PreTokenizer(()),
        bos_id=ids["bos"],
        eos_id=ids["eos"],
        eot_id=eot,
        eom_id=eom,
        unk_id=ids["unk"],
        pad_id=ids["pad"],
        sep_id=sep,
        add_bos=add_bos,
        add_eos=add_eos and ids["eos"] is not None,
        add_space_prefix=kind == "llama" and _adds_space(document),
        lowercase=False,
        strip_accents=False,
        end_ids=end_ids,
        strip_after_ids=frozenset(),
    )


def unnamed_vocabulary(metadata: Metadata, size: int) -> Vocabulary:
    """`size` tokens without a text, for a model without a tokenizer."""
    return Vocabulary(
        kind="gpt2",
        tokens=("",) * size,
        types=(TokenType.CONTROL,) * size,
        scores=(),
        merges=(),
        pre=PreTokenizer(()),
        bos_id=_special(metadata, "bos", {}, size),
        eos_id=_special(metadata, "eos", {}, size),
        eot_id=None,
        eom_id=None,
        unk_id=None,
        pad_id=None,
        sep_id=None,
        add_bos=False,
        add_eos=False,
        add_space_prefix=False,
        lowercase=False,
        strip_accents=False,
        end_ids=frozenset(_end_ids(metadata, size)),
        strip_after_ids=frozenset(),
    )


def added_tokens(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Entries of `added_tokens`, each with an id, a content and whether it is special.

    Raises:
        ModelFileError: they are something else.
    """
    entries = document.get("added_tokens") or []
    sound = isinstance(entries, list) and all(
        isinstance(entry, dict)
        and type(entry.get("id")) is int
        and isinstance(entry.get("content"), str)
        and isinstance(entry.get("special", False), bool)
        for entry in entries
    )
    if not sound:
        raise _damaged("its added_tokens aren't a list of tokens with id, content and special")
    return list(entries)


def _damaged(what: str) -> ModelFileError:
    return ModelFileError(f"tokenizer.json is damaged: {what}; download it again")


def _kind(document: dict[str, Any]) -> Kind:
    model = document["model"]
    name = model.get("type", "unnamed")
    if not isinstance(name, str) or name not in _KINDS:
        raise UnsupportedModelError(
            f"the tokenizer kind {name!r:.40} of tokenizer.json is not supported, only BPE and WordPiece are: "
            "choose another model"
        )
    byte_level = any(step.get("type") == "ByteLevel" for step in _steps(document, "pre_tokenizer", "decoder"))
    return "gpt2" if name == "BPE" and byte_level else _KINDS[name]


def _steps(document: dict[str, Any], *parts: str) -> Iterator[dict[str, Any]]:
    """The steps of parts of a tokenizer, those within sequences included."""
    waiting: list[Any] = [document.get(part) for part in parts]
    while waiting:
        step = waiting.pop(0)
        if isinstance(step, dict):
            yield step
            for key in ("normalizers", "pretokenizers", "processors", "decoders"):
                waiting += step[key] if isinstance(step.get(key), list) else []


def _tokens(document: dict[str, Any], kind: Kind, size: int) -> tuple[list[str], list[int]]:
    """Texts as a GGUF file would spell them, and types; ids that the file leaves out get a text that says so."""
    model = document["model"]
    vocab = model.get("vocab")
    if not isinstance(vocab, dict) or not all(type(index) is int for index in vocab.values()):
        raise _damaged("its vocab isn't ids by text")
    prefix = model.get("continuing_subword_prefix", "##") if kind == "bert" else ""
    if not isinstance(prefix, str):
        raise _damaged("its continuing_subword_prefix isn't text")
    texts: dict[int, str] = {}
    types: dict[int, int] = {}
    for text, index in vocab.items():
        if index in texts:
            raise _damaged(f"its vocab has the id {index} twice")
        if kind == "bert":
            texts[index] = text.removeprefix(prefix) if text.startswith(prefix) else SPACE + text
        else:
            texts[index] = text
        if kind == "llama" and model.get("byte_fallback") and _BYTE.fullmatch(text):
            types[index] = TokenType.BYTE
    for entry in added_tokens(document):
        texts[entry["id"]] = entry["content"]
        types[entry["id"]] = TokenType.CONTROL if entry.get("special", False) else TokenType.USER_DEFINED
    beyond = next((index for index in texts if not 0 <= index < size), None)
    if beyond is not None:
        raise ModelFileError(
            f"tokenizer.json has a token with the id {beyond} and the model has {size} embeddings: take both from the "
            "same model"
        )
    absent = TokenType.CONTROL  # has no text
    return (
        [texts.get(index, f"[PAD{index}]") for index in range(size)],
        [types.get(index, TokenType.NORMAL if index in texts else absent) for index in range(size)],
    )


def _special(metadata: Metadata, name: str, id_of: dict[str, int], size: int) -> int | None:
    """The id of a special token, by its text or else by its id."""
    text, index = metadata.get(f"{_KEY}{name}_token"), metadata.get(f"{_KEY}{name}_token_id")
    if isinstance(text, str) and text in id_of:
        return id_of[text]
    return index if type(index) is int and 0 <= index < size else None


def _end_ids(metadata: Metadata, size: int) -> list[int]:
    found = metadata.get(f"{_KEY}end_ids")
    return [index for index in found if type(index) is int and 0 <= index < size] if isinstance(found, list) else []


def _flag(metadata: Metadata, name: str, default: bool) -> bool:
    value = metadata.get(f"{_KEY}{name}", default)
    return value if isinstance(value, bool) else default


def _added_ends(document: dict[str, Any]) -> tuple[str | None, str | None]:
    """The tokens that the post-processor puts before and after a text."""
    for step in _steps(document, "post_processor"):
        if step.get("type") in ("BertProcessing", "RobertaProcessing"):
            return _first_text(step.get("cls")), _first_text(step.get("sep"))
        template = step.get("single")
        if step.get("type") == "TemplateProcessing" and isinstance(template, list) and template:
            return _special_piece(template[0]), _special_piece(template[-1])
    return None, None


def _first_text(pair: Any) -> str | None:
    return pair[0] if isinstance(pair, list) and pair and isinstance(pair[0], str) else None


def _special_piece(piece: Any) -> str | None:
    token = piece.get("SpecialToken") if isinstance(piece, dict) else None
    text = token.get("id") if isinstance(token, dict) else None
    return text if isinstance(text, str) else None


def _adds_space(document: dict[str, Any]) -> bool:
    """Whether a space is put in front of a text, which has to be taken off again."""
    for step in _steps(document, "normalizer", "pre_tokenizer"):
        scheme = step.get("prepend_scheme", "always" if step.get("add_prefix_space", True) else "never")
        if step.get("type") == "Prepend" or (step.get("type") == "Metaspace" and scheme != "never"):
            return True
    return False
