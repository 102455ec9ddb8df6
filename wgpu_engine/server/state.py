"""What the server has and does: `/v1/models`, `/health`, `/props` and `/slots`."""

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from wgpu_engine import __version__
from wgpu_engine.engine.service import Service
from wgpu_engine.server.errors import ApiError


def _model(request: Request) -> dict[str, Any]:
    service: Service = request.app.state.service
    description = service.loaded.description
    return {
        "id": request.app.state.model_name,
        "object": "model",
        "created": request.app.state.started,
        "owned_by": "wgpu_engine",
        "meta": {
            "architecture": description.architecture,
            "n_params": description.parameters,
            "n_vocab": description.vocab,
            "n_ctx": service.loaded.engine.ctx_size,
            "n_ctx_train": description.context,
        },
    }


async def models(request: Request) -> Response:
    return JSONResponse({"object": "list", "data": [_model(request)]})


async def model(request: Request) -> Response:
    name = request.path_params["name"]
    if name != request.app.state.model_name:
        raise ApiError(404, f"there is no model {name!r:.80} here", param="model", code="model_not_found")
    return JSONResponse(_model(request))


async def health(_request: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def props(request: Request) -> Response:
    service: Service = request.app.state.service
    loaded = service.loaded
    return JSONResponse(
        {
            "version": __version__,
            "model": _model(request),
            "adapter": loaded.device.adapter.name,
            "precision": loaded.engine.precision,
            "total_slots": loaded.engine.slots,
            "chat_template": loaded.chat_template is not None,
            "warnings": loaded.warnings,
        }
    )


async def slots(request: Request) -> Response:
    service: Service = request.app.state.service
    running = {sequence.slot: sequence for sequence in list(service.scheduler.running)}
    found = []
    for slot in range(service.loaded.engine.slots):
        sequence = running.get(slot)
        found.append(
            {
                "id": slot,
                "is_processing": sequence is not None,
                "prompt_tokens": sequence.timings.prompt_tokens if sequence else 0,
                "completion_tokens": sequence.timings.completion_tokens if sequence else 0,
            }
        )
    return JSONResponse(found)
