"""What the text room asks of the library that encodes text, whichever home we are in."""

from typing import Protocol


class Encoder(Protocol):
    """Encodes by one `tokenizer.json`."""

    def encode(self, text: str) -> list[int]:
        """Ids of `text`, taken as plain text: nothing in it is a special token, and nothing is added.

        `text` holds no lone surrogates.
        """
        ...
