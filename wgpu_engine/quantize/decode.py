"""The weights that blocks of any type mean."""

from functools import cache

import gguf
import numpy as np
from gguf.quants import dequantize

from wgpu_engine.files.quants import QuantType
from wgpu_engine.quantize.blocks import Bytes, Floats

_NUMBERS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I8": "i1", "I16": "<i2", "I32": "<i4", "I64": "<i8"}


def decode(raw: Bytes, quant: QuantType) -> Floats:
    """Weights f32 [rows, blocks of a row * block] of rows of bytes; NaN and infinities pass."""
    with np.errstate(over="ignore", invalid="ignore"):
        if quant.name in _NUMBERS:
            return np.ascontiguousarray(raw).view(_NUMBERS[quant.name]).astype(np.float32)
        if quant.name == "BF16":
            return (np.ascontiguousarray(raw).view("<u2").astype(np.uint32) << 16).view(np.float32)
        blocks = np.ascontiguousarray(raw).reshape(-1, quant.block_bytes)
        if quant.name.startswith("F8"):
            weights = _float8(quant.name)[blocks[:, :-4]] * _scales(blocks[:, -4:])
        elif quant.name == "TERNARY":
            weights = _ternary(blocks[:, :-4]) * _scales(blocks[:, -4:])
        elif quant.name.startswith("INT"):
            weights = _integers(blocks, quant)
        elif quant.name in ("Q1_0", "Q2_0"):
            weights = _few_bits(blocks, quant.block)
        else:
            weights = dequantize(blocks, gguf.GGMLQuantizationType[quant.name])
    return weights.reshape(len(raw), -1)


def _few_bits(blocks: Bytes, elements: int) -> Floats:
    """Q1_0 and Q2_0, which gguf-py lacks: a scale, then quants of one or two bits in order."""
    scales = blocks[:, :2].copy().view("<f2").astype(np.float32)
    bits = np.unpackbits(blocks[:, 2:], axis=1, bitorder="little").reshape(len(blocks), elements, -1).astype(np.float32)
    quants: Floats = 2 * bits[..., 0] - 1 if bits.shape[2] == 1 else bits[..., 0] + 2 * bits[..., 1] - 1
    return quants * scales


def _scales(raw: Bytes) -> Floats:
    return np.ascontiguousarray(raw).view("<f4").astype(np.float32)


def _ternary(quants: Bytes) -> Floats:
    """Our own type of -1, 0 and 1: four quants from 0 a byte, in runs of 32 bytes."""
    runs = quants.reshape(len(quants), -1, 1, 32) >> np.arange(0, 8, 2, dtype=np.uint8)[:, None] & 3
    return runs.reshape(len(quants), -1).astype(np.float32) - np.float32(1)


def _integers(blocks: Bytes, quant: QuantType) -> Floats:
    """Our own types of whole numbers: quants, a scale and a zero; nibbles in runs of 16 bytes, or int8 less 128."""
    quants, zero = blocks[:, :-6], np.ascontiguousarray(blocks[:, -2:]).view("<u2").astype(np.float32)
    if quant.nibbles:
        runs = quants.reshape(len(blocks), -1, 1, 16)
        whole = np.concatenate([runs & 15, runs >> 4], axis=2).reshape(len(blocks), -1).astype(np.float32)
    else:
        whole = quants.view(np.int8).astype(np.float32) + np.float32(128)
    return (whole - zero) * _scales(blocks[:, -6:-2])


@cache
def _float8(name: str) -> Floats:
    """What each byte means in F8_E4M3, whose largest bits alone are NaN, or F8_E5M2, which has infinities."""
    mantissa, bias = (3, 7) if name == "F8_E4M3" else (2, 15)
    sizes = np.arange(128)
    exponent, fraction = sizes >> mantissa, (sizes & (1 << mantissa) - 1) / (1 << mantissa)
    values = np.ldexp(fraction + (exponent > 0), np.maximum(exponent, 1) - bias).astype(np.float32)
    if name == "F8_E4M3":
        values[-1] = np.nan
    else:
        values[-4:] = np.inf, np.nan, np.nan, np.nan
    return np.concatenate([values, -values])
