"""`POST /v1/completions` and `/v1/chat/completions`."""

import asyncio
import json
import secrets
import time
from collections.abc import AsyncGenerator, Callable
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
from wgpu_engine.server.errors import ApiError, api_error, blaming, error_body
from wgpu_engine.server.generation import Job, Usage, merged, unless_gone
from wgpu_engine.server.schemas import ChatRequest, CompletionRequest, GenerationRequest, check_supported
from wgpu_engine.server.state import check_model

PING_S = 15
"""between comments that keep a silent stream open"""


@dataclass(frozen=True)
class Form:
    """How one of the two endpoints writes its answers."""

    prefix: str
    kind: str
    choice: Callable[[str, bool, bool], dict[str, Any]]
    """text, whether it is the first of its answer, whether it is a piece of a stream"""


CHAT = Form(
    "chatcmpl",
    "chat.completion",
    lambda text, first, piece: (
        (
            {"delta": ({"role": "assistant"} if first else {}) | ({"content": text} if text or first else {})}
            if piece
            else {"message": {"role": "assistant", "content": text}}
        )
        | {"logprobs": None}
    ),
)
COMPLETION = Form("cmpl", "text_completion", lambda text, first, piece: {"text": text, "logprobs": None})


async def completions(request: Request) -> Response:
    """`POST /v1/completions`."""
    asked = await read(request, CompletionRequest)
    check_supported(asked)
    service = _service(request, asked)
    params, prompts, n = asked.params(), asked.prompts(), asked.n or 1
    if not prompts:
        raise ApiError(400, "prompt is empty: give a text or token ids", param="prompt")
    _check_room(service, len(prompts) * n, "prompt" if n == 1 else "n")
    with blaming("prompt"):
        ids = [await asyncio.to_thread(service.loaded.prompt_ids, prompt) for prompt in prompts]
        for each in ids:
            service.scheduler.check(each, params)
        echoes = [service.loaded.tokenizer.decode(each) if asked.echo else "" for each in ids]
    jobs = [Job(each, one, continues=True) for each in ids for one in _seeded(params, n)]
    return await _respond(request, asked, COMPLETION, jobs, [echo for echo in echoes for _ in range(n)])


async def chat_completions(request: Request) -> Response:
    """`POST /v1/chat/completions`."""
    asked = await read(request, ChatRequest)
    check_supported(asked)
    service = _service(request, asked)
    params, n = asked.params(), asked.n or 1
    _check_room(service, n, "n")
    with blaming("messages"):
        ids = await asyncio.to_thread(service.loaded.chat_ids, asked.messages, None, **asked.chat_template_kwargs)
        service.scheduler.check(ids, params)
    jobs = [Job(ids, one, continues=False) for one in _seeded(params, n)]
    return await _respond(request, asked, CHAT, jobs, [""] * n)


def _service(request: Request, asked: GenerationRequest) -> Service:
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


async def _respond(
    request: Request, asked: GenerationRequest, form: Form, jobs: list[Job], echoes: list[str]
) -> Response:
    head = {
        "id": f"{form.prefix}-{secrets.token_hex(12)}",
        "object": form.kind + (".chunk" if asked.stream and form is CHAT else ""),
        "created": int(time.time()),
        "model": request.app.state.model_name,
    }
    chunks = merged(request.app.state.service, request.app.state.metrics, jobs)
    if not asked.stream:
        return JSONResponse(await unless_gone(request, _whole(chunks, head, form, jobs, asked.n or 1, echoes)))
    # what goes wrong before the first chunk has a status of its own
    first = await unless_gone(request, _first(chunks))
    wants_usage = asked.stream_options is not None and bool(asked.stream_options.include_usage)
    return EventSourceResponse(
        _events(chunks, first, head, form, jobs, asked.n or 1, echoes, wants_usage),
        ping=PING_S,
        sep="\n",
        # else a server that is to end would break off streams that it still makes
        shutdown_grace_period=request.app.state.patience_s,
    )


async def _first(chunks: AsyncGenerator[tuple[int, Chunk], None]) -> tuple[int, Chunk]:
    try:
        return await anext(chunks)
    except BaseException:
        await chunks.aclose()
        raise


async def _whole(
    chunks: AsyncGenerator[tuple[int, Chunk], None],
    head: dict[str, Any],
    form: Form,
    jobs: list[Job],
    n: int,
    echoes: list[str],
) -> dict[str, Any]:
    texts = list(echoes)
    reasons: list[str | None] = [None] * len(jobs)
    usage = Usage()
    async with aclosing(chunks):
        async for number, chunk in chunks:
            texts[number] += chunk.text
            if chunk.timings:
                reasons[number] = chunk.finish_reason
                usage.add(chunk.timings, counts_prompt=number % n == 0)
    choices = [
        {"index": number, **form.choice(text, True, False), "finish_reason": reason}
        for number, (text, reason) in enumerate(zip(texts, reasons, strict=True))
    ]
    return head | {"choices": choices, "usage": usage.as_json(), "timings": usage.timings_json()}


async def _events(
    chunks: AsyncGenerator[tuple[int, Chunk], None],
    first: tuple[int, Chunk],
    head: dict[str, Any],
    form: Form,
    jobs: list[Job],
    n: int,
    echoes: list[str],
    wants_usage: bool,
) -> AsyncGenerator[dict[str, str], None]:
    """Server-sent events as OpenAI's API has them, the last of them `[DONE]`."""
    usage = Usage()
    fresh = [True] * len(jobs)

    def event(number: int, chunk: Chunk) -> dict[str, str]:
        text = echoes[number] * fresh[number] + chunk.text
        choice = {"index": number, **form.choice(text, fresh[number], True), "finish_reason": chunk.finish_reason}
        fresh[number] = False
        return {"data": _json(head | {"choices": [choice]} | ({"usage": None} if wants_usage else {}))}

    async with aclosing(chunks):
        try:
            number, chunk = first
            while True:
                if chunk.timings:
                    usage.add(chunk.timings, counts_prompt=number % n == 0)
                yield event(number, chunk)
                try:
                    number, chunk = await anext(chunks)
                except StopAsyncIteration:
                    break
        except Exception as error:
            yield {"data": _json(error_body(api_error(error)))}
            return
    if wants_usage:
        yield {"data": _json(head | {"choices": [], "usage": usage.as_json(), "timings": usage.timings_json()})}
    yield {"data": "[DONE]"}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
