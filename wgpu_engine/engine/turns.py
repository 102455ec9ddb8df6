"""Whose turn it is: one answer is made at a time."""

import asyncio
import threading
from typing import Any

from wgpu_engine.errors import RequestError

_POLL_S = 0.002


class Turns:
    """A lock for threads and tasks; one that would wait for its own unfinished stream is told so instead."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: int | None = None
        self._task: asyncio.Task[Any] | None = None

    def take(self) -> None:
        """Waits for the turn.

        Raises:
            RequestError: this thread has it already, or a task of its event loop, with a stream that is still open.
        """
        if self._thread == threading.get_ident():
            raise _unfinished()
        self._lock.acquire()
        self._thread = threading.get_ident()

    async def take_async(self) -> None:
        """Waits for the turn without blocking the event loop or a worker thread.

        Raises:
            RequestError: this task has it already, or code around the event loop, with a stream that is still open.
        """
        task = asyncio.current_task()
        own_thread = self._thread == threading.get_ident()
        if own_thread and self._task in (None, task):
            raise _unfinished()
        while not self._lock.acquire(blocking=False):
            await asyncio.sleep(_POLL_S)
        self._thread, self._task = threading.get_ident(), task

    def give_back(self) -> None:
        self._thread = self._task = None
        self._lock.release()


def _unfinished() -> RequestError:
    return RequestError("an answer is still being streamed here: read it to its end or close its iterator first")
