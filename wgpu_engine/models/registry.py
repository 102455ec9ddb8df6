"""Which architectures there are, and how a file becomes a model."""

from collections.abc import Mapping
from typing import Any

from wgpu_engine.errors import UnsupportedModelError
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


def describe(metadata: Mapping[str, Any], tensors: Mapping[str, TensorInfo]) -> Description:
    """The model in figures.

    Raises:
        UnsupportedModelError: an architecture that this version doesn't know.
        ModelFileError: a setting is missing or absurd.
    """
    settings = Settings(metadata)
    if settings.architecture not in ARCHITECTURES:
        known = ", ".join(sorted(ARCHITECTURES))
        raise UnsupportedModelError(
            f"the architecture {settings.architecture!r} is not supported yet; supported: {known}"
        )
    embedding = Tensors(tensors).take_matrix("token_embd.weight")
    positions = tensors.get("position_embd.weight")
    return Description(
        architecture=settings.architecture,
        name=str(metadata.get("general.name", "")),
        parameters=sum(tensor.rows * tensor.columns for tensor in tensors.values()),
        active_parameters=active_parameters(settings, tensors),
        layers=settings.count("block_count", largest=1 << 12),
        width=settings.count("embedding_length"),
        vocab=embedding.rows,
        context=settings.count("context_length", 2048, largest=1 << 31),
        states=ARCHITECTURES[settings.architecture].states(settings, Tensors(tensors)),
        most_positions=positions.rows if positions else None,
        encodes=settings.architecture in bert.MEMBERS,
    )


async def load_model(
    device: Device, metadata: Mapping[str, Any], tensors: Mapping[str, TensorInfo], loader: Loader
) -> Model:
    """Brings a file's model onto the device; raises what `describe` and the architecture's `load` raise."""
    return await load_described(device, metadata, Tensors(tensors), describe(metadata, tensors), loader)


async def load_described(
    device: Device, metadata: Mapping[str, Any], tensors: Tensors, description: Description, loader: Loader
) -> Model:
    """What `load_model` does once the model is described; raises what the architecture's `load` raises."""
    return await ARCHITECTURES[description.architecture].load(device, Settings(metadata), tensors, description, loader)
