"""A weight matrix on the device: its blocks repacked into planes, split by rows where a binding can't hold it."""

from dataclasses import dataclass
from typing import Literal

from wgpu_engine.errors import OutOfMemoryError
from wgpu_engine.files.grids import grid
from wgpu_engine.files.quants import QuantType
from wgpu_engine.gpu.device import Buffer
from wgpu_engine.ops.builder import ceil_div

SPLIT_FEATURES = 32
"""parts start at multiples of this, since kernels make so many features together"""


def padded_words(size: int) -> int:
    """Words that hold `size` bytes, padded to 16 bytes."""
    return ceil_div(size, 16) * 4


def plane_layout(quant: QuantType, k: int, rows: int) -> tuple[dict[str, tuple[int, int]], int]:
    """Start and row length, in words, of each field's plane for `rows` rows of `k` weights; and the words in all.

    Rows are padded to 16 bytes and, since unquantized weights are read four at a time, to four of them. A type's
    look-up table lies behind, as a plane "grid" of one row.
    """
    planes, start = {}, 0
    for field in quant.fields:
        row = padded_words(quant.blocks(k + -k % 4) * field.size)
        planes[field.name] = (start, row)
        start += rows * row
    if quant.grid:
        planes["grid"] = (start, len(grid(quant.grid)) // 4)
        start += planes["grid"][1]
    return planes, start


@dataclass(frozen=True)
class WeightPart:
    """Output features start..stop of a weight (of each port) in one buffer; those of experts are counted through."""

    start: int
    stop: int
    buffer: Buffer
    planes: dict[str, tuple[int, int]]

    @property
    def features(self) -> int:
        return self.stop - self.start

    @property
    def plane_constants(self) -> tuple[tuple[str, int, int], ...]:
        """Name, start and row length of each plane, as `shaders/quants/common.wgsl` wants them."""
        return tuple((name.upper(), start, row) for name, (start, row) in self.planes.items())


@dataclass(frozen=True)
class Weight:
    """A matrix [ports * features, k]; ports are matrices that are read together (gate and up).

    Of a mixture of experts there is one for each: a port is [experts * features, k], and a part holds whole experts, or
    features of a single one.
    """

    name: str
    quant: QuantType
    features: int
    k: int
    parts: tuple[WeightPart, ...]
    ports: int = 1
    experts: int = 1
    factors: Buffer | None = None
    """f32 [ports * features]: what products are multiplied by, where scales lie outside of the blocks"""

    @property
    def bytes(self) -> int:
        """Bytes that a matmul reads."""
        return sum(part.buffer.size for part in self.parts)


@dataclass(frozen=True)
class Norm:
    """A norm: gain (and bias) f32 [width] on the device, and epsilon. A layer norm takes the mean off first."""

    gain: Buffer
    eps: float
    bias: Buffer | None = None
    kind: Literal["rms", "layer"] = "rms"

    @property
    def deferred(self) -> bool:
        """Whether readers can apply its factor to what they make."""
        return self.kind == "rms" and self.bias is None


def split_features(
    quant: QuantType, features: int, k: int, ports: int, limit: int, experts: int = 1
) -> list[tuple[int, int]]:
    """Cuts a weight into runs of features whose planes fit a binding of `limit` bytes.

    Experts stay whole where one fits; else each is cut for itself.

    Raises:
        OutOfMemoryError: a binding holds too few features for kernels to make them together.
    """
    _, fixed = plane_layout(quant, k, 0)
    _, words = plane_layout(quant, k, ports)
    most = (limit // 4 - fixed) // (words - fixed)
    if experts > 1 and most >= features:
        step = most // features * features
        return [(start, min(start + step, experts * features)) for start in range(0, experts * features, step)]
    step = most // SPLIT_FEATURES * SPLIT_FEATURES
    if step <= 0:
        size = 4 * (fixed + SPLIT_FEATURES * (words - fixed))
        raise OutOfMemoryError(
            f"{SPLIT_FEATURES} rows of {k} weights in {quant.name} take {size:,} bytes, more than the {limit:,} that "
            "this adapter lets a kernel reach: choose another adapter with --device, or a smaller quantization"
        )
    return [
        (expert + start, expert + min(start + step, features))
        for expert in range(0, experts * features, features)
        for start in range(0, features, step)
    ]
