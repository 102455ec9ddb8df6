"""The activation function of a feed-forward, where a family's members have several."""

from typing import cast, get_args

from wgpu_engine.errors import UnsupportedModelError
from wgpu_engine.models.settings import Settings
from wgpu_engine.ops.matmul import Gate


def read_activation(settings: Settings, usual: Gate) -> Gate:
    """The one that the settings name: GGUF has none, being `usual` for each architecture, but folders may.

    Raises:
        UnsupportedModelError: one that there are no kernels for.
    """
    named = settings.text("activation", usual)
    if named not in get_args(Gate):
        raise UnsupportedModelError(
            f"the activation {named[:40]!r} is not supported: use a model with one of {', '.join(get_args(Gate))}"
        )
    return cast(Gate, named)
