"""`POST /v1/completions` and `/v1/chat/completions`."""

import asyncio
import json
import secrets
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from sse_starlette import EventSourceResponse
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from wgpu_engine.engine.answers import Chunk
from wgpu_engine.engine.sampling import SamplingParams
from wgpu_engine.engine.service import Service
from wgpu_engine.server.body import read
from wgpu_engine.server.choices import ChatChoice, Choice, TextChoice
from wgpu_engine.server.errors import ApiError, api_error, blaming, error_body
from wgpu_engine.server.generation import Job, Usage, merged, unless_gone
from wgpu_engine.server.schemas import ChatRequest, CompletionRequest, GenerationRequest
from wgpu_engine.server.state import check_model, check_template

PING_S = 15
"""between comments that keep a silent stream open; after so long it begins, if it had to wait for its first piece"""

_Numbered = tuple[int, Chunk]
"""a chunk, with the number of its answer"""


async def completions(request: Request) -> Response:
    """`POST /v1/completions`."""
    asked = await read(request, CompletionRequest)
    service = _service(request, asked)
    params, prompts, n = asked.params(), asked.prompts(), asked.n or 1
    if not prompts:
        raise ApiError(400, "prompt is empty: give a text or token ids", param="prompt")
    _check_room(service, len(prompts) * n, "prompt" if n == 1 else "n")
    with blaming("logit_bias"):
        service.scheduler.check_biases(params)
    with blaming("prompt"):
        ids = [await asyncio.to_thread(service.loaded.prompt_ids, prompt) for prompt in prompts]
        for each in ids:
            service.scheduler.check(each, params)
    echoes = [""] * len(ids)
    if asked.echo:
        # a text comes back as it was given, even where tokens don't tell all of it
        decode = service.loaded.tokenizer.decode
        echoes = [each if isinstance(each, str) else decode(each) for each in prompts]
    tells = asked.echo and asked.logprobs is not None
    jobs = [Job(each, one, continues=True, scores=[] if tells else None) for each in ids for one in _seeded(params, n)]
    vocabulary = service.loaded.tokenizer.vocabulary
    choices = [
        TextChoice(i, vocabulary, echoes[i // n], None if job.scores is None else (job.ids, job.scores))
        for i, job in enumerate(jobs)
    ]
    return await _respond(request, asked, jobs, choices)


async def chat_completions(request: Request) -> Response:
    """`POST /v1/chat/completions`."""
    asked = await read(request, ChatRequest)
    service = _service(request, asked)
    params, n = asked.params(), asked.n or 1
    check_template(service.loaded)
    _check_room(service, n, "n")
    with blaming("logit_bias"):
        service.scheduler.check_biases(params)
    with blaming("messages"):
        ids = await asyncio.to_thread(service.loaded.chat_ids, asked.messages, None, **asked.chat_template_kwargs)
        service.scheduler.check(ids, params)
    jobs = [Job(ids, one, continues=False) for one in _seeded(params, n)]
    vocabulary = service.loaded.tokenizer.vocabulary
    return await _respond(request, asked, jobs, [ChatChoice(i, vocabulary) for i in range(n)])


async def not_served(request: Request) -> Response:
    """Other APIs that clients ask for."""
    raise ApiError(
        400, f"{request.url.path} is not supported yet: ask /v1/chat/completions instead", code="unsupported"
    )


def _service(request: Request, asked: GenerationRequest) -> Service:
    asked.check_supported()
    check_model(request, asked.model)
    service: Service = request.app.state.service
    return service


def _check_room(service: Service, answers: int, field: str) -> None:
    """Refuses what would be too much for an idle server too."""
    if answers > service.most:
        message = (
            f"{field} asks for {answers} answers, more than the {service.most} that there is room for: ask for fewer"
        )
        raise ApiError(400, message, param=field)


def _seeded(params: SamplingParams, n: int) -> list[SamplingParams]:
    """For each of n answers, which must not be the same one where a seed is given."""
    if params.seed is None:
        return [params] * n
    return [replace(params, seed=params.seed + i) for i in range(n)]


@dataclass(frozen=True)
class _Reply:
    """What a request gets: its answers as they come, and what to write of them."""

    chunks: AsyncGenerator[_Numbered, None]
    choices: list[Choice]
    head: dict[str, Any]
    usage: Usage
    wants_usage: bool
    """whether a stream ends with it"""


async def _respond(
    request: Request, asked: GenerationRequest, jobs: list[Job], choices: list[ChatChoice] | list[TextChoice]
) -> Response:
    form = choices[0]
    usage = request.state.usage = Usage(asked.n or 1)
    reply = _Reply(
        merged(request.app.state.service, request.app.state.metrics, jobs),
        list(choices),
        {
            "id": f"{form.prefix}-{secrets.token_hex(12)}",
            "object": form.piece_kind if asked.stream else form.kind,
            "created": int(time.time()),
            "model": request.app.state.model_name,
        },
        usage,
        bool(asked.stream_options and asked.stream_options.include_usage),
    )
    if not asked.stream:
        return JSONResponse(await unless_gone(request, _whole(reply)))
    first = await unless_gone(request, _begun(reply.chunks))
    return EventSourceResponse(
        _events(reply, first),
        ping=PING_S,
        sep="\n",
        # else a server that is to end would break off streams that it still makes
        shutdown_grace_period=request.app.state.patience_s,
    )


async def _begun(chunks: AsyncGenerator[_Numbered, None]) -> asyncio.Future[_Numbered]:
    """The first chunk, or that it is still to come: what goes wrong before has a status of its own."""
    first = asyncio.ensure_future(anext(chunks))
    try:
        await asyncio.wait([first], timeout=PING_S)
        if first.done():
            first.result()
        return first
    except BaseException:
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await chunks.aclose()
        raise


async def _whole(reply: _Reply) -> dict[str, Any]:
    found: list[list[Chunk]] = [[] for _ in reply.choices]
    async with aclosing(reply.chunks):
        async for number, chunk in reply.chunks:
            found[number].append(chunk)
            reply.usage.add(number, chunk)
    choices = [choice.whole(chunks) for choice, chunks in zip(reply.choices, found, strict=True)]
    return reply.head | {"choices": choices, "usage": reply.usage.as_json()} | reply.usage.timings_json()


async def _events(reply: _Reply, first: asyncio.Future[_Numbered]) -> AsyncGenerator[dict[str, str], None]:
    """Server-sent events as OpenAI's API has them, the last of them `[DONE]`."""
    usage, chunks = reply.usage, reply.chunks
    async with aclosing(chunks):
        try:
            number, chunk = await first
            while True:
                usage.add(number, chunk)
                event = reply.head | {"choices": [reply.choices[number].piece(chunk)]}
                if reply.wants_usage:
                    event |= {"usage": None}
                elif len(usage.timings) == len(reply.choices):
                    # where llama.cpp's server has them
                    event |= usage.timings_json()
                yield {"data": _json(event)}
                try:
                    number, chunk = await anext(chunks)
                except StopAsyncIteration:
                    break
        except Exception as error:
            yield {"data": _json(error_body(api_error(error)))}
            return
    if reply.wants_usage:
        last = reply.head | {"choices": [], "usage": usage.as_json()} | usage.timings_json()
        yield {"data": _json(last)}
    yield {"data": "[DONE]"}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
