"""Matrices of whole numbers of 4 or 8 bits with scales and zeros, as blocks of INT4 and INT8, or expanded to F16.

A weight is `scale * (q - zero)`; scale and zero are those of its group of columns.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from wgpu_engine.files.packed_rows import as_bytes, padded
from wgpu_engine.files.quants import QUANT_TYPES, QuantType

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Integers(Protocol):
    """A matrix [rows, columns] of unsigned numbers of `bits` bits, in whichever layout."""

    @property
    def bits(self) -> int: ...

    @property
    def shape(self) -> tuple[int, int]: ...

    async def words(self, first: int, count: int) -> "NDArray[np.uint32]":
        """Numbers of rows first..first+count, [count, words]: neighbours in a word, the first in its low bits."""

    async def scales(self, first: int, count: int) -> "NDArray[np.float32]":
        """Of those rows, [count, groups]."""

    async def zeros(self, first: int, count: int) -> "NDArray[Any]":
        """Of those rows, whole numbers [count, groups]."""


@dataclass(frozen=True)
class IntegerBlocks:
    """Groups of neighbouring columns, a multiple of 32 of them, as blocks; the columns are a multiple of 32 too."""

    layout: Integers
    group: int
    """columns"""

    @property
    def quant(self) -> QuantType:
        size = 32 if self.group % 128 and self.group < self.shape[1] else 128
        return QUANT_TYPES[f"INT{self.layout.bits}_G{size}"]

    @property
    def shape(self) -> tuple[int, int]:
        return self.layout.shape

    async def blocks(self, first: int, count: int) -> "NDArray[np.uint8]":
        """See `Rows`."""
        import numpy as np

        quant, bits = self.quant, self.layout.bits
        number = quant.blocks(self.shape[1])
        words = padded(await self.layout.words(first, count), number * quant.block * bits // 32)
        quants = _nibbles_apart(words) if bits == 4 else words ^ np.uint32(0x80808080)
        groups = np.arange(number) * quant.block // self.group
        scales = (await self.layout.scales(first, count))[:, groups]
        zeros = (await self.layout.zeros(first, count))[:, groups].astype("<u2")
        fields = (as_bytes(quants).reshape(count, number, -1), as_bytes(scales[..., None]), as_bytes(zeros[..., None]))
        return np.concatenate(fields, axis=2).reshape(count, -1)


@dataclass(frozen=True)
class ExpandedIntegers:
    """Columns whose groups are in no order that blocks could follow, as halves; GPTQ's own code rounds to these too."""

    layout: Integers
    groups: "NDArray[np.int32]"
    """of each column"""
    quant: QuantType = QUANT_TYPES["F16"]

    @property
    def shape(self) -> tuple[int, int]:
        return self.layout.shape

    async def blocks(self, first: int, count: int) -> "NDArray[np.uint8]":
        """See `Rows`."""
        import numpy as np

        q = unpacked(await self.layout.words(first, count), self.layout.bits)[:, : self.shape[1]].astype(np.float32)
        q -= np.take((await self.layout.zeros(first, count)).astype(np.float32), self.groups, axis=1)
        q *= np.take(await self.layout.scales(first, count), self.groups, axis=1)
        # what is too large for a half becomes infinite, and is told where weights are looked at for that
        with np.errstate(over="ignore"):
            return as_bytes(q.astype("<f2"))


def unpacked(words: "NDArray[np.uint32]", bits: int) -> "NDArray[np.uint8]":
    """Numbers [rows, words * 32 / bits] out of words [rows, words], the first in the low bits."""
    import numpy as np

    data = as_bytes(words)
    if bits == 8:
        return data
    return np.stack([data & 15, data >> 4], axis=2).reshape(len(data), -1)


def _nibbles_apart(words: "NDArray[np.uint32]") -> "NDArray[np.uint32]":
    """Of 32 neighbouring nibbles the first 16 become the low halves of 16 bytes, the others the high halves."""
    import numpy as np

    x = np.ascontiguousarray(words).view("<u2").astype("<u4").reshape(len(words), -1, 8)
    x = (x | x << 8) & np.uint32(0x00FF00FF)
    x = (x | x << 4) & np.uint32(0x0F0F0F0F)
    nibbles: NDArray[np.uint32] = (x[..., :4] | x[..., 4:] << 4).reshape(len(words), -1)
    return nibbles
