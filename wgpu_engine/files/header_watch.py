"""Looks at a model's header while the rest is still coming, so that gigabytes aren't fetched in vain."""

from pathlib import Path

from wgpu_engine.files.gguf import GGUF, read_gguf
from wgpu_engine.platform.drive import drive

_FIRST_LOOK = 1 << 20


class _NotYet(Exception):
    """The bytes asked for haven't come."""


class _GrowingFile:
    """A byte source over a file of which perhaps only the beginning is there."""

    def __init__(self, path: Path, name: str, size: int) -> None:
        self.path = path
        self.name = name
        self.size = size

    async def read(self, offset: int, length: int) -> bytes:
        with self.path.open("rb") as file:
            file.seek(offset)
            data = file.read(length)
        if len(data) < length:
            raise _NotYet
        return data

    def close(self) -> None:
        """Nothing is held."""


class HeaderWatch:
    """Reads the header of a growing file as soon as it is whole.

    Args:
        name: what to call the file in a message.
    """

    def __init__(self, path: Path, name: str) -> None:
        self._path = path
        self._name = name
        self._next = _FIRST_LOOK

    def grown(self, done: int, total: int | None) -> None:
        """Take note that `done` of `total` bytes are there.

        Raises:
            ModelFileError: it isn't a sound GGUF.
            UnsupportedModelError: this version can't run it.
        """
        if done == 0:
            self._next = _FIRST_LOOK
        if total is None or done < self._next:
            return
        try:
            self._read(total)
            self._next = total
        except _NotYet:
            self._next = 2 * done

    def check(self) -> GGUF:
        """Read the header of the whole file. Raises as `grown` does."""
        return self._read(self._path.stat().st_size)

    def _read(self, size: int) -> GGUF:
        return drive(read_gguf(_GrowingFile(self._path, self._name, size)))
