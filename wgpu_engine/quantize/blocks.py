"""What all quantizers share: the arrays that they work on, and how quants become bytes.

Within a quantizer the elements of a block are the *first* axis and the blocks the last one, `[elements, blocks]`, or
`[elements, sub-blocks, blocks]` for types with scales of sub-blocks: whatever is done for each block then runs over
neighbours in memory.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]

_TINY = np.float32(1e-35)
"""what is smaller counts as zero, since its reciprocal would not be a float32"""


def columns(blocks: Floats, parts: int = 1) -> Floats:
    """Blocks [blocks, elements] turned to [elements, blocks], or [elements, parts, blocks]."""
    count, elements = blocks.shape
    if parts == 1:
        return np.ascontiguousarray(blocks.T)
    return np.ascontiguousarray(blocks.reshape(count, parts, elements // parts).transpose(2, 1, 0))


def rows(quants: NDArray[Any]) -> Bytes:
    """Quants [elements, blocks] or [elements, parts, blocks] as bytes [blocks, elements], in the weights' order."""
    return np.ascontiguousarray(quants.astype(np.uint8).transpose()).reshape(quants.shape[-1], -1)


def reciprocal(values: Floats) -> Floats:
    """1 / values, and 0 for zero."""
    result = np.zeros_like(values)
    return np.divide(np.float32(1), values, out=result, where=np.abs(values) > _TINY)


def rounded(values: Floats, low: int, high: int) -> Floats:
    """Values rounded to integers from `low` to `high`, in place."""
    np.rint(values, out=values)
    np.maximum(values, np.float32(low), out=values)
    return np.minimum(values, np.float32(high), out=values)


def halves(*values: Floats) -> tuple[Floats, Bytes]:
    """Numbers, one a block, as half floats: what they become as float32 [count, blocks], and bytes [blocks, 2 * count].

    Raises:
        OverflowError: one is more than a half float holds.
    """
    with np.errstate(over="ignore"):
        stored = np.stack(values).astype("<f2")
    if not np.isfinite(stored).all():
        raise OverflowError
    return stored.astype(np.float32), np.ascontiguousarray(stored.T).view(np.uint8)


def packed(quants: NDArray[Any], bits: int, width: int) -> Bytes:
    """Quants [blocks, elements] of a few bits, several in a byte.

    Of each run of `width` bytes, the low bits are the first `width` quants, the next bits the next ones.
    """
    parts = quants.astype(np.uint8, copy=False).reshape(len(quants), -1, 8 // bits, width)
    result: Bytes = parts[:, :, 0].copy()
    for number in range(1, 8 // bits):
        result |= parts[:, :, number] << np.uint8(number * bits)
    return result.reshape(len(quants), -1)
