"""Layers of models with biases and layer norms, as they lie in files."""

from dataclasses import dataclass

from wgpu_engine.files.gguf import TensorInfo
from wgpu_engine.gpu.device import Buffer
from wgpu_engine.models.tensors import Tensors
from wgpu_engine.ops.repack import Loader
from wgpu_engine.ops.weight import Norm, Weight


@dataclass(frozen=True)
class Linear:
    """Weights that read the same, one below the other, and their bias."""

    weights: tuple[Weight, ...]
    bias: Buffer | None


async def load_linear(tensors: Tensors, name: str, features: int, k: int, loader: Loader) -> Linear:
    """A matrix [features, k], and its bias if there is one; raises ModelFileError as `Tensors.take` does."""
    weight = await loader.weight(name, [[tensors.take(f"{name}.weight", features, k)]])
    return Linear((weight,), await _bias([(tensors.optional(f"{name}.bias", features), features)], loader))


async def load_joined(tensors: Tensors, prefix: str, width: int, q: int, kv: int, loader: Loader) -> Linear:
    """Queries, keys and values of so many features, whether they lie in one tensor or in three; raises likewise."""
    if f"{prefix}attn_qkv.weight" in tensors:
        return await load_linear(tensors, f"{prefix}attn_qkv", q + 2 * kv, width, loader)
    sizes = {f"{prefix}attn_q": q, f"{prefix}attn_k": kv, f"{prefix}attn_v": kv}
    parts = [tensors.take(f"{name}.weight", size, width) for name, size in sizes.items()]
    biases = [(tensors.optional(f"{name}.bias", size), size) for name, size in sizes.items()]
    return Linear(await loader.stacked(f"{prefix}attn_qkv", parts), await _bias(biases, loader))


async def load_layer_norm(tensors: Tensors, name: str, width: int, eps: float, loader: Loader) -> Norm:
    """A layer norm, with its bias if there is one; raises likewise."""
    gain = await loader.vector(tensors.take(f"{name}.weight", width))
    bias = tensors.optional(f"{name}.bias", width)
    return Norm(gain, eps, await loader.vector(bias) if bias else None, "layer")


async def _bias(parts: list[tuple[TensorInfo | None, int]], loader: Loader) -> Buffer | None:
    return await loader.joined_vector(parts) if any(part for part, _ in parts) else None
