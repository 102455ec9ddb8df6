"""The weights that blocks of any type mean."""

import gguf
import numpy as np
from gguf.quants import dequantize

from wgpu_engine.files.quants import QuantType
from wgpu_engine.quantize.blocks import Bytes, Floats

_NUMBERS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I8": "i1", "I16": "<i2", "I32": "<i4", "I64": "<i8"}


def decode(raw: Bytes, quant: QuantType) -> Floats:
    """Weights f32 [elements] of whole blocks of bytes; NaN and infinities pass."""
    if quant.name in _NUMBERS:
        with np.errstate(over="ignore", invalid="ignore"):
            return raw.view(_NUMBERS[quant.name]).astype(np.float32)
    if quant.name == "BF16":
        return (raw.view("<u2").astype(np.uint32) << 16).view(np.float32)
    if quant.name in ("Q1_0", "Q2_0"):
        return _few_bits(raw.reshape(-1, quant.block_bytes), quant.block)
    with np.errstate(over="ignore", invalid="ignore"):
        weights: Floats = dequantize(raw.reshape(-1, quant.block_bytes), gguf.GGMLQuantizationType[quant.name])
    return weights.reshape(-1)


def _few_bits(blocks: Bytes, elements: int) -> Floats:
    """Q1_0 and Q2_0, which gguf-py lacks: a scale, then quants of one or two bits in order."""
    scales = blocks[:, :2].copy().view("<f2").astype(np.float32)
    bits = np.unpackbits(blocks[:, 2:], axis=1, bitorder="little").reshape(len(blocks), elements, -1).astype(np.float32)
    quants = 2 * bits[..., 0] - 1 if bits.shape[2] == 1 else bits[..., 0] + 2 * bits[..., 1] - 1
    weights: Floats = (quants * scales).reshape(-1)
    return weights
