"""Encodes text with the `tokenizers` library, on desktop."""

from tokenizers import Tokenizer as Library

from wgpu_engine.errors import ModelFileError


class TokenizersEncoder:
    """An `Encoder` on the `tokenizers` library."""

    def __init__(self, tokenizer_json: str) -> None:
        """Takes the text of a `tokenizer.json`.

        Raises:
            ModelFileError: the library refuses it.
        """
        try:
            self._library = Library.from_str(tokenizer_json)
        except Exception as error:  # the library raises plain Exception
            raise ModelFileError(
                f"the tokenizer of this model can't be used ({error}): convert or download the model again"
            ) from error

    def encode(self, text: str) -> list[int]:
        """Ids of `text`, taken as plain text."""
        ids: list[int] = self._library.encode(text, add_special_tokens=False).ids
        return ids
