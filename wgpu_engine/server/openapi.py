"""The API's description, for machines and for people."""

import html
from typing import Any

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from wgpu_engine import __version__
from wgpu_engine.server.schemas import (
    ChatRequest,
    CompletionRequest,
    DetokenizeRequest,
    TemplateRequest,
    TokenizeRequest,
)

_ROUTES: tuple[tuple[str, str, str, type[BaseModel] | None], ...] = (
    ("/v1/chat/completions", "post", "Answer a conversation, streaming or whole.", ChatRequest),
    ("/v1/completions", "post", "Continue texts or token ids, streaming or whole.", CompletionRequest),
    ("/v1/models", "get", "The models that are served.", None),
    ("/v1/models/{name}", "get", "One model.", None),
    ("/tokenize", "post", "Token ids of a text.", TokenizeRequest),
    ("/detokenize", "post", "The text of token ids.", DetokenizeRequest),
    ("/apply-template", "post", "The prompt that a conversation becomes.", TemplateRequest),
    ("/health", "get", "Whether the server answers; needs no key.", None),
    ("/props", "get", "What the server runs on.", None),
    ("/slots", "get", "What each slot does.", None),
    ("/metrics", "get", "Figures for Prometheus.", None),
)
_FAILURES = {
    "400": "A field can't be; the message names it.",
    "401": "The API key is missing or wrong.",
    "404": "No such model.",
    "413": "The body is too large.",
    "503": "Too many requests wait, or the device failed; try again later.",
}


def _document() -> dict[str, Any]:
    paths: dict[str, Any] = {}
    schemas: dict[str, Any] = {}
    for path, method, summary, model in _ROUTES:
        operation: dict[str, Any] = {"summary": summary, "responses": {"200": {"description": "As asked for."}}}
        operation["responses"] |= {status: {"description": text} for status, text in _FAILURES.items()}
        if model is not None:
            schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
            schemas |= schema.pop("$defs", {})
            schemas[model.__name__] = schema
            content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}}}
            operation["requestBody"] = {"required": True, "content": content}
        if "{name}" in path:
            operation["parameters"] = [{"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}]
        paths.setdefault(path, {})[method] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "wgpu_engine", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}, {}],
    }


async def schema(_request: Request) -> Response:
    """`GET /openapi.json`."""
    return JSONResponse(_document())


async def page(request: Request) -> Response:
    """`GET /docs`: the routes, for people."""
    rows = "".join(
        f"<tr><td><code>{method.upper()} {html.escape(path)}</code></td><td>{html.escape(text)}</td></tr>"
        for path, method, text, _ in _ROUTES
    )
    model = html.escape(request.app.state.model_name)
    return HTMLResponse(
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        "<title>wgpu_engine</title><style>:root{color-scheme:light dark}body{font:16px/1.5 system-ui;max-width:48rem;"
        "margin:2rem auto;padding:0 1rem}td{padding:.3rem 1rem .3rem 0;vertical-align:top}</style>"
        f"<h1>wgpu_engine</h1><p>Serving <b>{model}</b> over OpenAI's API; <a href=/openapi.json>openapi.json</a> "
        f"describes it.</p><table>{rows}</table></html>"
    )
