"""Errors in the shape that OpenAI's API gives them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from wgpu_engine.errors import ContextFullError, DeviceError, EngineError, QueueFullError, RequestError
from wgpu_engine.server.draining import DrainingResponse
from wgpu_engine.server.log import HEADER, request_id


class ApiError(Exception):
    """A request that is refused, with its status and the field that is to blame."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.param, self.code = status, message, param, code
        self.headers = dict(headers or {})


def api_error(error: Exception) -> ApiError:
    """What to answer for an error."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        param = ".".join(map(str, first["loc"]))
        message = _sentence(first["type"], first["msg"], first.get("ctx", {}))
        return ApiError(400, f"{param}: {message}" if param else message, param=param or None)
    if isinstance(error, ContextFullError):
        return ApiError(400, str(error), code="context_length_exceeded")
    if isinstance(error, RequestError):
        return ApiError(400, str(error))
    if isinstance(error, QueueFullError):
        return ApiError(503, str(error), code="overloaded")
    if isinstance(error, DeviceError):
        return ApiError(503, str(error), code="device")
    if isinstance(error, EngineError):
        return ApiError(500, str(error))
    if isinstance(error, HTTPException):
        return ApiError(error.status_code, error.detail, headers=error.headers)
    return ApiError(500, "the server failed: try again, and report it if it comes back")


def _sentence(kind: str, message: str, context: Mapping[str, Any]) -> str:
    """What the library says of a field, in our words where its own speak of Python."""
    if kind == "string_pattern_mismatch":
        return "keys should be token ids, written in digits"
    if kind == "too_long":
        return f"more than {context['max_length']} entries are not taken: give fewer"
    if kind == "json_invalid" and ("surrogate" in message or "escape" in message or "code point" in message):
        return f"the body is not valid Unicode, maybe half of a surrogate pair: remove or replace it ({message})"
    return message


def error_body(error: ApiError) -> dict[str, Any]:
    """The JSON object of an error."""
    kind = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}.get(error.status)
    kind = kind or ("invalid_request_error" if error.status < 500 else "server_error")
    return {"error": {"message": error.message, "type": kind, "param": error.param, "code": error.code}}


def error_response(error: ApiError) -> Response:
    headers = error.headers | ({"Retry-After": "1"} if error.status in (429, 503) else {})
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    kind = DrainingResponse if error.status == 413 else JSONResponse
    return kind(error_body(error), error.status, headers)


async def handle_error(request: Request, error: Exception) -> Response:
    """For Starlette's table of handlers."""
    found = api_error(error)
    if isinstance(error, HTTPException) and error.status_code in (404, 405):
        found.message = f"there is no {request.method} {request.url.path!r:.80} here: see /docs"
    response = error_response(found)
    # faults of ours are answered outside of the middleware that gives others their id
    response.headers[HEADER] = request_id() or ""
    return response


@contextmanager
def blaming(field: str) -> Iterator[None]:
    """Names a field in the errors of requests that arise within."""
    try:
        yield
    except RequestError as error:
        found = api_error(error)
        found.param = field
        if field not in found.message:
            found.message = f"{field}: {found.message}"
        raise found from error
