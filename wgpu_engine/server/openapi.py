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
    EmbeddingRequest,
    TemplateRequest,
    TokenizeRequest,
)

_TYPES = {str: "string", int: "integer", list: "array", dict: "object"}


def _schema_of(example: Any) -> dict[str, Any]:
    """What is like an example, more fields allowed."""
    found: dict[str, Any] = {"type": _TYPES[type(example)]}
    if isinstance(example, dict) and example:
        found |= {"properties": {name: _schema_of(value) for name, value in example.items()}, "required": list(example)}
    elif isinstance(example, list) and example:
        found["items"] = _schema_of(example[0])
    return found


def _json(**fields: Any) -> dict[str, Any]:
    return {"application/json": {"schema": _schema_of(fields)}}


_USAGE = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
_ANSWER = _json(id="", object="", created=0, model="", choices=[{"index": 0}], usage=_USAGE) | {
    "text/event-stream": {"schema": {"type": "string"}}
}
_ERROR = _schema_of({"error": {"message": "", "type": ""}})
_OF_ALL = {"401": "The API key is missing or wrong."}
_OF_BODIES = {
    "400": "A field can't be; the message names it.",
    "408": "The body came too slowly.",
    "413": "The body is too large.",
}
_OF_MODELS = {
    "404": "No such model.",
    "503": "Too many requests wait, or the device failed; try again later.",
}
_ROUTES: tuple[tuple[str, str, str, type[BaseModel] | None, dict[str, Any]], ...] = (
    ("/v1/chat/completions", "post", "Answer a conversation, streaming or whole.", ChatRequest, _ANSWER),
    ("/v1/completions", "post", "Continue texts or token ids, streaming or whole.", CompletionRequest, _ANSWER),
    ("/v1/embeddings", "post", "Embeddings of texts, by an encoder.", EmbeddingRequest, _json(object="list", data=[])),
    ("/v1/models", "get", "The models that are served.", None, _json(object="list", data=[])),
    ("/v1/models/{name}", "get", "One model.", None, _json(id="", object="model", created=0)),
    ("/tokenize", "post", "Token ids of a text.", TokenizeRequest, _json(tokens=[0])),
    ("/detokenize", "post", "The text of token ids.", DetokenizeRequest, _json(content="")),
    ("/apply-template", "post", "The prompt of a conversation.", TemplateRequest, _json(prompt="", tokens=[0])),
    ("/health", "get", "Whether the server answers; needs no key.", None, _json(status="ok")),
    ("/props", "get", "What the server runs on.", None, _json(version="", model={}, total_slots=0)),
    ("/slots", "get", "What each slot does.", None, {"application/json": {"schema": {"type": "array"}}}),
    ("/metrics", "get", "Figures for Prometheus.", None, {"text/plain": {"schema": {"type": "string"}}}),
)


def _document(served: set[str]) -> dict[str, Any]:
    paths: dict[str, Any] = {}
    schemas: dict[str, Any] = {"Error": _ERROR}
    for path, method, summary, model, content in _ROUTES:
        if path not in served:
            continue
        failures = (_OF_BODIES if model else {}) | (_OF_MODELS if path.startswith("/v1/") else {})
        operation: dict[str, Any] = {
            "summary": summary,
            "responses": {"200": {"description": "As asked for.", "content": content}}
            | {
                status: {
                    "description": text,
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
                }
                for status, text in (_OF_ALL | failures).items()
            },
        }
        if model is not None:
            schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
            schemas |= schema.pop("$defs", {})
            schemas[model.__name__] = schema
            wanted = {"application/json": {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}}}
            operation["requestBody"] = {"required": True, "content": wanted}
        if "{name}" in path:
            operation["parameters"] = [{"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}]
        paths[path] = {method: operation}
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


def _served(request: Request) -> set[str]:
    return {route.path.replace(":path", "") for route in request.app.routes}


async def schema(request: Request) -> Response:
    """`GET /openapi.json`."""
    return JSONResponse(_document(_served(request)))


async def page(request: Request) -> Response:
    """`GET /docs`: the routes, for people."""
    served = _served(request)
    rows = "".join(
        f"<tr><td><code>{method.upper()} {html.escape(path)}</code></td><td>{html.escape(text)}</td></tr>"
        for path, method, text, *_ in _ROUTES
        if path in served
    )
    model = html.escape(request.app.state.model_name)
    return HTMLResponse(
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        "<title>wgpu_engine</title><style>:root{color-scheme:light dark}body{font:16px/1.5 system-ui;max-width:48rem;"
        "margin:2rem auto;padding:0 1rem}td{padding:.3rem 1rem .3rem 0;vertical-align:top}</style>"
        f"<h1>wgpu_engine</h1><p>Serving <b>{model}</b> over OpenAI's API; <a href=/openapi.json>openapi.json</a> "
        f"describes it.</p><table>{rows}</table></html>"
    )
