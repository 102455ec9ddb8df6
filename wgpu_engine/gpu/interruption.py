"""Ctrl-C during calls of the GPU library."""

import signal
import threading

# the public functions make enums of handlers, which takes a tenth of the host's time in a decode step
from _signal import getsignal  # type: ignore[import-not-found]
from _signal import signal as set_handler
from types import FrameType, TracebackType
from typing import Any


class InterruptionDeferred:
    """Within the block Ctrl-C is only noted; it strikes at the block's end.

    Where it struck within a callback of the library, the library would drop it, and wait for ever for what the callback
    was to tell. Python runs signal handlers in the main thread alone, so other threads have nothing to defer.
    """

    def __enter__(self) -> None:
        self._noted: tuple[int, FrameType | None] | None = None
        self._before: Any = None
        if threading.current_thread() is threading.main_thread():
            before = getsignal(signal.SIGINT)
            if callable(before):
                self._before = before
                set_handler(signal.SIGINT, self._note)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            set_handler(signal.SIGINT, self._before)
            if self._noted is not None:
                self._before(*self._noted)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._noted = number, frame
