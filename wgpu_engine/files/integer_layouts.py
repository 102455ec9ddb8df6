"""How GPTQ, AWQ and compressed-tensors store whole numbers, their scales and their zeros in safetensors.

Layouts: the packing of AutoGPTQ's and AutoAWQ's quantized linear layers, and compressed-tensors' pack-quantized and
int-quantized formats. All shapes are checked by whoever makes these (`hf_integers.py`).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wgpu_engine.files.integers import unpacked
from wgpu_engine.files.packed_rows import read_all, read_rows, scales_of
from wgpu_engine.files.safetensors import StoredTensor

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
"""which of eight neighbouring features each nibble of a word holds"""


async def _columns(tensor: StoredTensor, first: int, count: int) -> "NDArray[Any]":
    """Columns of a matrix as rows."""
    return (await read_all(tensor))[:, first : first + count].T


@dataclass(frozen=True)
class GPTQ:
    """Packed along columns, transposed: qweight [columns * bits / 32, rows], qzeros [groups, rows * bits / 32]."""

    bits: int
    qweight: StoredTensor
    qzeros: StoredTensor
    scales_: StoredTensor
    """[groups, rows]"""
    stored_less: int
    """how much less than a zero is what stands for it, modulo 2 ** bits: 1 in the first version of the format"""

    @property
    def shape(self) -> tuple[int, int]:
        return self.qweight.shape[1], self.qweight.shape[0] * 32 // self.bits

    async def words(self, first: int, count: int) -> "NDArray[np.uint32]":
        """See `Integers`."""
        import numpy as np

        return np.ascontiguousarray(await _columns(self.qweight, first, count)).view("<u4")

    async def scales(self, first: int, count: int) -> "NDArray[np.float32]":
        """See `Integers`."""
        return scales_of(self.scales_, await _columns(self.scales_, first, count))

    async def zeros(self, first: int, count: int) -> "NDArray[Any]":
        """See `Integers`."""
        each = 32 // self.bits
        start, end = first // each, -(-(first + count) // each)
        packed = (await read_all(self.qzeros))[:, start:end]
        zeros = unpacked(packed, self.bits)[:, first - start * each :][:, :count]
        return ((zeros + self.stored_less) & ((1 << self.bits) - 1)).T


@dataclass(frozen=True)
class AWQ:
    """Packed along rows in an order of its own, transposed: qweight [columns, rows / 8], qzeros [groups, rows / 8]."""

    qweight: StoredTensor
    qzeros: StoredTensor
    scales_: StoredTensor
    """[groups, rows]"""
    bits: int = 4

    @property
    def shape(self) -> tuple[int, int]:
        return 8 * self.qweight.shape[1], self.qweight.shape[0]

    async def words(self, first: int, count: int) -> "NDArray[np.uint32]":
        """See `Integers`."""
        import numpy as np

        start, end = first // 8, -(-(first + count) // 8)
        packed = (await read_all(self.qweight))[:, start:end].view("<u4")
        # of eight columns together, nibble i of word j becomes nibble j of word i: halves change places, then quarters…
        x = np.ascontiguousarray(packed.reshape(-1, 8, end - start).transpose(2, 1, 0))
        for size, mask in ((4, 0x0000FFFF), (2, 0x00FF00FF), (1, 0x0F0F0F0F)):
            pairs, low, shift = x.reshape(end - start, -1, 2, size, x.shape[2]), np.uint32(mask), np.uint32(4 * size)
            a, b = pairs[:, :, 0], pairs[:, :, 1]
            x = np.stack([a & low | (b & low) << shift, a >> shift & low | b & ~low], axis=2).reshape(x.shape)
        rows = np.empty_like(x)
        rows[:, _AWQ_ORDER] = x
        return rows.reshape(8 * (end - start), -1)[first - 8 * start :][:count]

    async def scales(self, first: int, count: int) -> "NDArray[np.float32]":
        """See `Integers`."""
        return scales_of(self.scales_, await _columns(self.scales_, first, count))

    async def zeros(self, first: int, count: int) -> "NDArray[Any]":
        """See `Integers`."""
        import numpy as np

        start, end = first // 8, -(-(first + count) // 8)
        packed = unpacked((await read_all(self.qzeros))[:, start:end], 4).reshape(-1, end - start, 8)
        zeros = np.empty_like(packed)
        zeros[..., _AWQ_ORDER] = packed
        return zeros.reshape(len(packed), -1)[:, first - 8 * start :][:, :count].T


@dataclass(frozen=True)
class Compressed:
    """Rows as they are, signed: int8, or packed into words with 2 ** (bits - 1) added."""

    bits: int
    columns: int
    weight: StoredTensor
    """I8 [rows, columns], or I32 [rows, words]"""
    scale: StoredTensor
    """one, one a row, or [rows, groups]"""
    zero: StoredTensor | None
    """I8 of the scale's shape; or I32 packed like weights, but along rows: [rows * bits / 32, groups]"""

    @property
    def shape(self) -> tuple[int, int]:
        return self.weight.shape[0], self.columns

    async def words(self, first: int, count: int) -> "NDArray[np.uint32]":
        """See `Integers`."""
        import numpy as np

        data = await read_rows(self.weight, first, count)
        if self.weight.dtype == "I8":
            signed = np.pad(data, ((0, 0), (0, -self.columns % 4)))
            return signed.view("<u4") ^ np.uint32(0x80808080)
        return data.view("<u4")

    async def scales(self, first: int, count: int) -> "NDArray[np.float32]":
        """See `Integers`."""
        return scales_of(self.scale, await self._by_row(self.scale, first, count))

    async def zeros(self, first: int, count: int) -> "NDArray[Any]":
        """See `Integers`."""
        import numpy as np

        middle = 1 << (self.bits - 1)
        if self.zero is None:
            return np.full((count, max(1, self._groups)), middle, np.int16)
        if self.zero.dtype == "I8":
            return (await self._by_row(self.zero, first, count)).astype(np.int16) + middle
        packed = np.ascontiguousarray((await read_all(self.zero)).T)
        return unpacked(packed, self.bits)[:, first : first + count].T.astype(np.int16)

    @property
    def _groups(self) -> int:
        return self.scale.shape[1] if len(self.scale.shape) == 2 else 1

    async def _by_row(self, tensor: StoredTensor, first: int, count: int) -> "NDArray[Any]":
        """Rows of scales or zeros, [count, groups]; one for all is the same for each row."""
        import numpy as np

        if tensor.nbytes == (await read_all(tensor)).itemsize:
            return np.broadcast_to((await read_all(tensor)).reshape(1, 1), (count, 1))
        return (await read_rows(tensor, first, count)).reshape(count, -1)
