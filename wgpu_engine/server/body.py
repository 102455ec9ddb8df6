"""Reads request bodies, bounded, into their schemas."""

import asyncio
from typing import TypeVar

from pydantic import BaseModel
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request

from wgpu_engine.server.errors import ApiError

_Schema = TypeVar("_Schema", bound=BaseModel)
_PATIENCE_S = 60.0
"""for a body to come whole"""


async def read(request: Request, schema: type[_Schema]) -> _Schema:
    """The body, checked.

    Raises:
        ApiError: it is larger than the server takes, comes too slowly, or the client left.
        ValidationError: it is no JSON, or a field can't be.
    """
    most: int = request.app.state.most_body_bytes
    _check_head(request.headers, most)
    body = bytearray()
    try:
        async with asyncio.timeout(_PATIENCE_S):
            async for chunk in request.stream():
                if len(body) + len(chunk) > most:
                    raise _too_large(most)
                body += chunk
    except ClientDisconnect:
        raise ApiError(400, "the client left before its body was whole") from None
    except TimeoutError:
        raise ApiError(408, f"the body was not whole after {_PATIENCE_S:g} seconds: send it faster") from None
    return schema.model_validate_json(bytes(body))


def _check_head(headers: Headers, most: int) -> None:
    """Refuses what needs no reading."""
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise ApiError(415, f"bodies can't be compressed ({encoding:.20}): send plain JSON")
    length = headers.get("content-length", "")
    if length.isdecimal() and int(length[:20]) > most:
        raise _too_large(most)


def _too_large(most: int) -> ApiError:
    return ApiError(413, f"the body is larger than {most:,} bytes: send less")
