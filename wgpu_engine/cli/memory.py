"""How much memory of its own this process takes at most, by asking the kernel every few milliseconds."""

import threading
from pathlib import Path
from types import TracebackType

_STATUS = Path("/proc/self/status")
_INTERVAL_S = 0.02


def anonymous_bytes() -> int | None:
    """Resident memory that no file backs (`RssAnon`), in bytes; None where the system does not tell."""
    try:
        status = _STATUS.read_text()
    except OSError:
        return None
    for line in status.splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return None


class PeakMemory:
    """The peak of `anonymous_bytes` while its block runs."""

    def __init__(self) -> None:
        self._peak = anonymous_bytes()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory", daemon=True)

    def __enter__(self) -> "PeakMemory":
        if self._peak is not None:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._peak is not None:
            self._thread.join()

    @property
    def megabytes(self) -> float | None:
        """Peak so far in MB of 1,000,000 bytes; None where the system does not tell."""
        return None if self._peak is None else self._peak / 1e6

    def _watch(self) -> None:
        while not self._stop.wait(_INTERVAL_S):
            self._peak = max(self._peak or 0, anonymous_bytes() or 0)
