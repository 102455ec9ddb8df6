"""`POST /v1/embeddings`, and what a server with an encoder says of itself."""

import asyncio
import base64
import math
import time
from array import array

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from wgpu_engine import __version__
from wgpu_engine.engine.embedder import Embedder
from wgpu_engine.errors import RequestError
from wgpu_engine.server.body import read
from wgpu_engine.server.embedding_service import EmbeddingService
from wgpu_engine.server.errors import ApiError, blaming
from wgpu_engine.server.generation import Usage, unless_gone
from wgpu_engine.server.metrics import EmbeddingMetrics
from wgpu_engine.server.schemas import EmbeddingRequest
from wgpu_engine.server.state import check_model, model_json


async def embeddings(request: Request) -> Response:
    """`POST /v1/embeddings`."""
    asked = await read(request, EmbeddingRequest)
    check_model(request, asked.model)
    service: EmbeddingService = request.app.state.embeddings
    width = asked.dimensions or service.embedder.width
    if width > service.embedder.width:
        message = f"dimensions can't be {width}: embeddings of this model have {service.embedder.width} values"
        raise ApiError(400, message, param="dimensions")
    inputs = asked.inputs()
    if not inputs:
        raise ApiError(400, "input is empty: give a text or token ids", param="input")
    with blaming("input"):
        ids = [await asyncio.to_thread(_ids, service.embedder, each) for each in inputs]
        rows = await _embed(request, service, ids)
    data = [
        {"object": "embedding", "index": index, "embedding": _written(row, width, asked.encoding_format == "base64")}
        for index, row in enumerate(rows)
    ]
    count = sum(map(len, ids))
    request.state.usage = Usage(1, prompt_tokens=count)
    usage = {"prompt_tokens": count, "total_tokens": count}
    return JSONResponse({"object": "list", "data": data, "model": request.app.state.model_name, "usage": usage})


async def _embed(request: Request, service: EmbeddingService, ids: list[list[int]]) -> list[bytes]:
    """The embeddings of texts, counted."""
    metrics: EmbeddingMetrics = request.app.state.metrics
    start, reason = time.perf_counter(), "cancelled"
    try:
        rows = await unless_gone(request, service.embed(ids))
        reason = "done"
        return rows
    except ApiError:
        raise
    except Exception:
        reason = "error"
        raise
    finally:
        metrics.note(time.perf_counter() - start, sum(map(len, ids)), reason)


async def props(request: Request) -> Response:
    """`GET /props`."""
    embedder = request.app.state.embeddings.embedder
    return JSONResponse(
        {
            "version": __version__,
            "model": model_json(request),
            "adapter": embedder.adapter.name,
            "precision": embedder.precision,
            "total_slots": 1,
            "warnings": embedder.warnings,
        }
    )


async def slots(request: Request) -> Response:
    """`GET /slots`: one, since requests are embedded one after the other."""
    service: EmbeddingService = request.app.state.embeddings
    return JSONResponse([{"id": 0, "is_processing": service.running > 0}])


async def no_embeddings(_request: Request) -> Response:
    """`POST /v1/embeddings` of a language model."""
    raise ApiError(
        400,
        "this server has a language model, which makes no embeddings: serve a BERT, such as minilm",
        param="model",
        code="unsupported",
    )


async def no_writing(_request: Request) -> Response:
    """Completions of an encoder."""
    raise ApiError(
        400,
        "this server has an encoder, which makes embeddings and can't write: serve a language model, such as smollm2",
        param="model",
        code="unsupported",
    )


def _ids(embedder: Embedder, text: str | list[int]) -> list[int]:
    if isinstance(text, str):
        embedder.tokenizer.check_fits(text, embedder.max_tokens)
    ids = embedder.tokenizer.encode(text) if isinstance(text, str) else text
    if not ids:
        raise RequestError("an input is empty: leave it out")
    if len(ids) > embedder.max_tokens:
        raise ApiError(
            400,
            f"an input has {len(ids)} tokens and the model takes {embedder.max_tokens}: shorten it",
            param="input",
            code="context_length_exceeded",
        )
    return ids


def _written(row: bytes, width: int, as_base64: bool) -> str | list[float]:
    """An embedding's first `width` values, of length 1 again."""
    values = array("f", row)
    if width < len(values):
        values = values[:width]
        length = math.sqrt(math.fsum(value * value for value in values)) or 1.0
        values = array("f", [value / length for value in values])
    return base64.b64encode(values.tobytes()).decode() if as_base64 else values.tolist()
