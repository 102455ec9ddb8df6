"""Matrices of 8-bit floats with scales, as safetensors hold them, as blocks of F8_E4M3 or F8_E5M2.

A weight is its float times its scale, whether the scale's tensor is called `weight_scale` or `weight_scale_inv`: one
for all, one for each row, or one for each tile.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wgpu_engine.files.packed_rows import as_bytes, padded, read_all, read_rows, scales_of
from wgpu_engine.files.quants import QUANT_TYPES, QuantType
from wgpu_engine.files.safetensors import StoredTensor

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Float8:
    """A matrix whose weight [i, j] is `weight[i, j] * scale[i // tile[0], j // tile[1]]`."""

    weight: StoredTensor
    """F8_E4M3 or F8_E5M2 [rows, columns]"""
    scale: StoredTensor
    """F32, F16 or BF16, as many as there are tiles, row-major"""
    tile: tuple[int, int]
    """rows and columns that share a scale; the columns are a multiple of 128, or all"""

    @property
    def quant(self) -> QuantType:
        return QUANT_TYPES[self.weight.dtype]

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self.weight.shape
        return rows, columns

    async def blocks(self, first: int, count: int) -> "NDArray[np.uint8]":
        """See `Rows`."""
        import numpy as np

        columns, size = self.shape[1], self.quant.block
        number = self.quant.blocks(columns)
        values = padded(await read_rows(self.weight, first, count), number * size).reshape(count, number, size)
        tiles = scales_of(self.scale, await read_all(self.scale)).reshape(-1, -(-columns // self.tile[1]))
        rows = np.arange(first, first + count) // self.tile[0]
        scales = tiles[rows][:, np.arange(number) * size // self.tile[1]]
        return np.concatenate([values, as_bytes(scales[..., None])], axis=2).reshape(count, -1)
