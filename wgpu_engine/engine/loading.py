"""Brings an open model onto a device, ready to run."""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from wgpu_engine.engine.engine import Engine
from wgpu_engine.engine.kernel_check import check_kernels
from wgpu_engine.engine.memory import check_budget, context_size, footprint, memory_budget, weight_bytes
from wgpu_engine.engine.states import MOST_ROWS
from wgpu_engine.engine.tuning import load_tuning
from wgpu_engine.errors import EncoderError, RequestError
from wgpu_engine.files.model_file import ModelFile
from wgpu_engine.gpu.device import Device
from wgpu_engine.models.model import Description, Model
from wgpu_engine.models.registry import describe, load_model
from wgpu_engine.ops.kv import KVType
from wgpu_engine.ops.repack import Loader
from wgpu_engine.platform.encoder import Encoder
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
    device: Device
    engine: Engine
    description: Description
    tokenizer: Tokenizer
    chat_template: ChatTemplate | None
    warnings: list[str]

    def prompt_ids(self, prompt: str | Sequence[int]) -> list[int]:
        """Token ids of a text, with the BOS token where the model wants one; ids are taken as they are.

        Raises:
            RequestError: something that is neither.
            ContextFullError: a text that can't fit.
        """
        if isinstance(prompt, str):
            self.tokenizer.check_fits(prompt, self.engine.ctx_size)
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
            ContextFullError: messages that can't fit.
        """
        if self.chat_template is None:
            raise RequestError(
                "this model has no chat template: have it go on with a plain text, or take one that was tuned for chat"
            )
        prompt = self.chat_template.render(messages, tools=tools, **variables)
        self.tokenizer.check_fits(prompt, self.engine.ctx_size)
        return self.tokenizer.encode_prompt(prompt)


async def load_weights(
    device: Device, file: ModelFile, precision: Precision, warnings: list[str], progress: Progress | None
) -> Model:
    """Brings a model's weights onto a device, where `fast` keeps matrices of F32 as F16.

    `warnings` get what is odd about them.

    Raises:
        EngineError: what `load_model` raises, or the file can't be read.
    """
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        if progress is not None:
            progress("weights", done, file.tensor_bytes)

    loader = Loader(device, advance, halve=precision == "fast")
    model = await load_model(device, file.metadata, file.tensors, loader)
    await loader.finish()
    warnings += [*file.notes, *loader.warnings]
    return model


async def load_file(
    device: Device,
    file: ModelFile,
    options: LoadOptions,
    encoder: Callable[[str], Encoder],
    progress: Progress | None = None,
) -> LoadedModel:
    """Loads an open model onto a device; `options` that choose either are passed over.

    Args:
        encoder: makes an encoder of the text of a `tokenizer.json`.
        progress: called with a stage ("weights", "kernels"), what is done and the total.

    Raises:
        EngineError: the model is unsupported, or the adapter too small for it.
    """
    warnings: list[str] = []
    description = describe(file.metadata, file.tensors)
    if description.encodes:
        raise EncoderError(
            f"{file.path} makes embeddings and can't write: use wgpu_engine.Embedder or `wgpu-engine embed`"
        )
    ctx_size = context_size(description, options.ctx_size)
    if ctx_size > description.context:
        warnings.append(
            f"a context of {ctx_size} is more than the {description.context} positions that the model was trained for: "
            "expect worse answers beyond them"
        )
    weights = weight_bytes(file.tensors.values(), options.precision)
    need = footprint(description, weights, ctx_size, options.kv_type, options.slots, options.kv_positions)
    budget = memory_budget(device.adapter) if options.memory_budget is None else options.memory_budget
    check_budget(need, budget, ctx_size)
    tokenizer = open_tokenizer(file.metadata, description.vocab, encoder)
    chat_template = ChatTemplate.from_metadata(file.metadata, tokenizer.vocabulary)
    if chat_template is not None and chat_template.origin != "file":
        warnings.append(
            f"the file has no chat template: conversations take the built-in {chat_template.origin!r}, to which its "
            "vocabulary or its name points"
        )
    await file.fetch()  # after all that may speak against it
    model = await load_weights(device, file, options.precision, warnings, progress)
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
    return LoadedModel(file.path, device, engine, description, tokenizer, chat_template, warnings)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
