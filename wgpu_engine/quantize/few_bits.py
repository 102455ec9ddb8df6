"""TQ1_0, TQ2_0, Q1_0 and Q2_0: quants of two, three or four values, and a scale for a block.

Formats: llama.cpp, ggml/src/ggml-common.h and ggml-quants.c.
"""

import numpy as np
from numpy.typing import NDArray

from wgpu_engine.quantize.blocks import Bytes, Floats, columns, halves, packed, reciprocal, rounded, rows
from wgpu_engine.quantize.search import symmetric

_STEPS = [step / 5 for step in range(-2, 10)]
_POWERS = np.array([81, 27, 9, 3, 1], np.uint8)


def _ternary(blocks: Floats) -> tuple[Bytes, Bytes]:
    """Scales as bytes, and quants [blocks, 256] of 0, 1 and 2 for minus, nothing and plus, with the least error.

    If the k largest weights are kept and the others zero, the best scale is the mean of the k, and the error is less
    the larger the square of their sum, divided by k.
    """
    sizes = np.abs(blocks)
    kept = -np.sort(-sizes, axis=1)
    sums, counts = np.cumsum(kept, axis=1), np.arange(1, blocks.shape[1] + 1, dtype=np.float32)
    best = np.argmax(np.square(sums * reciprocal(kept[:, :1])) / counts, axis=1, keepdims=True)
    _, stored = halves((np.take_along_axis(sums, best, axis=1) / counts[best]).ravel())
    quants: NDArray[np.int8] = np.sign(blocks).astype(np.int8) * (sizes >= np.take_along_axis(kept, best, axis=1))
    return stored, (quants + np.int8(1)).astype(np.uint8)


def _digits(quants: Bytes, width: int) -> Bytes:
    """Up to five quants of base three a byte, as fractions of 243 scaled to 256: `width` bytes of each run."""
    parts = quants.reshape(len(quants), -1, width)
    number = (parts * _POWERS[: parts.shape[1], None]).sum(axis=1, dtype=np.uint16)
    digits: Bytes = ((number * np.uint16(256) + np.uint16(242)) // np.uint16(243)).astype(np.uint8)
    return digits


def tq1_0(blocks: Floats) -> Bytes:
    scales, quants = _ternary(blocks)
    return np.hstack(
        [_digits(quants[:, :160], 32), _digits(quants[:, 160:240], 16), _digits(quants[:, 240:], 4), scales]
    )


def tq2_0(blocks: Floats) -> Bytes:
    scales, quants = _ternary(blocks)
    return np.hstack([packed(quants, 2, 32), scales])


def q1_0(blocks: Floats) -> Bytes:
    """Signs; their best scale is the mean of the weights' sizes."""
    _, scales = halves(np.abs(blocks).mean(axis=1, dtype=np.float32))
    return np.hstack([scales, packed((blocks >= 0).astype(np.uint8), 1, 1)])


def q2_0(blocks: Floats) -> Bytes:
    """-1, 0, 1 or 2 times the scale, which is negative where the largest weight is."""
    x = columns(blocks)
    (scale,), scales = halves(symmetric(x, -1, 2, _STEPS))
    return np.hstack([scales, packed(rows(rounded(x * reciprocal(scale), -1, 2) + np.float32(1)), 2, 1)])
