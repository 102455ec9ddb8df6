"""An answer to a body that nobody wants whole."""

import asyncio
from contextlib import suppress

from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

_MOST_BYTES = 64 << 20
_PATIENCE_S = 10.0


class DrainingResponse(JSONResponse):
    """JSON that is sent at once, after which some of what still comes of the request is thrown away.

    Many clients look for an answer only after sending, and one whose connection is closed before may never see it.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
        size = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_S):
                while size < _MOST_BYTES:
                    message = await receive()
                    if message["type"] != "http.request" or not message.get("more_body", False):
                        break
                    size += len(message["body"])
        await send({"type": "http.response.body", "body": b"", "more_body": False})
