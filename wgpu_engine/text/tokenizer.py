"""Text to token ids and back."""

from collections.abc import Iterable
from functools import cached_property

from wgpu_engine.errors import ContextFullError, RequestError
from wgpu_engine.platform.encoder import Encoder
from wgpu_engine.text.detokenizer import Detokenizer
from wgpu_engine.text.guard import GUARD
from wgpu_engine.text.special_tokens import SpecialTokens
from wgpu_engine.text.vocabulary import BYTE_OF_LETTER, TokenType, Vocabulary

MAX_CHARACTERS = 4 << 20
"""longest text that is encoded at once; a million tokens hold about this much"""
_SPARSE = 8
"""times the longest token that texts have for each token, where white space and long words take next to none"""


class Tokenizer:
    """Encodes as llama.cpp does with the same file; only the plain runs of text go through the home's library."""

    def __init__(self, vocabulary: Vocabulary, encoder: Encoder) -> None:
        self.vocabulary = vocabulary
        self._encoder = encoder

    def encode(self, text: str, add_special: bool = True, parse_special: bool = True) -> list[int]:
        """Ids of `text`.

        Args:
            text: any text without lone surrogates.
            add_special: put BOS and EOS round it as the model wants, unless the text brings its own.
            parse_special: read control tokens written in `text` as such. With False, for text from outside, they are
                plain characters; user-defined tokens are no markers and are found either way.

        Raises:
            RequestError: the text is no valid Unicode, or longer than MAX_CHARACTERS.
        """
        check_text(text)
        ids = self._encode(text, self._all_special if parse_special else self._user_defined)
        return self._with_ends(ids) if add_special else ids

    def _encode(self, text: str, special: SpecialTokens, guard: str = "") -> list[int]:
        """Ids of `text`, in which `special` are found as they stand; `guard` is taken out of what is between them."""
        vocabulary = self.vocabulary
        ids: list[int] = []
        after_special = True
        for piece in special.split(text):
            if isinstance(piece, int):
                ids.append(piece)
                after_special = True
            else:
                prefix = " " if vocabulary.add_space_prefix and after_special else ""
                ids += self._encoder.encode(prefix + (piece.replace(guard, "") if guard else piece))
                after_special = False
        return ids

    def check_fits(self, text: str, context: int) -> None:
        """Refuses a text by its length alone, which is quick, where it can't have `context` tokens or fewer.

        Raises:
            ContextFullError: it has more tokens; of vocabularies that drop characters, it is far longer than any text.
            RequestError: the text is no valid Unicode, or longer than MAX_CHARACTERS.
        """
        check_text(text)
        data = text.replace(GUARD, "").encode()
        size, dropped = len(data), self._dropped_bytes
        if dropped is not None:
            least = -(-len(data.translate(None, dropped)) // self._longest_token)
            if least > context:
                raise ContextFullError(
                    f"the text has at least {least} tokens and the context holds {context}: shorten it or raise "
                    "--ctx-size"
                )
        elif size > (most := _SPARSE * context * self._longest_token):
            raise ContextFullError(
                f"the text has {size} bytes, more than the {most} read for a context of {context} tokens: shorten it"
            )

    def encode_prompt(self, text: str) -> list[int]:
        """Ids of what a chat template made: its control tokens are read as such, guarded ones of messages as text.

        Raises like `encode`.
        """
        check_text(text)
        return self._with_ends(self._encode(text, self._all_special, GUARD))

    def decode(self, ids: Iterable[int], skip_special: bool = True) -> str:
        """Text of `ids`; bytes that are no UTF-8 become U+FFFD. `skip_special` leaves control tokens out.

        Raises:
            RequestError: an id is outside the vocabulary.
        """
        detokenizer = Detokenizer(self, skip_special=skip_special)
        pieces = [detokenizer.push(token_id) for token_id in ids]
        return "".join(pieces) + detokenizer.finish()

    def _with_ends(self, ids: list[int]) -> list[int]:
        vocabulary = self.vocabulary
        first, last = vocabulary.bos_id, vocabulary.eos_id
        if vocabulary.kind == "bert":
            last = vocabulary.sep_id
        add_last = vocabulary.add_eos or vocabulary.kind == "bert"
        if vocabulary.add_bos and first is not None and ids[:1] != [first]:
            ids.insert(0, first)
        if add_last and last is not None and ids[-1:] != [last]:
            ids.append(last)
        return ids

    @cached_property
    def _longest_token(self) -> int:
        """In bytes of text."""
        vocabulary = self.vocabulary
        longest = max(len(vocabulary.token_bytes(token)) for token in range(len(vocabulary)))
        return max(longest, 1)

    @cached_property
    def _dropped_bytes(self) -> bytes | None:
        """Those that have no token; None where more may be lost, or a token may stand for more than it spells."""
        vocabulary = self.vocabulary
        if vocabulary.kind == "bert" or vocabulary.strip_after_ids:
            return None
        if vocabulary.kind == "gpt2" and vocabulary.pre.byte_level:
            return bytes(byte for letter, byte in BYTE_OF_LETTER.items() if letter not in vocabulary.id_of)
        return b"" if all(f"<0x{byte:02X}>" in vocabulary.id_of for byte in range(256)) else None

    @cached_property
    def _all_special(self) -> SpecialTokens:
        return self._special_of(TokenType.CONTROL, TokenType.UNKNOWN, TokenType.USER_DEFINED)

    @cached_property
    def _user_defined(self) -> SpecialTokens:
        return self._special_of(TokenType.USER_DEFINED)

    def _special_of(self, *kinds: TokenType) -> SpecialTokens:
        vocabulary = self.vocabulary
        ids = {
            text: token_id
            for token_id, (text, kind) in enumerate(zip(vocabulary.tokens, vocabulary.types, strict=True))
            if kind in kinds
        }
        return SpecialTokens(ids, vocabulary.strip_after_ids)


def check_text(text: str) -> None:
    if len(text) > MAX_CHARACTERS:
        raise RequestError(
            f"the text has {len(text):,} characters, more than the {MAX_CHARACTERS:,} encoded at once: split it"
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise RequestError(
            f"the text is not valid Unicode (a lone surrogate at character {error.start}): remove or replace it"
        ) from None
