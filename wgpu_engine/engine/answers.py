"""Answers, whole and in pieces."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from wgpu_engine.engine.sampling import SamplingParams
from wgpu_engine.engine.sequence import Sampled, Timings
from wgpu_engine.engine.turns import Turns
from wgpu_engine.ops.top_tokens import TokenLogProbs
from wgpu_engine.platform.drive import drive
from wgpu_engine.text.detokenizer import Detokenizer
from wgpu_engine.text.stop import StopStrings
from wgpu_engine.text.tokenizer import Tokenizer

FinishReason = Literal["stop", "length"]
_T = TypeVar("_T")


@dataclass(frozen=True)
class Chunk:
    """A piece of an answer; the last one has a finish reason and the timings."""

    text: str
    tokens: list[int]
    finish_reason: FinishReason | None = None
    timings: Timings | None = None
    logprobs: list[TokenLogProbs] | None = None
    """of each of the tokens, where that was asked for"""


@dataclass(frozen=True)
class Completion:
    """A whole answer."""

    text: str
    tokens: list[int]
    finish_reason: FinishReason
    timings: Timings
    logprobs: list[TokenLogProbs] | None = None
    """of each of the tokens, where that was asked for"""


async def answer(
    tokens: AsyncGenerator[Sampled, None],
    tokenizer: Tokenizer,
    params: SamplingParams,
    timings: Timings,
    after: int | None = None,
) -> AsyncGenerator[Chunk, None]:
    """The text of tokens piece by piece, up to an end token, a stop string or the last of them.

    `after` is the token before, where the text continues another.
    """
    detokenizer, stops = Detokenizer(tokenizer, after=after), StopStrings(params.stop or ())
    end_ids = () if params.ignore_eos else tokenizer.vocabulary.end_ids
    held: list[Sampled] = []
    reason: FinishReason = "length"

    def chunk(text: str, finish_reason: FinishReason | None = None) -> Chunk:
        likely = [each for _, each in held if each is not None] if params.logprobs is not None else None
        return Chunk(text, [token for token, _ in held], finish_reason, timings if finish_reason else None, likely)

    async with aclosing(tokens):
        async for sampled in tokens:
            held.append(sampled)
            token = sampled[0]
            if token in end_ids:
                reason = "stop"
                break
            text, stopped = stops.push(detokenizer.push(token))
            if stopped:
                yield chunk(text, "stop")
                return
            if text:
                yield chunk(text)
                held = []
        text, stopped = stops.push(detokenizer.finish())
        yield chunk(text + stops.finish(), "stop" if stopped else reason)


def collect(chunks: Iterator[Chunk]) -> Completion:
    """The whole of a stream."""
    text: list[str] = []
    tokens: list[int] = []
    logprobs: list[TokenLogProbs] = []
    for chunk in chunks:
        text.append(chunk.text)
        tokens += chunk.tokens
        logprobs += chunk.logprobs or []
        if chunk.finish_reason and chunk.timings:
            likely = None if chunk.logprobs is None else logprobs
            return Completion("".join(text), tokens, chunk.finish_reason, chunk.timings, likely)
    raise AssertionError("a stream ends with a finish reason")


def iterate(chunks: AsyncGenerator[_T, None], turns: Turns) -> Iterator[_T]:
    """A stream for synchronous code; closing it ends the generation."""
    turns.take()
    try:
        while (chunk := drive(_next(chunks))) is not None:
            yield chunk
    finally:
        try:
            drive(chunks.aclose())
        finally:
            turns.give_back()


async def iterate_in_threads(chunks: AsyncGenerator[Chunk, None], turns: Turns) -> AsyncIterator[Chunk]:
    """A stream for an event loop, whose waits for the device happen in worker threads."""
    await turns.take_async()
    try:
        while (chunk := await in_thread(_next(chunks))) is not None:
            yield chunk
    finally:
        try:
            await in_thread(chunks.aclose())
        finally:
            turns.give_back()


async def in_thread(coroutine: Coroutine[Any, Any, _T]) -> _T:
    """The result of a coroutine that waits for the device alone, from a worker thread.

    A task that is cancelled meanwhile goes on when the thread is done, since the device can't be left halfway.
    """
    work = asyncio.ensure_future(asyncio.to_thread(drive, coroutine))
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        work.exception()  # asked for, so that asyncio does not complain of an error that nobody saw
        raise cancelled
    return work.result()


async def _next(chunks: AsyncGenerator[_T, None]) -> _T | None:
    return await anext(chunks, None)
