"""Random blocks of each quantization type, and the values that they mean."""

import gguf
import numpy as np
from gguf.quants import dequantize
from numpy.typing import NDArray

from tests.ops.own_types import f8_values, own_values
from wgpu_engine.files.quants import QuantType

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]


def random_blocks(rng: np.random.Generator, quant: QuantType, rows: int, k: int) -> Bytes:
    """Rows of random bytes [rows, row bytes], only the scales of blocks and the exponents of floats kept sane."""
    if quant.fields[0].name == "integers":
        # no more than the 24 bits that f32 holds, and not so large that squares of their sums overflow it
        bits = min(8 * quant.block_bytes, 52)
        most = min(bits, 25) - 1
        values = rng.integers(-(1 << most), 1 << most, (rows, k)) << rng.integers(0, bits - most, (rows, k))
        return values.astype(f"<i{quant.block_bytes}").view(np.uint8).reshape(rows, -1)
    if quant.block == 1:
        values = (rng.standard_normal((rows, k)) * 2.0 ** rng.integers(-9, 10, (rows, k))).astype(np.float32)
        if quant.name == "F16":
            return values.astype(np.float16).view(np.uint8).reshape(rows, -1)
        if quant.name == "BF16":
            return (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8).reshape(rows, -1)
        if quant.name == "F64":
            # more bits than f32 holds, never halfway between two of them
            return (values * (1 + rng.uniform(0, 2.0**-25, (rows, k)))).view(np.uint8).reshape(rows, -1)
        return values.view(np.uint8).reshape(rows, -1)
    blocks = rng.integers(0, 256, (rows * quant.blocks(k), quant.block_bytes), dtype=np.uint8)
    for field in quant.fields:
        if field.name in ("scale", "scale_min"):
            half = field.floats == "f16"
            shape = (len(blocks), field.size // (2 if half else 4))
            scales = rng.uniform(-1, 1, shape) * 2.0 ** rng.integers(-8, 1, shape) * (rng.random(shape) > 0.05)
            # no more bits than a half has in any case, which leaves f32 room for exact products
            scales = scales.astype(np.float16).astype(np.float16 if half else np.float32)
            blocks[:, field.offset : field.offset + field.size] = scales.view(np.uint8)
        elif field.name == "zero":
            zeros = rng.integers(0, 17 if quant.nibbles else 257, len(blocks))
            blocks[:, field.offset : field.offset + 2] = zeros.astype("<u2").view(np.uint8).reshape(-1, 2)
        elif field.name == "values":
            # all but NaN and infinity
            codes = [code for code in range(256) if np.isfinite(f8_values(quant.name)[code])]
            blocks[:, : field.size] = rng.choice(np.array(codes, np.uint8), (len(blocks), field.size))
        elif field.name == "exponent":
            blocks[:, field.offset] = rng.integers(110, 130, len(blocks))
        elif quant.name == "IQ1_M" and field.name == "scales":
            # the scale lies in the top four bits of each half; its exponent's highest bit is cleared lest it be NaN
            blocks[:, field.offset + field.size - 1] &= 0xBF
    return blocks.reshape(rows, -1)


def few_bits(raw: Bytes, block: int, bits: int) -> Floats:
    """What rows of Q1_0 or Q2_0 blocks mean, which gguf-py can't decode: a scale d, then the bits of q in order.

    A weight is (2 * q - 1) * d of one bit, (q - 1) * d of two.
    """
    blocks = raw.reshape(-1, 2 + block * bits // 8)
    scale = blocks[:, :2].copy().view(np.float16).astype(np.float32)
    each = np.unpackbits(blocks[:, 2:], axis=1, bitorder="little").reshape(-1, block, bits).astype(np.int8)
    q = 2 * each[..., 0] - 1 if bits == 1 else each[..., 0] + 2 * each[..., 1] - 1
    return (q * scale).reshape(len(raw), -1)


def values_of(quant: QuantType, raw: Bytes) -> Floats:
    """What gguf-py makes of rows of raw blocks."""
    if quant.ggml_id is None:
        return own_values(quant, raw)
    if quant.name == "F64" or quant.fields[0].name == "integers":
        return raw.view(f"<{quant.name[0].lower()}{quant.block_bytes}").astype(np.float32)
    if quant.name in ("Q1_0", "Q2_0"):
        return few_bits(raw, quant.block, int(quant.name[1]))
    return dequantize(raw, gguf.GGMLQuantizationType[quant.name]).astype(np.float32)
