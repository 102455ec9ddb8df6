"""Which architectures there are, and how a file becomes a model."""

import re
from collections.abc import Mapping
from typing import Any

from wgpu_engine.errors import ModelFileError, UnsupportedModelError
from wgpu_engine.files.gguf import TensorInfo
from wgpu_engine.gpu.device import Device
from wgpu_engine.models import bert, bitnet, gemma, gpt, lfm2, llama
from wgpu_engine.models.feed_forward import active_parameters
from wgpu_engine.models.model import Architecture, Description, Model
from wgpu_engine.models.settings import Settings
from wgpu_engine.models.tensors import Tensors
from wgpu_engine.ops.repack import Loader

ARCHITECTURES: dict[str, Architecture] = {
    **dict.fromkeys(bert.MEMBERS, bert.Bert),
    **dict.fromkeys(gpt.MEMBERS, gpt.Gpt),
    **dict.fromkeys(llama.MEMBERS, llama.Llama),
    **dict.fromkeys(gemma.MEMBERS, gemma.Gemma),
    **dict.fromkeys(bitnet.MEMBERS, bitnet.BitNet),
    **dict.fromkeys(lfm2.MEMBERS, lfm2.Lfm2),
}
_OTHER_KINDS = {
    "adapter": "an adapter (LoRA) to a model",
    "mmproj": "what encodes images or sounds for a model",
    "imatrix": "statistics for quantizing a model",
}
"""by `general.type`"""
_LAYER = re.compile(r"blk\.(\d{1,9})\.", re.ASCII)


def describe(metadata: Mapping[str, Any], tensors: Mapping[str, TensorInfo]) -> Description:
    """The model in figures.

    Raises:
        UnsupportedModelError: an architecture that this version doesn't know.
        ModelFileError: the file is no model, a setting is missing or absurd, or tensors belong to more layers.
    """
    _check_kind(metadata, tensors)
    settings = Settings(metadata)
    architecture = settings.architecture
    if architecture not in ARCHITECTURES:
        known = ", ".join(sorted(ARCHITECTURES))
        raise UnsupportedModelError(f"the architecture {architecture!r} is not supported yet; supported: {known}")
    layers = settings.count("block_count", largest=1 << 12)
    _check_layers(architecture, layers, tensors)
    encodes = architecture in bert.MEMBERS
    context = settings.count("context_length", 2048, largest=1 << 31)
    embedding = Tensors(tensors).take_matrix("token_embd.weight")
    positions = tensors.get("position_embd.weight")
    return Description(
        architecture=architecture,
        name=str(metadata.get("general.name", "")),
        parameters=sum(tensor.rows * tensor.columns for tensor in tensors.values()),
        active_parameters=active_parameters(settings, tensors),
        layers=layers,
        width=settings.count("embedding_length"),
        vocab=embedding.rows,
        context=min(context, settings.count("most_tokens", context, largest=1 << 31)) if encodes else context,
        states=ARCHITECTURES[architecture].states(settings, Tensors(tensors)),
        most_positions=positions.rows if positions else None,
        encodes=encodes,
    )


def _check_kind(metadata: Mapping[str, Any], tensors: Mapping[str, TensorInfo]) -> None:
    """GGUF files may hold something that belongs to a model (llama.cpp, `general.type`)."""
    kind = str(metadata.get("general.type", "model"))
    what = _OTHER_KINDS.get(kind)
    if what is None and not tensors:
        what = "a vocabulary without weights" if "tokenizer.ggml.tokens" in metadata else "no weights"
    if what is not None:
        raise ModelFileError(f"the file holds {what}, and no model that could run: give the file of the model itself")


def _check_layers(architecture: str, layers: int, tensors: Mapping[str, TensorInfo]) -> None:
    """A model cut short would run, and write nonsense."""
    found = [int(match[1]) + 1 for name in tensors if (match := _LAYER.match(name))]
    if max(found, default=0) > layers:
        raise ModelFileError(
            f"the file holds tensors of {max(found)} layers and its settings tell of {layers}: set "
            f"{architecture}.block_count (num_hidden_layers in config.json) to what the model has, or download it again"
        )


async def load_model(
    device: Device, metadata: Mapping[str, Any], tensors: Mapping[str, TensorInfo], loader: Loader
) -> Model:
    """Brings a file's model onto the device; raises what `describe` and the architecture's `load` raise.

    Notes tensors that the model does without in the loader's warnings.
    """
    wanted = Tensors(tensors)
    model = await load_described(device, metadata, wanted, describe(metadata, tensors), loader)
    if wanted.unused:
        loader.warnings.append(_said_unused(wanted.unused))
    return model


def _said_unused(names: list[str]) -> str:
    what = f"the tensor {names[0]} is" if len(names) == 1 else f"{len(names)} tensors, such as {names[0]}, are"
    return f"{what} no part of such a model and left out: if its answers look wrong, get another version of it"


async def load_described(
    device: Device, metadata: Mapping[str, Any], tensors: Tensors, description: Description, loader: Loader
) -> Model:
    """What `load_model` does once the model is described; raises what the architecture's `load` raises."""
    return await ARCHITECTURES[description.architecture].load(device, Settings(metadata), tensors, description, loader)
