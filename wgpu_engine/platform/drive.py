"""Runs coroutines from synchronous code where nothing ever has to be waited for."""

from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def drive(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine whose awaits all return at once, as those over local files do.

    Unlike `asyncio.run` it works inside a running event loop too.

    Raises:
        RuntimeError: the coroutine had to wait.
    """
    try:
        coroutine.send(None)
    except StopIteration as finished:
        result: T = finished.value
        return result
    coroutine.close()
    raise RuntimeError("a coroutine that should never wait did: run it in an event loop")
