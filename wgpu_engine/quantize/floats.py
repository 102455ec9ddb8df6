"""F32, F16 and BF16: each weight by itself, rounded to the nearest."""

import numpy as np

from wgpu_engine.quantize.blocks import Bytes, Floats


def f32(values: Floats) -> Bytes:
    return values.astype("<f4").view(np.uint8)


def f16(values: Floats) -> Bytes:
    with np.errstate(over="ignore"):
        stored = values.astype("<f2")
    if not np.isfinite(stored).all():
        raise OverflowError
    return stored.view(np.uint8)


def bf16(values: Floats) -> Bytes:
    """The upper halves of float32, rounded to the nearest, to an even one between two."""
    bits = values.view(np.uint32)
    stored = (bits + (np.uint32(0x7FFF) + (bits >> 16 & 1)) >> 16).astype("<u2")
    if ((stored & 0x7F80) == 0x7F80).any():
        raise OverflowError
    return stored.view(np.uint8)
