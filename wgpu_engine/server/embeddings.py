"""`POST /v1/embeddings`, and the model behind it."""

import asyncio
import base64
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from wgpu_engine.engine.embedder import Embedder
from wgpu_engine.engine.loading import Progress
from wgpu_engine.errors import DeviceLostError, QueueFullError, RequestError
from wgpu_engine.server.body import read
from wgpu_engine.server.errors import ApiError, blaming
from wgpu_engine.server.generation import unless_gone
from wgpu_engine.server.schemas import EmbeddingRequest
from wgpu_engine.server.state import check_model


class EmbeddingService:
    """An encoder for the requests of one event loop, one at a time; loaded again after a loss of its device."""

    def __init__(
        self, model: str | Path, options: dict[str, Any], *, queue: int = 64, progress: Progress | None = None
    ) -> None:
        """Loads the model with `options` of `Embedder`; up to `queue` requests wait. Raises like `Embedder`."""
        self._model, self._options, self._queue = model, options, queue
        self.embedder = Embedder(model, **options, progress=progress)
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._lost = False

    async def embed(self, texts: list[list[int]]) -> list[bytes]:
        """Embeddings f32 of length 1 of token ids, as bytes.

        Raises:
            RequestError: ids that can't be.
            QueueFullError: too many requests wait already.
            DeviceError: the device failed; after a loss the next request loads the model again.
        """
        if self._waiting > self._queue:
            raise QueueFullError(f"{self._queue} requests wait already: try again later")
        self._waiting += 1
        try:
            async with self._turn:
                if self._lost:
                    self.embedder.close()
                    self.embedder = await asyncio.to_thread(Embedder, self._model, **self._options)
                    self._lost = False
                try:
                    return [row.tobytes() for row in await self.embedder.aembed(texts)]
                except DeviceLostError:
                    self._lost = True
                    raise
        finally:
            self._waiting -= 1

    def close(self) -> None:
        self.embedder.close()


async def embeddings(request: Request) -> Response:
    """`POST /v1/embeddings`."""
    asked = await read(request, EmbeddingRequest)
    check_model(request, asked.model)
    service: EmbeddingService = request.app.state.embeddings
    width = service.embedder.width
    if asked.dimensions not in (None, width):
        message = f"dimensions can't be {asked.dimensions}: embeddings of this model have {width} values, leave it out"
        raise ApiError(400, message, param="dimensions")
    inputs = asked.inputs()
    if not inputs:
        raise ApiError(400, "input is empty: give a text or token ids", param="input")
    with blaming("input"):
        ids = [await asyncio.to_thread(_ids, service.embedder, each) for each in inputs]
        rows = await unless_gone(request, service.embed(ids))
    data = [
        {"object": "embedding", "index": index, "embedding": _written(row, asked.encoding_format == "base64")}
        for index, row in enumerate(rows)
    ]
    count = sum(map(len, ids))
    usage = {"prompt_tokens": count, "total_tokens": count}
    return JSONResponse({"object": "list", "data": data, "model": request.app.state.model_name, "usage": usage})


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


def _written(row: bytes, as_base64: bool) -> str | list[float]:
    return base64.b64encode(row).decode() if as_base64 else [float(value) for value in memoryview(row).cast("f")]
