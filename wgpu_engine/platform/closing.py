"""Things that hold something until they are closed."""

from types import TracebackType
from typing import Self


class Closing:
    """Has a `with` statement close what is made for it."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
