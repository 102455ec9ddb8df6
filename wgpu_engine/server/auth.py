"""API keys."""

import hmac
from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from wgpu_engine.server import page
from wgpu_engine.server.errors import ApiError, error_response


class ApiKeys:
    """Middleware that asks for one of the keys on every route but `/health` and the page's; none lets all in."""

    def __init__(self, app: ASGIApp, keys: Sequence[str]) -> None:
        self._app = app
        self._keys = [key.encode() for key in keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_open = scope["type"] != "http" or scope["path"] == "/health" or page.is_open(scope["path"])
        if is_open or not self._keys or self._knows(Headers(scope=scope)):
            await self._app(scope, receive, send)
            return
        error = ApiError(401, "the API key is missing or wrong: send it as a bearer token", code="invalid_api_key")
        await error_response(error)(scope, receive, send)

    def _knows(self, headers: Headers) -> bool:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        offered = given.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
        # every key is compared, so that the time tells nothing
        found = [hmac.compare_digest(key, offered.encode("latin-1")) for key in self._keys]
        return any(found)
