"""Keeps web pages of others from driving a server with their visitors' browsers."""

import ipaddress
import re
from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from wgpu_engine.errors import RequestError
from wgpu_engine.server.errors import ApiError, error_response

_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://([^\s/?#@:\[\]]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?")


def checked_origins(given: Iterable[str]) -> list[str]:
    """Origins as browsers write them.

    Raises:
        RequestError: something that no browser sends as an origin.
    """
    found = [origin.strip().lower() for origin in given]
    for origin in found:
        if origin != "*" and not _ORIGIN.fullmatch(origin):
            raise RequestError(
                f"--cors can't be {origin!r:.80}: give an origin without a path, such as https://a.example, or *"
            )
    return found


class Origins:
    """Middleware that refuses what a page of another origin sends, unless it is one of `allowed`.

    Where no key is asked for, what comes over the loopback address must be addressed to this machine too: a page can
    give its own name the address 127.0.0.1 (DNS rebinding), and then it is of the server's origin. `/health` is open.
    """

    def __init__(self, app: ASGIApp, allowed: Sequence[str], *, has_keys: bool) -> None:
        self._app = app
        self._allowed = set(allowed)
        self._hosts = {urlsplit(origin).hostname for origin in allowed}
        self._has_keys = has_keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_open = scope["type"] != "http" or scope["path"] == "/health" or "*" in self._allowed
        error = None if is_open else self._refusal(scope)
        if error is None:
            await self._app(scope, receive, send)
        else:
            await error_response(error)(scope, receive, send)

    def _refusal(self, scope: Scope) -> ApiError | None:
        headers = Headers(scope=scope)
        host, origin = headers.get("host", "").lower(), headers.get("origin")
        if origin is not None and origin.lower() not in self._allowed and origin.lower().partition("://")[2] != host:
            return ApiError(
                403,
                f"pages of {origin!r:.80} may not ask this server: start it with --cors and their origin to let them",
                code="forbidden_origin",
            )
        name = _name(host)
        server = scope.get("server") or ("", None)
        # every browser says whom it asks, plain programs of HTTP/1.0 needn't
        is_open = self._has_keys or not _is_loopback(server[0]) or "host" not in headers
        if is_open or _is_loopback(name) or name in self._hosts:
            return None
        return ApiError(
            403,
            f"this server answers to localhost and not to {name!r:.80}: ask http://localhost, or start it with "
            "--api-key, or with --cors and the origin to let in",
            code="forbidden_host",
        )


def _name(host: str) -> str:
    """A host's name, without its port."""
    try:
        return (urlsplit(f"//{host}").hostname or "").removesuffix(".")
    except ValueError:
        return ""


def _is_loopback(name: str) -> bool:
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
