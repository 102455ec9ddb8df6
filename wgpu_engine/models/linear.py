"""Linear layers and norms, as they lie in files."""

from collections.abc import Mapping
from dataclasses import dataclass

from wgpu_engine.gpu.device import Buffer
from wgpu_engine.models.tensors import Tensors
from wgpu_engine.ops.repack import Loader
from wgpu_engine.ops.weight import Norm, Weight


@dataclass(frozen=True)
class Linear:
    """Weights that read the same, one below the other, and their bias."""

    weights: tuple[Weight, ...]
    bias: Buffer | None

    @property
    def bytes(self) -> int:
        return sum(weight.bytes for weight in self.weights)

    @property
    def weight(self) -> Weight:
        """The one that there is."""
        (weight,) = self.weights
        return weight


async def load_linear(tensors: Tensors, name: str, features: int, k: int, loader: Loader) -> Linear:
    """A matrix [features, k], and its bias if there is one; raises ModelFileError as `Tensors.take` does."""
    weight = await loader.weight(name, [[tensors.take(f"{name}.weight", features, k)]])
    return Linear((weight,), await bias_of(tensors, {name: features}, loader))


async def bias_of(tensors: Tensors, sizes: Mapping[str, int], loader: Loader) -> Buffer | None:
    """The biases of layers of so many features, one behind the other, if there are any; raises likewise."""
    found = [(tensors.optional(f"{name}.bias", size), size) for name, size in sizes.items()]
    return await loader.joined_vector(found) if any(tensor for tensor, _ in found) else None


async def load_layer_norm(tensors: Tensors, name: str, width: int, eps: float, loader: Loader) -> Norm:
    """A layer norm, with its bias if there is one; raises likewise."""
    gain = await loader.vector(tensors.take(f"{name}.weight", width))
    bias = tensors.optional(f"{name}.bias", width)
    return Norm(gain, eps, await loader.vector(bias) if bias else None, "layer")


async def load_rms_norm(
    tensors: Tensors, name: str, width: int, eps: float, loader: Loader, *, offset: float = 0.0
) -> Norm:
    """An RMS norm, `offset` being added to its gain; raises likewise."""
    return Norm(await loader.joined_vector([(tensors.take(f"{name}.weight", width), width)], offset=offset), eps)
