"""What the quantization types mean that no GGUF file has, in NumPy."""

import numpy as np
from numpy.typing import NDArray

from wgpu_engine.files.quants import QuantType


def f8_values(name: str) -> NDArray[np.float64]:
    """What each of the 256 codes of F8_E4M3 or F8_E5M2 means, NaN and infinity included (OCP's 8-bit floats)."""
    codes = np.arange(256)
    if name == "F8_E5M2":
        # the upper half of a half float
        return (codes.astype(np.uint16) << 8).view(np.float16).astype(np.float64)
    exponent, fraction = codes >> 3 & 15, codes & 7
    size = np.where(exponent == 0, fraction * 2.0**-9, (8 + fraction) * 2.0 ** (exponent - 10))
    return np.where(codes & 127 == 127, np.nan, np.where(codes < 128, size, -size))


def own_values(quant: QuantType, raw: NDArray[np.uint8]) -> NDArray[np.float32]:
    """What rows of the types mean that GGUF doesn't have."""
    blocks = raw.reshape(-1, quant.block_bytes)
    scale_at = quant.fields[1].offset
    quants, tail = blocks[:, :scale_at], blocks[:, scale_at:].copy()
    scale = tail[:, :4].copy().view("<f4").astype(np.float64)
    if quant.name == "TERNARY":
        pairs = quants.reshape(-1, 1, 32) >> np.arange(0, 8, 2)[None, :, None] & 3
        q = pairs.reshape(len(blocks), -1).astype(np.float64) - 1
    elif quant.name.startswith("F8"):
        q = f8_values(quant.name)[quants]
    else:
        q = quants.view(np.int8).astype(np.float64) + 128
        if quant.nibbles:
            units = quants.reshape(-1, 16)
            q = np.hstack([units & 15, units >> 4]).astype(np.float64).reshape(len(blocks), -1)
        q -= tail[:, 4:].copy().view("<u2")
    with np.errstate(invalid="ignore"):
        return (q * scale).astype(np.float32).reshape(len(raw), -1)
