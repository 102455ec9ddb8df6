"""A lock between processes that ends with the process that holds it."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wgpu_engine.errors import DownloadError

if sys.platform == "win32":
    import msvcrt

    def _take(handle: int) -> None:
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _take(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def lock(path: Path, what: str) -> Iterator[None]:
    """Hold the lock file `path`; it is left behind, since to delete it would let two in.

    Raises:
        DownloadError: another process holds it.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            _take(handle)
        except OSError as error:
            raise DownloadError(f"{what} is being pulled by another process: wait until it is done") from error
        yield
    finally:
        os.close(handle)
