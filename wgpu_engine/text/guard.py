"""Keeps what people write from becoming control tokens once a chat template has put it into a prompt.

A template's own markers have to be read as control tokens, what stands in messages must not: whoever sends
`<|im_end|>` would end their own turn and begin another in the system's name. So a marker in a message gets a character
that no text has put behind its first one, which keeps the tokenizer from finding it, and which the tokenizer takes out
again. Templates may cut, trim and search messages as ever, and messages without markers stay what they are.
"""

from collections.abc import Iterable
from typing import Any

from wgpu_engine.text.special_tokens import SpecialTokens
from wgpu_engine.text.vocabulary import Vocabulary

GUARD = "\ufdd0"
"""a noncharacter: Unicode keeps it for inner use, and no text that is exchanged has it"""
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class Guard:
    """Guards texts against the control tokens of a vocabulary."""

    def __init__(self, markers: Iterable[str]) -> None:
        # one of a single character has no inside
        self._markers = [marker for marker in markers if len(marker) > 1]
        self._special = SpecialTokens({marker: number for number, marker in enumerate(self._markers)})

    @staticmethod
    def of(vocabulary: Vocabulary) -> "Guard":
        return Guard(text for index, text in enumerate(vocabulary.tokens) if vocabulary.is_special(index))

    def text(self, text: str) -> str:
        """`text`, its markers guarded."""
        pieces = self._special.split(text.replace(GUARD, _REPLACEMENT))
        return "".join(piece if isinstance(piece, str) else self._guarded(piece) for piece in pieces)

    def all(self, value: Any) -> Any:
        """A copy of a value of JSON's types, every text in it guarded."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(key): self.all(item) for key, item in value.items()}
        return [self.all(item) for item in value] if isinstance(value, list) else value

    def _guarded(self, number: int) -> str:
        marker = self._markers[number]
        return f"{marker[0]}{GUARD}{marker[1:]}"
