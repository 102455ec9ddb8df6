"""Reads request bodies, bounded, into their schemas."""

import asyncio
from typing import TypeVar

from pydantic import BaseModel
from starlette.requests import ClientDisconnect, Request

from wgpu_engine.server.errors import ApiError

_Schema = TypeVar("_Schema", bound=BaseModel)
_PATIENCE_S = 60.0
"""for a body to come whole"""
_DRAINED = 8
"""times what is taken is read of a body that is too large, since many clients look for an answer only after sending"""


async def read(request: Request, schema: type[_Schema]) -> _Schema:
    """The body, checked.

    Raises:
        ApiError: it is larger than the server takes, comes too slowly, or the client left.
        ValidationError: it is no JSON, or a field can't be.
    """
    most: int = request.app.state.most_body_bytes
    body = bytearray()
    size = 0
    try:
        async with asyncio.timeout(_PATIENCE_S):
            async for chunk in request.stream():
                size += len(chunk)
                if size <= most:
                    body += chunk
                elif size > _DRAINED * most:
                    break
    except ClientDisconnect:
        raise ApiError(400, "the client left before its body was whole") from None
    except TimeoutError:
        raise ApiError(408, f"the body was not whole after {_PATIENCE_S:g} seconds: send it faster") from None
    if size > most:
        raise ApiError(413, f"the body is larger than {most:,} bytes: send less")
    return schema.model_validate_json(bytes(body))
