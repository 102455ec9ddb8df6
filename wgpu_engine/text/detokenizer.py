"""Token ids to text, one at a time."""

import codecs
from typing import TYPE_CHECKING

from wgpu_engine.errors import RequestError
from wgpu_engine.text.vocabulary import TokenType

if TYPE_CHECKING:
    from wgpu_engine.text.tokenizer import Tokenizer

_incremental_utf8 = codecs.getincrementaldecoder("utf-8")


class Detokenizer:
    """Turns ids into text as they come, without ever emitting half a character.

    What `push` and `finish` return adds up to `Tokenizer.decode` of the same ids.
    """

    def __init__(self, tokenizer: "Tokenizer", after: int | None = None, skip_special: bool = True) -> None:
        """`after` is the id before the first one pushed, where the text continues another.

        A SentencePiece vocabulary writes a space in front of a text and after a special token, which is dropped here;
        a space that follows other text belongs to it and stays. `skip_special` leaves control tokens out.
        """
        self._vocabulary = tokenizer.vocabulary
        self._skip_special = skip_special
        self._decoder = _incremental_utf8("replace")
        self._drop_space = self._starts_text and (after is None or self._restarts_text(after))

    def push(self, token_id: int) -> str:
        """The characters that `token_id` completes, often all of its text, sometimes none.

        Raises:
            RequestError: the id is outside the vocabulary.
        """
        vocabulary = self._vocabulary
        if not 0 <= token_id < len(vocabulary):
            raise RequestError(f"token id {token_id} is outside the vocabulary of {len(vocabulary)} tokens: check it")
        hidden = self._skip_special and vocabulary.is_special(token_id)
        piece = b"" if hidden else vocabulary.token_bytes(token_id)
        if self._restarts_text(token_id):
            self._drop_space = True
        elif self._drop_space and not hidden:
            self._drop_space = False
            piece = piece.removeprefix(b" ")
        return self._decoder.decode(piece)

    def finish(self) -> str:
        """What is left: U+FFFD for a character that never came whole, else nothing."""
        return self._decoder.decode(b"", final=True)

    @property
    def _starts_text(self) -> bool:
        return self._vocabulary.add_space_prefix or self._vocabulary.kind == "bert"

    def _restarts_text(self, token_id: int) -> bool:
        special = (TokenType.CONTROL, TokenType.UNKNOWN, TokenType.USER_DEFINED)
        return self._vocabulary.add_space_prefix and self._vocabulary.types[token_id] in special
