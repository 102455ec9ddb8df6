"""Connections that nothing moves on are ended, so that no client can hold one for ever."""

import asyncio
from typing import TYPE_CHECKING

from uvicorn.protocols.http.auto import AutoHTTPProtocol

if TYPE_CHECKING:
    from uvicorn.protocols.http.h11_impl import H11Protocol as _Protocol
else:
    _Protocol = AutoHTTPProtocol

PATIENCE_S = 60.0
"""for a client to send a request's head, and to read something of what waits for it"""


class Connection(_Protocol):
    """uvicorn's HTTP, with an end to clients that neither ask nor read."""

    _watch: asyncio.TimerHandle | None = None
    _unread = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # every byte that a client hasn't taken counts, else small replies would not
        transport.set_write_buffer_limits(high=0)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_idle and self._watch is None:
            self._wait()
        elif not self._is_idle and not self.flow.write_paused:
            self._stop_waiting()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.transport.get_write_buffer_size()
        self._wait()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_waiting()

    @property
    def _is_idle(self) -> bool:
        """Whether no request is being answered, though one may have begun to come."""
        return self.cycle is None or self.cycle.response_complete

    def _wait(self) -> None:
        self._stop_waiting()
        self._watch = self.loop.call_later(PATIENCE_S, self._look)

    def _stop_waiting(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None

    def _look(self) -> None:
        """Ends the connection where nothing has moved."""
        self._watch = None
        unread = self.transport.get_write_buffer_size()
        if unread and unread < self._unread:
            self._unread = unread
            self._wait()
        elif unread or self._is_idle:
            self.transport.abort()
