"""What tests of downloads look at."""

import hashlib
from collections.abc import Callable

from wgpu_engine.files.store import Store


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def left(store: Store) -> list[str]:
    """What is in the store, lock files aside."""
    return sorted(path.name for path in store.folder.iterdir() if not path.name.endswith(".lock"))


def interrupt_after(bytes_done: int) -> Callable[[str, int, int | None], None]:
    def progress(stage: str, done: int, total: int | None) -> None:
        if stage == "download" and done >= bytes_done:
            raise KeyboardInterrupt

    return progress
