"""Runs an application on an address until a signal ends it."""

import os
import signal
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from urllib.parse import urlunsplit

import uvicorn
from starlette.types import ASGIApp

from wgpu_engine.errors import RequestError
from wgpu_engine.server.connections import Connection
from wgpu_engine.server.log import log_to_stderr


def bind(host: str, port: int) -> socket.socket:
    """A socket on an address; it doesn't listen yet, so that nobody waits before the model is loaded.

    Raises:
        RequestError: the address is none of this machine's, or its port is taken.
    """
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise RequestError(f"there is no host {host!r:.80}: give an address of this machine as --host") from error
    # names such as localhost have addresses of both families, and not every machine has both
    for family, kind, protocol, _, address in sorted(found, key=lambda each: each[0] != socket.AF_INET):
        opened = socket.socket(family, kind, protocol)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            opened.bind(address)
            return opened
        except OSError as error:
            opened.close()
            reason = error
    raise RequestError(
        f"{host} has no room for a server on port {port} ({reason.strerror}): give another --port or --host"
    ) from reason


def url(bound: socket.socket) -> str:
    """Where clients find what listens on a socket."""
    host, port = bound.getsockname()[:2]
    return urlunsplit(("http", f"[{host}]:{port}" if ":" in host else f"{host}:{port}", "", "", ""))


def listen(
    app: ASGIApp,
    bound: socket.socket,
    *,
    patience_s: float,
    log_requests: bool,
    ready: Callable[[], None],
    ending: Callable[[int], None],
) -> None:
    """Serves until SIGINT or SIGTERM, then lets requests that run end for so long; a second SIGINT ends the process.

    `ready` is called when clients can come, `ending` after SIGINT with the number of requests that run.

    Raises:
        RequestError: another program took the port meanwhile.
    """
    log_to_stderr(requests=log_requests)
    config = uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        log_config=None,
        access_log=False,
        # the caller closes what the application runs on
        lifespan="off",
        timeout_graceful_shutdown=max(1, round(patience_s)),
    )
    try:
        _Server(config, ready, ending).run([bound])
    except OSError as error:
        raise RequestError(f"{url(bound)} can't be served ({error.strerror}): give another --port") from error


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, ready: Callable[[], None], ending: Callable[[int], None]) -> None:
        super().__init__(config)
        self._ready, self._ending = ready, ending
        self._interrupted = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._interrupted:
            self._ending(len(self.server_state.tasks))
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        if self.force_exit:
            # threads that compute or tokenize would be waited for; the system frees all they have
            os._exit(128 + signal.SIGINT)
        self._interrupted = sig == signal.SIGINT

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Ends the server on a signal, which isn't raised again afterwards: who asks for an end gets a good one."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {each: signal.signal(each, self.handle_exit) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)
