"""`POST /tokenize`, `/detokenize` and `/apply-template`."""

import asyncio

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from wgpu_engine.engine.loading import LoadedModel
from wgpu_engine.server.body import read
from wgpu_engine.server.errors import ApiError
from wgpu_engine.server.schemas import DetokenizeRequest, TemplateRequest, TokenizeRequest
from wgpu_engine.server.state import check_template
from wgpu_engine.text.tokenizer import Tokenizer

_MOST_BYTES = 1 << 20
"""of a text that is tokenized at once"""


async def tokenize(request: Request) -> Response:
    asked = await read(request, TokenizeRequest)
    tokenizer: Tokenizer = request.app.state.tokenizer
    if len(asked.content.encode()) > _MOST_BYTES:
        message = f"content is longer than {_MOST_BYTES:,} bytes: send it in parts"
        raise ApiError(400, message, param="content")
    return JSONResponse({"tokens": await asyncio.to_thread(tokenizer.encode, asked.content, asked.add_special)})


async def detokenize(request: Request) -> Response:
    asked = await read(request, DetokenizeRequest)
    tokenizer: Tokenizer = request.app.state.tokenizer
    return JSONResponse({"content": await asyncio.to_thread(tokenizer.decode, asked.tokens)})


async def apply_template(request: Request) -> Response:
    asked = await read(request, TemplateRequest)
    loaded: LoadedModel = request.app.state.service.loaded
    check_template(loaded)
    ids = await asyncio.to_thread(loaded.chat_ids, asked.messages, asked.tools, **asked.chat_template_kwargs)
    return JSONResponse({"prompt": loaded.tokenizer.decode(ids, skip_special=False), "tokens": ids})
