"""A byte source over JavaScript's, in browsers: what is large never comes to Python."""

from typing import Any

from wgpu_engine.errors import (
    AddressError,
    DownloadError,
    EngineError,
    ModelFileError,
    RequestError,
    StorageFullError,
)
from wgpu_engine.platform.closing import Closing

_ERRORS: dict[str, type[EngineError]] = {
    "file": ModelFileError,
    "network": DownloadError,
    "address": AddressError,
    "quota": StorageFullError,
    "request": RequestError,
}
"""by the kind of a SourceError of web/engine"""


class BrowserSource(Closing):
    """A file of a model as web/engine/source.js opens it.

    `js` is JavaScript's own object: the device takes bytes from it without their passing through Python.
    """

    def __init__(self, js: Any) -> None:
        self.js = js
        self.name = str(js.name)
        self.size = int(js.size)

    @property
    def warnings(self) -> list[str]:
        """What is out of the ordinary, such as storage that is full: a sentence each."""
        return [str(warning) for warning in self.js.warnings]

    async def read(self, offset: int, length: int) -> bytes:
        """A copy of `length` bytes from `offset`: for what is small, such as a header.

        Raises:
            ModelFileError: they aren't inside the file, or the file can't be read any more.
            DownloadError: they can't be fetched.
        """
        try:
            data = await self.js.read(offset, length)
        except Exception as error:
            raise translated(error) from error
        content: bytes = data.to_bytes()
        return content

    async def fetch(self) -> None:
        """Fetch all that isn't in the browser's cache yet, where there is one.

        Raises:
            ModelFileError: the file isn't what it should be.
            DownloadError: it can't be fetched.
        """
        try:
            await self.js.download()
        except Exception as error:
            raise translated(error) from error

    def close(self) -> None:
        """Let the cache evict the file."""
        self.js.close()


def translated(error: Exception) -> Exception:
    """Our own error for one that web/engine's sources raised; any other as it is, such as that of a cancelled load."""
    kind = _ERRORS.get(str(getattr(error, "kind", None)))
    return error if kind is None else kind(str(getattr(error, "message", error)))
