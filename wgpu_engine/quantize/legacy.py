"""Q4_0, Q4_1, Q5_0, Q5_1 and Q8_0: blocks of 32 with one scale, and an offset or none.

Formats: llama.cpp, ggml/src/ggml-common.h.
"""

import numpy as np

from wgpu_engine.quantize.blocks import Bytes, Floats, columns, halves, packed, reciprocal, rounded, rows
from wgpu_engine.quantize.search import AFFINE_STEPS, LINEAR_STEPS, affine, symmetric


def _centred(blocks: Floats, bits: int) -> tuple[Bytes, Bytes]:
    """Scales as bytes, and quants [blocks, 32] from 0, for `scale * (q - middle)`."""
    x, middle = columns(blocks), 1 << bits - 1
    (scale,), stored = halves(symmetric(x, -middle, middle - 1, LINEAR_STEPS))
    return stored, rows(rounded(x * reciprocal(scale), -middle, middle - 1) + np.float32(middle))


def _shifted(blocks: Floats, bits: int) -> tuple[Bytes, Bytes]:
    """Scales and offsets as bytes, and quants [blocks, 32], for `scale * q + offset`."""
    x, high = columns(blocks), (1 << bits) - 1
    (scale, offset), stored = halves(*affine(x, high, AFFINE_STEPS, free=True))
    return stored, rows(rounded((x - offset) * reciprocal(scale), 0, high))


def q4_0(blocks: Floats) -> Bytes:
    scales, quants = _centred(blocks, 4)
    return np.hstack([scales, packed(quants, 4, 16)])


def q4_1(blocks: Floats) -> Bytes:
    scales, quants = _shifted(blocks, 4)
    return np.hstack([scales, packed(quants, 4, 16)])


def q5_0(blocks: Floats) -> Bytes:
    scales, quants = _centred(blocks, 5)
    return np.hstack([scales, packed(quants >> 4, 1, 1), packed(quants & 15, 4, 16)])


def q5_1(blocks: Floats) -> Bytes:
    scales, quants = _shifted(blocks, 5)
    return np.hstack([scales, packed(quants >> 4, 1, 1), packed(quants & 15, 4, 16)])


def q8_0(blocks: Floats) -> Bytes:
    (scale,), stored = halves(np.abs(blocks).max(axis=1) / np.float32(127))
    quants = rounded(blocks * reciprocal(scale)[:, None], -127, 127)
    return np.hstack([stored, quants.astype(np.int8).view(np.uint8)])
