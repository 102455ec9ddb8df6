"""What the server has and does: `/v1/models`, `/health`, `/props` and `/slots`."""

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from wgpu_engine import __version__
from wgpu_engine.engine.loading import LoadedModel
from wgpu_engine.engine.service import Service
from wgpu_engine.server.errors import ApiError


def check_model(request: Request, name: str | None) -> None:
    """Raises ApiError where a request names another model."""
    ours: str = request.app.state.model_name
    if name not in (None, "", ours):
        message = f"there is no model {name!r:.80}: this server has {ours!r}"
        raise ApiError(404, message, param="model", code="model_not_found")


def check_template(loaded: LoadedModel) -> None:
    """Raises ApiError where a model was made to go on with texts, not to chat."""
    if loaded.chat_template is None:
        raise ApiError(
            400,
            "this model has no chat template: ask /v1/completions, or serve a model that was tuned for chat",
            param="model",
            code="unsupported",
        )


def model_json(request: Request) -> dict[str, Any]:
    """What `/v1/models` says of the model."""
    state = request.app.state
    return {
        "id": state.model_name,
        "object": "model",
        "created": state.started,
        "owned_by": "wgpu_engine",
        "meta": {
            "architecture": state.description.architecture,
            "n_params": state.description.parameters,
            "n_vocab": state.description.vocab,
            "n_ctx": state.context,
            "n_ctx_train": state.description.context,
        },
    }


async def models(request: Request) -> Response:
    return JSONResponse({"object": "list", "data": [model_json(request)]})


async def model(request: Request) -> Response:
    check_model(request, request.path_params["name"])
    return JSONResponse(model_json(request))


async def health(_request: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def props(request: Request) -> Response:
    service: Service = request.app.state.service
    loaded = service.loaded
    return JSONResponse(
        {
            "version": __version__,
            "model": model_json(request),
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
