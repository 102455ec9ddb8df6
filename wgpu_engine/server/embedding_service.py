"""An encoder for the requests of an event loop."""

import asyncio
from pathlib import Path
from typing import Any

from wgpu_engine.engine.embedder import Embedder
from wgpu_engine.engine.loading import Progress
from wgpu_engine.errors import DeviceLostError, QueueFullError


class EmbeddingService:
    """An encoder for the requests of one event loop, which take turns; loaded again after a loss of its device."""

    def __init__(
        self, model: str | Path, options: dict[str, Any], *, queue: int = 64, progress: Progress | None = None
    ) -> None:
        """Loads the model with `options` of `Embedder`; up to `queue` requests wait. Raises like `Embedder`."""
        self._model, self._options, self._queue = model, options, queue
        self.embedder = Embedder(model, **options, progress=progress)
        self._turn = asyncio.Lock()
        self._requests = 0
        self._lost = False

    @property
    def running(self) -> int:
        """Requests that something is computed of right now: one or none."""
        return int(self._turn.locked())

    @property
    def waiting(self) -> int:
        """Requests that wait for their turn."""
        return max(0, self._requests - self.running)

    async def embed(self, texts: list[list[int]]) -> list[bytes]:
        """Embeddings f32 of length 1 of token ids, as bytes.

        Raises:
            RequestError: ids that can't be.
            QueueFullError: too many requests wait already.
            DeviceError: the device failed; after a loss the next request loads the model again.
        """
        if self._requests > self._queue:
            raise QueueFullError(f"{self._queue} requests wait already: try again later")
        self._requests += 1
        try:
            found = [b""] * len(texts)
            for step in self.embedder.steps([len(ids) for ids in texts]):
                # a lock that is given in order of asking: a long request lets others in after each step
                async with self._turn:
                    made = await self._step([texts[number] for number in step])
                for number, row in zip(step, made, strict=True):
                    found[number] = row
            return found
        finally:
            self._requests -= 1

    async def _step(self, texts: list[list[int]]) -> list[bytes]:
        if self._lost:
            self.embedder.close()
            self.embedder = await asyncio.to_thread(Embedder, self._model, **self._options)
            self._lost = False
        try:
            return [row.tobytes() for row in await self.embedder.aembed(texts)]
        except DeviceLostError:
            self._lost = True
            raise

    def close(self) -> None:
        self.embedder.close()
