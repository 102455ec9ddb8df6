"""Encodes text with the `tokenizers` library, on desktop."""

import os

from tokenizers import Tokenizer as Library

from wgpu_engine.errors import ModelFileError

# a text at a time has no use for the library's threads, which warn where a process forks
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


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
        # unlike `encode`, this lets other threads run meanwhile
        ids: list[int] = self._library.encode_batch_fast([text], add_special_tokens=False)[0].ids
        return ids
