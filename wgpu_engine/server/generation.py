"""Answers of one request: several at a time, merged into one stream."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, TypeVar

from starlette.requests import Request

from wgpu_engine.engine.answers import Chunk
from wgpu_engine.engine.sampling import SamplingParams
from wgpu_engine.engine.sequence import Timings
from wgpu_engine.engine.service import Service
from wgpu_engine.ops.top_tokens import TokenLogProbs
from wgpu_engine.server.errors import ApiError
from wgpu_engine.server.metrics import Metrics

_T = TypeVar("_T")


@dataclass(frozen=True)
class Job:
    """An answer that is asked for."""

    ids: list[int]
    params: SamplingParams
    continues: bool
    """whether its text goes on from the prompt's"""
    scores: list[TokenLogProbs] | None = None
    """gets those of the prompt's tokens after the first, before the first chunk"""


@dataclass
class Usage:
    """Tokens that a request took, as OpenAI counts them: a prompt once, however many answers it has."""

    n: int
    """answers of each prompt, which follow each other"""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    timings: list[Timings] = field(default_factory=list)
    """of the answers that have ended"""

    def add(self, number: int, chunk: Chunk) -> None:
        """Counts an answer at its last chunk."""
        timings = chunk.timings
        if timings is None:
            return
        self.timings.append(timings)
        self.completion_tokens += timings.completion_tokens
        if number % self.n == 0:
            self.prompt_tokens += timings.prompt_tokens
            self.cached_tokens += timings.cached_tokens

    def as_json(self) -> dict[str, Any]:
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens},
        }

    def timings_json(self) -> dict[str, dict[str, float]]:
        """Timings, named as llama.cpp does; none of several answers, whose times overlap."""
        if len(self.timings) != 1:
            return {}
        first = self.timings[0]
        timings = {
            "prompt_n": first.prompt_tokens - first.cached_tokens,
            "cache_n": first.cached_tokens,
            "prompt_ms": 1e3 * first.prompt_s,
            "prompt_per_token_ms": _each(first.prompt_s, first.prompt_tokens - first.cached_tokens),
            "prompt_per_second": first.prompt_per_s,
            "predicted_n": first.completion_tokens,
            "predicted_ms": 1e3 * first.decode_s,
            "predicted_per_token_ms": _each(first.decode_s, first.completion_tokens - 1),
            "predicted_per_second": first.decode_per_s,
        }
        return {"timings": timings}


def _each(seconds: float, count: int) -> float:
    """ms for each of so many."""
    return 1e3 * seconds / count if count > 0 else 0.0


async def merged(service: Service, metrics: Metrics, jobs: Sequence[Job]) -> AsyncGenerator[tuple[int, Chunk], None]:
    """The chunks of all jobs as they come, each with the job's number; closing it cancels what still runs."""
    queue: asyncio.Queue[tuple[int, Chunk | Exception | None]] = asyncio.Queue()

    async def pump(number: int, job: Job) -> None:
        reason = "cancelled"
        timings = Timings()
        try:
            answer = service.answer(job.ids, job.params, continues=job.continues, scores=job.scores)
            async with aclosing(answer) as chunks:
                async for chunk in chunks:
                    if chunk.finish_reason and chunk.timings:
                        reason, timings = chunk.finish_reason, chunk.timings
                    queue.put_nowait((number, chunk))
            queue.put_nowait((number, None))
        except Exception as error:
            reason = "error"
            queue.put_nowait((number, error))
        finally:
            metrics.note(timings, reason)

    tasks = [asyncio.create_task(pump(number, job)) for number, job in enumerate(jobs)]
    try:
        left = len(tasks)
        while left:
            number, event = await queue.get()
            if isinstance(event, Exception):
                raise event
            if event is None:
                left -= 1
            else:
                yield number, event
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def unless_gone(request: Request, work: Coroutine[Any, Any, _T]) -> _T:
    """The result of work, which is cancelled where the client leaves before.

    Raises:
        ApiError: the client left.
    """
    task = asyncio.ensure_future(work)
    watch = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait([task, watch], return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ApiError(499, "the client left")
    finally:
        for each in (task, watch):
            each.cancel()
        await asyncio.gather(task, watch, return_exceptions=True)


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
