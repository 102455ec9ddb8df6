"""Brings a model from its file onto an adapter, ready to run."""

import operator
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from wgpu_engine.engine.engine import Engine
from wgpu_engine.engine.kernel_check import check_kernels
from wgpu_engine.engine.memory import check_budget, context_size, footprint, memory_budget
from wgpu_engine.engine.states import MOST_ROWS
from wgpu_engine.engine.tuning import load_tuning
from wgpu_engine.errors import RequestError
from wgpu_engine.files.model_file import ModelFile
from wgpu_engine.files.opening import open_any
from wgpu_engine.files.quants import QuantType
from wgpu_engine.files.store import Store
from wgpu_engine.gpu.native import NativeDevice, open_device
from wgpu_engine.models.model import Description, Model
from wgpu_engine.models.registry import describe, load_model
from wgpu_engine.ops.kv import KVType
from wgpu_engine.ops.repack import Loader
from wgpu_engine.platform.tokenizers_encoder import TokenizersEncoder
from wgpu_engine.text.chat_template import ChatTemplate
from wgpu_engine.text.opening import open_tokenizer
from wgpu_engine.text.tokenizer import Tokenizer

Precision = Literal["fast", "exact"]
Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True)
class LoadOptions:
    """How a model is loaded.

    Raises:
        RequestError: a value is out of its range.
    """

    device: str | int | None = None
    """index of an adapter, or text of its name; by default the most capable kind"""
    precision: Precision = "fast"
    ctx_size: int | None = None
    """positions of a sequence; by default the model's own, up to 4096"""
    slots: int = 1
    """sequences that run at a time"""
    kv_positions: int | None = None
    """of all sequences together; by default as many as the slots can fill"""
    kv_type: KVType = "f16"
    memory_budget: int | None = None
    """bytes that the model may take on the adapter"""
    quantize: str | None = None
    """a type that weights in float are quantized to as they are loaded"""

    def __post_init__(self) -> None:
        if self.precision not in ("fast", "exact"):
            raise RequestError(f"precision must be fast or exact, not {self.precision!r}")
        if self.kv_type not in ("f16", "f32"):
            raise RequestError(f"kv_type must be f16 or f32, not {self.kv_type!r}")
        for name, most in (("ctx_size", 1 << 24), ("slots", MOST_ROWS), ("kv_positions", 1 << 30)):
            value = getattr(self, name)
            if value is not None and not (_is_whole(value) and 1 <= value <= most):
                raise RequestError(f"{name} must be from 1 to {most}, not {value}")
        if self.memory_budget is not None and not _is_whole(self.memory_budget):
            raise RequestError(f"memory_budget must be a number of bytes, not {self.memory_budget!r}")


@dataclass
class LoadedModel:
    """A model on a device, with what turns text into its tokens."""

    path: Path
    device: NativeDevice
    engine: Engine
    description: Description
    tokenizer: Tokenizer
    chat_template: ChatTemplate | None
    warnings: list[str]

    def prompt_ids(self, prompt: str | Sequence[int]) -> list[int]:
        """Token ids of a text, with the BOS token where the model wants one; ids are taken as they are.

        Raises:
            RequestError: something that is neither.
        """
        if isinstance(prompt, str):
            return self.tokenizer.encode(prompt)
        try:
            return [operator.index(token) for token in prompt]
        except TypeError:
            raise RequestError("a prompt must be a text or a list of token ids") from None

    def chat_ids(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any] | None = None, **variables: Any
    ) -> list[int]:
        """Token ids of a conversation in the model's chat template, which `variables` go to.

        Raises:
            RequestError: a message that can't be, or a model without a chat template.
        """
        if self.chat_template is None:
            raise RequestError("this model has no chat template: use generate, or a model that was tuned for chat")
        return self.tokenizer.encode_prompt(self.chat_template.render(messages, tools=tools, **variables))


async def load(model: str | Path, options: LoadOptions, progress: Progress | None = None) -> LoadedModel:
    """Loads a model, by its path or its name in the store, onto the adapter that the options choose.

    Args:
        progress: called with a stage ("weights", "kernels"), what is done and the total.

    Raises:
        EngineError: the model or the adapter is missing, unsupported or too small.
    """
    target = None if options.quantize is None else _quantization(options.quantize)
    async with opened(model, options.device) as (path, device, file):
        warnings: list[str] = []
        if target is not None:
            file = _quantized(file, target, warnings)
        return await _load(path, device, file, options, warnings, progress)


@asynccontextmanager
async def opened(model: str | Path, selector: str | int | None) -> AsyncIterator[tuple[Path, NativeDevice, ModelFile]]:
    """Where a model is, the adapter that a selector chooses, and the model's files, open for this long.

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
            yield path, device, file
    except BaseException:
        device.close()
        raise


async def load_weights(device: NativeDevice, file: ModelFile, warnings: list[str], progress: Progress | None) -> Model:
    """Brings a model's weights onto a device; `warnings` get what is odd about them.

    Raises:
        EngineError: what `load_model` raises, or the file can't be read.
    """
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        if progress is not None:
            progress("weights", done, file.tensor_bytes)

    loader = Loader(device, advance)
    model = await load_model(device, file.metadata, file.tensors, loader)
    await loader.finish()
    warnings += [*file.notes, *loader.warnings]
    return model


async def _load(
    path: Path,
    device: NativeDevice,
    file: ModelFile,
    options: LoadOptions,
    warnings: list[str],
    progress: Progress | None,
) -> LoadedModel:
    description = describe(file.metadata, file.tensors)
    if description.encodes:
        raise RequestError(f"{path} makes embeddings and can't write: use wgpu_engine.Embedder or `wgpu-engine embed`")
    ctx_size = context_size(description, options.ctx_size)
    if ctx_size > description.context:
        warnings.append(
            f"a context of {ctx_size} is more than the {description.context} positions that the model was trained for: "
            "expect worse answers beyond them"
        )
    need = footprint(description, file.tensor_bytes, ctx_size, options.kv_type, options.slots, options.kv_positions)
    budget = memory_budget(device.adapter) if options.memory_budget is None else options.memory_budget
    check_budget(need, budget, ctx_size)
    tokenizer = open_tokenizer(file.metadata, description.vocab, TokenizersEncoder)
    chat_template = ChatTemplate.from_metadata(file.metadata, tokenizer.vocabulary)
    if chat_template is not None and chat_template.origin != "file":
        warnings.append(
            f"the file has no chat template: conversations take the built-in {chat_template.origin!r}, to which its "
            "vocabulary or its name points"
        )
    model = await load_weights(device, file, warnings, progress)
    engine = Engine(
        device,
        model,
        ctx_size=ctx_size,
        slots=options.slots,
        kv_positions=options.kv_positions,
        precision=options.precision,
        kv_type=options.kv_type,
        tuning=load_tuning(device),
    )
    await check_kernels(engine, file.tensors, warnings, progress)
    return LoadedModel(path, device, engine, description, tokenizer, chat_template, warnings)


def _quantized(file: ModelFile, target: QuantType, warnings: list[str]) -> ModelFile:
    from wgpu_engine.quantize.recipe import recipe

    made = recipe(file, target)
    warnings += made.notes
    if not made.changed:
        warnings.append(f"no weights were quantized to {target.name}: they are of quantized types already")
    return made.file


def _quantization(name: str) -> QuantType:
    from wgpu_engine.quantize.convert import writable

    if not isinstance(name, str):
        raise RequestError(f"quantize must be the name of a type such as Q4_K, not {name!r:.40}")
    return writable(name)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
