"""A byte source over a memory-mapped file."""

import mmap
import stat
from pathlib import Path

from wgpu_engine.errors import ModelFileError, ModelNotFoundError
from wgpu_engine.platform.closing import Closing


class FileSource(Closing):
    """Reads a local file without copying it: the pages stay the file's own, none is anonymous memory.

    Views that `read` returned keep the map alive beyond `close`.

    Raises:
        ModelNotFoundError: no such file.
        ModelFileError: it can't be opened, or isn't a regular file.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.name = str(path)
        self._view: memoryview | None = None
        try:
            # A pipe or a device would block in open() or have no end.
            if not stat.S_ISREG(self.path.stat().st_mode):
                kind = "a folder" if self.path.is_dir() else "not a regular file"
                raise ModelFileError(f"{self.name} is {kind}: give the path of a model file")
            with self.path.open("rb") as file:
                self.size = file.seek(0, 2)
                # The system refuses to map nothing.
                content = mmap.mmap(file.fileno(), self.size, access=mmap.ACCESS_READ) if self.size else b""
        except FileNotFoundError as error:
            raise ModelNotFoundError(f"there is no file {self.name}: check the path") from error
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ModelFileError(f"{self.name} can't be read ({reason}): check the path and its permissions") from error
        self._view = memoryview(content)

    async def read(self, offset: int, length: int) -> memoryview:
        """A view of `length` bytes from `offset`; nothing is copied."""
        if self._view is None:
            raise ModelFileError(f"{self.name} was closed: open it again")
        if offset < 0 or length < 0 or offset + length > self.size:
            raise ModelFileError(
                f"{self.name} is truncated or damaged: bytes {offset} to {offset + length} were asked for and it has "
                f"{self.size}; download it again"
            )
        return self._view[offset : offset + length]

    async def fetch(self) -> None:
        """All of it is here."""

    def close(self) -> None:
        """Unmap the file as soon as no view of it is left."""
        self._view = None
