"""Reads request bodies, bounded, into their schemas."""

from typing import TypeVar

from pydantic import BaseModel
from starlette.requests import ClientDisconnect, Request

from wgpu_engine.server.errors import ApiError

_Schema = TypeVar("_Schema", bound=BaseModel)


async def read(request: Request, schema: type[_Schema]) -> _Schema:
    """The body, checked.

    Raises:
        ApiError: it is larger than the server takes, or the client left.
        ValidationError: it is no JSON, or a field can't be.
    """
    most: int = request.app.state.most_body_bytes
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > most:
                raise ApiError(413, f"the body is larger than {most >> 20} MiB: send less")
    except ClientDisconnect:
        raise ApiError(400, "the client left before its body was whole") from None
    return schema.model_validate_json(bytes(body))
