"""Finds models, by path or by name, and brings them onto an adapter of this machine."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from wgpu_engine.engine.loading import LoadedModel, LoadOptions, Progress, load_file
from wgpu_engine.errors import RequestError
from wgpu_engine.files.model_file import ModelFile
from wgpu_engine.files.opening import open_any
from wgpu_engine.files.quants import QuantType
from wgpu_engine.files.store import Store
from wgpu_engine.gpu.native import NativeDevice, open_device
from wgpu_engine.models.model import Description
from wgpu_engine.models.registry import describe
from wgpu_engine.platform.tokenizers_encoder import TokenizersEncoder


async def load(model: str | Path, options: LoadOptions, progress: Progress | None = None) -> LoadedModel:
    """Loads a model, by its path or its name in the store, onto the adapter that the options choose.

    Args:
        progress: called with a stage ("weights", "kernels"), what is done and the total.

    Raises:
        EngineError: the model or the adapter is missing, unsupported or too small.
    """
    target = None if options.quantize is None else _quantization(options.quantize)
    async with opened(model, options.device) as (device, file):
        warnings: list[str] = []
        if target is not None:
            file = _quantized(file, target, warnings)
        loaded = await load_file(device, file, options, TokenizersEncoder, progress)
        loaded.warnings[:0] = warnings
        return loaded


async def described(model: str | Path) -> Description:
    """A model in figures, by its files' headers; raises EngineError where they can't be read."""
    with await open_any(Store().find(model)) as file:
        return describe(file.metadata, file.tensors)


@asynccontextmanager
async def opened(model: str | Path, selector: str | int | None) -> AsyncIterator[tuple[NativeDevice, ModelFile]]:
    """The adapter that a selector chooses, and a model's files, open for this long.

    The device is closed where loading fails.

    Raises:
        EngineError: the model or the adapter is missing or unsupported.
    """
    if not isinstance(model, str | Path):
        raise RequestError(f"model must be a path or the name of a model in the store, not {model!r}")
    path = Store().find(model)
    device = await open_device(selector)
    try:
        with await open_any(path) as file:
            yield device, file
    except BaseException:
        device.close()
        raise


def _quantized(file: ModelFile, target: QuantType, warnings: list[str]) -> ModelFile:
    from wgpu_engine.quantize.recipe import recipe

    made = recipe(file, target)
    warnings += made.notes
    return made.file


def _quantization(name: str) -> QuantType:
    from wgpu_engine.quantize.convert import writable

    if not isinstance(name, str):
        raise RequestError(f"quantize must be the name of a type such as Q4_K, not {name!r:.40}")
    return writable(name)
