"""Whose turn it is: one answer is made at a time."""

import asyncio
import threading

from wgpu_engine.errors import RequestError

_POLL_S = 0.002


class Turns:
    """A lock for threads and tasks; a thread that would wait for its own unfinished stream is told so instead."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: int | None = None

    def take(self) -> None:
        """Waits for the turn.

        Raises:
            RequestError: this thread has it already, with a stream that is still open.
        """
        if self._thread == threading.get_ident():
            raise RequestError("an answer is still being streamed here: read it to its end or close its iterator first")
        self._lock.acquire()
        self._thread = threading.get_ident()

    async def take_async(self) -> None:
        """Waits for the turn without blocking the event loop or a worker thread."""
        while not self._lock.acquire(blocking=False):
            await asyncio.sleep(_POLL_S)

    def give_back(self) -> None:
        self._thread = None
        self._lock.release()
