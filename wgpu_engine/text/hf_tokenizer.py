"""Text to token ids by a model's own `tokenizer.json`, and the tokenizer of a model that has none."""

import json
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

from wgpu_engine.errors import ModelFileError, RequestError
from wgpu_engine.platform.encoder import Encoder
from wgpu_engine.text.guard import GUARD
from wgpu_engine.text.hf_vocabulary import added_tokens
from wgpu_engine.text.special_tokens import SpecialTokens
from wgpu_engine.text.tokenizer import Tokenizer, check_text
from wgpu_engine.text.vocabulary import Vocabulary

_NO_TOKENIZER = "this model has no tokenizer: give token ids, or add its tokenizer.json to the folder"


class HFTokenizer(Tokenizer):
    """Encodes as the `tokenizers` library does with the file, which splits off special tokens itself.

    Only what goes before and after a text is added here, as with any vocabulary.
    """

    def __init__(self, vocabulary: Vocabulary, document: dict[str, Any], encoder: Callable[[str], Encoder]) -> None:
        """`document` is the object in `tokenizer.json`; `encoder` makes an encoder of such a file's text.

        Raises:
            ModelFileError: the library refuses the file.
        """
        self._added = added_tokens(document)
        # The library numbers added tokens as it sees fit, but for those that the model has.
        ids = {entry["content"]: entry["id"] for entry in self._added}
        model = document["model"] | {"vocab": document["model"]["vocab"] | ids}
        self._document = document | {"model": model, "truncation": None, "padding": None, "post_processor": None}
        self._make = encoder
        super().__init__(vocabulary, encoder(_text_of(self._document)))

    def encode(self, text: str, add_special: bool = True, parse_special: bool = True) -> list[int]:
        """See `Tokenizer.encode`."""
        check_text(text)
        ids = (self._encoder if parse_special else self._plain).encode(text)
        return self._with_ends(ids) if add_special else ids

    def encode_prompt(self, text: str) -> list[int]:
        """See `Tokenizer.encode_prompt`."""
        if GUARD not in text:
            return self.encode(text)
        check_text(text)
        pieces = SpecialTokens({text: index for index, text in enumerate(self._markers)}).split(text)
        fenced = [
            piece.replace(GUARD, "") if isinstance(piece, str) else _fenced(self._markers[piece]) for piece in pieces
        ]
        return self._with_ends(self._fencing.encode("".join(fenced)))

    @cached_property
    def _dropped_bytes(self) -> bytes | None:
        # files may drop characters in many ways
        return None

    @cached_property
    def _markers(self) -> list[str]:
        return [entry["content"] for entry in self._added if self.vocabulary.is_special(entry["id"])]

    @cached_property
    def _plain(self) -> Encoder:
        """An encoder that doesn't know the special tokens, so that none can come out of a user's text."""
        return self._without({entry["content"] for entry in self._added if entry.get("special", False)}, ())

    @cached_property
    def _fencing(self) -> Encoder:
        """An encoder that finds special tokens only within fences, which no message has."""
        special = set(self._markers)
        fenced = [
            entry | {"content": _fenced(entry["content"]), "normalized": False}
            for entry in self._added
            if entry["content"] in special
        ]
        return self._without(special, fenced)

    def _without(self, special: set[str], instead: Sequence[dict[str, Any]]) -> Encoder:
        """An encoder that doesn't know these tokens, but others."""
        model = dict(self._document["model"])
        kept = [entry for entry in self._added if entry["content"] not in special]
        special.discard(model.get("unk_token"))  # which the model can't do without
        model["vocab"] = {text: index for text, index in model["vocab"].items() if text not in special}
        model["vocab"] |= {entry["content"]: entry["id"] for entry in instead}
        if "merges" in model:
            model["merges"] = [merge for merge in model["merges"] if not _parts(merge) & special]
        return self._make(_text_of(self._document | {"model": model, "added_tokens": [*kept, *instead]}))


class NoTokenizer(Tokenizer):
    """Stands in where a model has no tokenizer: ids go in and come out, text doesn't."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__(vocabulary, self)

    def encode(self, text: str, add_special: bool = True, parse_special: bool = True) -> list[int]:
        """Raises RequestError."""
        raise RequestError(_NO_TOKENIZER)

    def check_fits(self, text: str, context: int) -> None:
        """Raises RequestError."""
        raise RequestError(_NO_TOKENIZER)

    def encode_prompt(self, text: str) -> list[int]:
        """Raises RequestError."""
        raise RequestError(_NO_TOKENIZER)

    def decode(self, ids: Iterable[int], skip_special: bool = True) -> str:
        """Raises RequestError."""
        raise RequestError(_NO_TOKENIZER)


def _text_of(document: dict[str, Any]) -> str:
    try:
        return json.dumps(document)
    except RecursionError:
        raise ModelFileError("tokenizer.json is nested too deeply: download it again") from None


def _fenced(marker: str) -> str:
    return f"{GUARD}{marker}{GUARD}"


def _parts(merge: str | list[str]) -> set[str]:
    """Both sides of a merge and what it makes."""
    left, right = merge.split(" ", 1) if isinstance(merge, str) else merge
    return {left, right, left + right}
