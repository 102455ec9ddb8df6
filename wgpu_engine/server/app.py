"""The ASGI application."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route

from wgpu_engine.engine.service import Service
from wgpu_engine.errors import EngineError
from wgpu_engine.server import completions, embeddings, openapi, page, state, texts
from wgpu_engine.server.auth import ApiKeys
from wgpu_engine.server.embedding_service import EmbeddingService
from wgpu_engine.server.errors import ApiError, handle_error
from wgpu_engine.server.log import HEADER, RequestLog
from wgpu_engine.server.metrics import EmbeddingMetrics, Metrics, metrics
from wgpu_engine.server.origins import Origins, checked_origins

_BODY_BYTES = 8 << 20
_ERRORS = (ApiError, ValidationError, EngineError, HTTPException, Exception)
PATIENCE_S = 30.0
"""that answers which still run at the end get"""


def create_app(
    service: Service,
    model_name: str,
    *,
    api_keys: Sequence[str] = (),
    cors: Sequence[str] = (),
    most_body_bytes: int = _BODY_BYTES,
    patience_s: float = PATIENCE_S,
) -> Starlette:
    """An application for any ASGI server; at its end it closes the service. Raises RequestError for a wrong origin.

    Args:
        model_name: what clients call the model.
        api_keys: one of them is asked for on every route but `/health` and the page; none lets everybody in.
        cors: origins whose pages may call, `*` for all.
        most_body_bytes: of a request.
        patience_s: seconds that running answers get at the end.
    """

    app = _application(
        [
            Route("/v1/chat/completions", completions.chat_completions, methods=["POST"]),
            Route("/v1/completions", completions.completions, methods=["POST"]),
            Route("/v1/embeddings", embeddings.no_embeddings, methods=["POST"]),
            Route("/apply-template", texts.apply_template, methods=["POST"]),
            Route("/props", state.props),
            Route("/slots", state.slots),
        ],
        partial(service.close, patience_s),
        model_name,
        api_keys,
        cors,
        most_body_bytes,
    )
    app.state.service = service
    app.state.metrics = Metrics(service)
    app.state.patience_s = patience_s
    app.state.description = service.loaded.description
    app.state.context = service.loaded.engine.ctx_size
    app.state.tokenizer = service.loaded.tokenizer
    return app


def create_embeddings_app(
    service: EmbeddingService,
    model_name: str,
    *,
    api_keys: Sequence[str] = (),
    cors: Sequence[str] = (),
    most_body_bytes: int = _BODY_BYTES,
) -> Starlette:
    """The same for an encoder, which serves embeddings and nothing else."""
    app = _application(
        [
            Route("/v1/chat/completions", embeddings.no_writing, methods=["POST"]),
            Route("/v1/completions", embeddings.no_writing, methods=["POST"]),
            Route("/v1/embeddings", embeddings.embeddings, methods=["POST"]),
            Route("/props", embeddings.props),
            Route("/slots", embeddings.slots),
        ],
        service.close,
        model_name,
        api_keys,
        cors,
        most_body_bytes,
    )
    app.state.embeddings = service
    app.state.metrics = EmbeddingMetrics(service)
    app.state.description = service.embedder.description
    app.state.context = service.embedder.max_tokens
    app.state.tokenizer = service.embedder.tokenizer
    return app


def _application(
    routes: list[Route],
    close: Callable[[], None],
    model_name: str,
    api_keys: Sequence[str],
    cors: Sequence[str],
    most_body_bytes: int,
) -> Starlette:
    """An application with these routes and those that all have."""

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncGenerator[None, None]:
        yield
        await asyncio.to_thread(close)

    origins = checked_origins(cors)
    middleware = [Middleware(Origins, allowed=origins, has_keys=bool(api_keys)), Middleware(ApiKeys, keys=api_keys)]
    if origins:
        # outside of the keys: browsers ask beforehand without one
        shown = [HEADER, "Retry-After"]
        pages = Middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
            expose_headers=shown,
        )
        middleware.insert(0, pages)
    middleware.insert(0, Middleware(RequestLog))
    app = Starlette(
        routes=[
            *routes,
            *page.routes(),
            Route("/v1/models", state.models),
            Route("/v1/models/{name:path}", state.model),
            Route("/tokenize", texts.tokenize, methods=["POST"]),
            Route("/detokenize", texts.detokenize, methods=["POST"]),
            Route("/v1/responses", completions.not_served, methods=["POST"]),
            Route("/v1/messages", completions.not_served, methods=["POST"]),
            Route("/health", state.health),
            Route("/metrics", metrics),
            Route("/openapi.json", openapi.schema),
            Route("/docs", openapi.page),
        ],
        middleware=middleware,
        exception_handlers=dict.fromkeys(_ERRORS, handle_error),
        lifespan=lifespan,
    )
    app.state.model_name = model_name
    app.state.started = int(time.time())
    app.state.most_body_bytes = most_body_bytes
    return app
