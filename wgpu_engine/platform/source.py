"""Where a model's bytes come from: a file here, a Blob or ranges over HTTP elsewhere."""

from typing import Protocol


class ByteSource(Protocol):
    """Random access to a run of bytes whose length is known."""

    @property
    def name(self) -> str:
        """What to call it in a message: a path or a file name."""

    @property
    def size(self) -> int:
        """Bytes in all."""

    async def read(self, offset: int, length: int) -> bytes | memoryview:
        """Exactly `length` bytes from `offset`.

        Raises:
            ModelFileError: the range isn't wholly inside the source, or can't be read.
        """

    def close(self) -> None:
        """Give back what the source holds; reading after that raises ModelFileError."""


class ModelSource(ByteSource, Protocol):
    """A file of a model, perhaps one that is elsewhere."""

    async def fetch(self) -> None:
        """Bring here what of it isn't yet, where it is going to be kept; else reading does.

        Raises:
            EngineError: it can't be had.
        """
