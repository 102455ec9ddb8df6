"""Matrices of -1, 0 and 1 with one scale, as BitNet's safetensors hold them, as blocks of TERNARY.

Formulas: transformers, integrations/bitnet.py.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wgpu_engine.files.packed_rows import as_bytes, padded, read_all, read_rows, scales_of
from wgpu_engine.files.quants import QUANT_TYPES, QuantType
from wgpu_engine.files.safetensors import StoredTensor

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_BATCH = 1 << 22
"""elements that are added up at a time"""


@dataclass(frozen=True)
class PackedTernary:
    """Four rows in the bits of one: two bits each, the lowest for the rows of the first quarter, less one."""

    weight: StoredTensor
    """U8 [rows / 4, columns]"""
    scale: StoredTensor
    """a single F32, F16 or BF16"""
    inverse: bool
    """weights are divided by the scale, not multiplied"""

    @property
    def quant(self) -> QuantType:
        return QUANT_TYPES["TERNARY"]

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self.weight.shape
        return 4 * rows, columns

    async def blocks(self, first: int, count: int) -> "NDArray[np.uint8]":
        """See `Rows`."""
        import numpy as np

        quarter, parts, end = self.weight.shape[0], [], first + count
        while first < end:
            pair, row = divmod(first, quarter)
            part = min(end - first, quarter - row)
            parts.append(await read_rows(self.weight, row, part) >> 2 * pair & 3)
            first += part
        scale = scales_of(self.scale, await read_all(self.scale)).reshape(())
        with np.errstate(divide="ignore"):
            return _blocks(np.concatenate(parts), 1 / scale if self.inverse else scale)


@dataclass(frozen=True)
class RoundedTernary:
    """Floats that are rounded to -1, 0 and 1 times the mean of all their sizes, as in training."""

    weight: StoredTensor
    """F32, F16 or BF16 [rows, columns]"""
    _scale: list[float] = field(default_factory=list)
    """kept once it is known"""

    @property
    def quant(self) -> QuantType:
        return QUANT_TYPES["TERNARY"]

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self.weight.shape
        return rows, columns

    async def blocks(self, first: int, count: int) -> "NDArray[np.uint8]":
        """See `Rows`."""
        import numpy as np

        if not self._scale:
            self._scale.append(max(await self._mean_size(), 1e-5))
        values = scales_of(self.weight, await read_rows(self.weight, first, count)) / self._scale[0]
        return _blocks((np.rint(values).clip(-1, 1) + 1).astype(np.uint8), self._scale[0])

    async def _mean_size(self) -> float:
        import numpy as np

        rows, columns = self.shape
        step, total = max(1, _BATCH // columns), 0.0
        for first in range(0, rows, step):
            values = await read_rows(self.weight, first, min(step, rows - first))
            total += float(np.abs(scales_of(self.weight, values)).sum(dtype=np.float64))
        return total / (rows * columns)


def _blocks(quants: "NDArray[np.uint8]", scale: "Any") -> "NDArray[np.uint8]":
    """Rows of quants from 0 to 2, [count, columns], and their scale, as blocks of TERNARY."""
    import numpy as np

    size = QUANT_TYPES["TERNARY"].block
    count, number = len(quants), QUANT_TYPES["TERNARY"].blocks(quants.shape[1])
    fours = padded(quants, number * size).reshape(count, number, size // 128, 4, 32)
    packed = fours[..., 0, :] | fours[..., 1, :] << 2 | fours[..., 2, :] << 4 | fours[..., 3, :] << 6
    scales = np.full((count, number, 1), scale, np.float32)
    return np.concatenate([packed.reshape(count, number, -1), as_bytes(scales)], axis=2).reshape(count, -1)
