"""Splits special tokens off a text before the rest is encoded."""

import re
from collections.abc import Container, Iterator, Mapping
from typing import Any

_END = ""
"""the key of a trie's node that holds the id of the token ending there"""


class SpecialTokens:
    """Finds the tokens that are matched as they stand: the leftmost first, and of those the longest."""

    def __init__(self, id_of: Mapping[str, int], strip_after: Container[int] = ()) -> None:
        """`strip_after`: ids of tokens that swallow the ASCII white space following them."""
        self._strip_after = strip_after
        self._trie: dict[str, Any] = {}
        for text, token_id in id_of.items():
            node = self._trie
            for character in text:
                node = node.setdefault(character, {})
            node[_END] = token_id
        first = "".join(map(re.escape, self._trie))
        self._candidate = re.compile(f"[{first}]") if first else None

    def split(self, text: str) -> Iterator[str | int]:
        """Pieces of `text` in order: ids of special tokens, and the non-empty runs between them."""
        start = position = 0
        while self._candidate and (candidate := self._candidate.search(text, position)):
            at = candidate.start()
            token_id, end = self._longest(text, at)
            if token_id is None:
                position = at + 1
                continue
            if at > start:
                yield text[start:at]
            yield token_id
            if token_id in self._strip_after:
                while end < len(text) and text[end] in " \t\n\v\f\r":
                    end += 1
            start = position = end
        if start < len(text):
            yield text[start:]

    def _longest(self, text: str, at: int) -> tuple[int | None, int]:
        found, end, node = None, at, self._trie
        while at < len(text) and (following := node.get(text[at])) is not None:
            node = following
            at += 1
            if _END in node:
                found, end = node[_END], at
        return found, end
