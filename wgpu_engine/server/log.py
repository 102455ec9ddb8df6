"""Logs as lines of JSON, and the ids that requests go by in them."""

import asyncio
import json
import logging
import re
import secrets
import sys
import time
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADER = "X-Request-Id"
_SOUND = re.compile(r"[A-Za-z0-9._~:+/=-]{1,128}")
_request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
_log = logging.getLogger("wgpu_engine.server")


def request_id() -> str | None:
    """Of the request that this task is answering."""
    return _request_id.get()


class JsonLines(logging.Formatter):
    """A record as a JSON object on a line of its own, whatever it holds: what is no printable ASCII is escaped."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if (known := request_id()) is not None:
            line["request_id"] = known
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def _is_news(record: logging.LogRecord) -> bool:
    """Not that a request was cut off, which those who do it know."""
    return record.exc_info is None or record.exc_info[0] is not asyncio.CancelledError


def log_to_stderr(*, requests: bool) -> None:
    """Has this process write warnings to stderr as lines of JSON, and `requests` if wanted.

    What uvicorn warns of is what clients do wrong: that goes with the requests, so that nobody fills logs from outside.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    handler.addFilter(_is_news)
    for name in ("wgpu_engine", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(logging.WARNING)
        logger.propagate = False
    logging.getLogger("uvicorn").setLevel(logging.WARNING if requests else logging.ERROR)
    _log.setLevel(logging.INFO if requests else logging.NOTSET)


class RequestLog:
    """Middleware that gives every request an id, its own if it has a sound one, and logs requests when they are done.

    The id goes back with every reply. A log has no text of prompts or answers, only their lengths in tokens.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get(HEADER, "")
        own_id = given if _SOUND.fullmatch(given) else secrets.token_hex(16)
        _request_id.set(own_id)
        status, complete, start = 0, False, time.perf_counter()

        async def answering(message: Message) -> None:
            nonlocal status, complete
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[HEADER] = own_id
            elif message["type"] == "http.response.body":
                complete = not message.get("more_body", False)
            await send(message)

        try:
            await self._app(scope, receive, answering)
        except Exception:
            status = 500
            raise
        finally:
            if _log.isEnabledFor(logging.INFO):
                client = scope.get("client")
                fields = {
                    "method": scope["method"],
                    "path": scope["path"],
                    "status": status,
                    "complete": complete,
                    "duration_ms": round(1e3 * (time.perf_counter() - start), 3),
                    "client": client[0] if client else None,
                }
                usage = scope.get("state", {}).get("usage")
                if usage is not None:
                    fields |= {"prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens}
                _log.info("request", extra={"fields": fields})
