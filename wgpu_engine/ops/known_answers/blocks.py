"""Blocks of every quantization type and what they mean, in plain Python: what decoders are compared with.

Formats: llama.cpp, ggml/src/ggml-common.h and ggml-quants.c. A type that is missing here is loaded and run like any
other, but nothing is known of its answers.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from wgpu_engine.files.quants import QuantType


@dataclass(frozen=True)
class Format:
    """How the blocks of a type are made and read."""

    decode: Callable[[bytes], list[float]]
    """the elements of a block"""
    shift: int
    """scales are whole numbers below 128 divided by 2 ** shift, so that weights are around 0.1"""


def random_rows(quant: QuantType, rows: int, k: int, random: Random) -> bytes:
    """Raw blocks of a matrix [rows, k]; every value in them is finite and exact in the type's own floats."""
    count = rows * k // quant.block
    if quant.is_float:
        return b"".join(_FLOATS[quant.name](byte / 512) for byte in memoryview(random.randbytes(count)).cast("b"))
    step = 2.0 ** -FORMATS[quant.name].shift
    parts = []
    for _ in range(count):
        for field in quant.fields:
            data = random.randbytes(field.size)
            if field.name in ("scale", "scale_min"):
                # 64 to 127 with either sign, in steps that halves hold exactly
                scales = [(byte % 64 + 64) * (1 if byte < 128 else -1) * step for byte in data[::2]]
                data = struct.pack(f"<{len(scales)}e", *scales)
            parts.append(data)
    return b"".join(parts)


def decoded(quant: QuantType, blocks: bytes) -> list[float]:
    """The values of raw blocks, one behind the other."""
    decode, size = FORMATS[quant.name].decode, quant.block_bytes
    return [value for start in range(0, len(blocks), size) for value in decode(blocks[start : start + size])]


def _f32(block: bytes) -> list[float]:
    return list(struct.unpack("<f", block))


def _f16(block: bytes) -> list[float]:
    return list(struct.unpack("<e", block))


def _bf16(block: bytes) -> list[float]:
    return list(struct.unpack("<f", b"\0\0" + block))


def _nibbles(data: bytes) -> list[int]:
    """Low halves of all bytes, then high halves."""
    return [byte & 15 for byte in data] + [byte >> 4 for byte in data]


def _fifth(quants: Sequence[int], bits: bytes) -> list[int]:
    (high,) = struct.unpack("<I", bits)
    return [quant | (high >> i & 1) << 4 for i, quant in enumerate(quants)]


def _q4_0(block: bytes) -> list[float]:
    (d,) = struct.unpack_from("<e", block)
    return [d * (q - 8) for q in _nibbles(block[2:])]


def _q4_1(block: bytes) -> list[float]:
    d, m = struct.unpack_from("<2e", block)
    return [d * q + m for q in _nibbles(block[4:])]


def _q5_0(block: bytes) -> list[float]:
    (d,) = struct.unpack_from("<e", block)
    return [d * (q - 16) for q in _fifth(_nibbles(block[6:]), block[2:6])]


def _q5_1(block: bytes) -> list[float]:
    d, m = struct.unpack_from("<2e", block)
    return [d * q + m for q in _fifth(_nibbles(block[8:]), block[4:8])]


def _q8_0(block: bytes) -> list[float]:
    d, *quants = struct.unpack("<e32b", block)
    return [d * q for q in quants]


def _q4_k(block: bytes) -> list[float]:
    d, d_min = struct.unpack_from("<2e", block)
    packed, quants = block[4:16], block[16:]
    values: list[float] = []
    for j in range(8):
        if j < 4:
            scale, offset = packed[j] & 63, packed[j + 4] & 63
        else:
            scale = packed[j + 4] & 15 | packed[j - 4] >> 6 << 4
            offset = packed[j + 4] >> 4 | packed[j] >> 6 << 4
        bytes_of_pair = quants[32 * (j // 2) : 32 * (j // 2) + 32]
        values += [d * scale * (byte >> 4 * (j % 2) & 15) - d_min * offset for byte in bytes_of_pair]
    return values


def _q6_k(block: bytes) -> list[float]:
    low, high = block[:128], block[128:192]
    *scales, d = struct.unpack_from("<16be", block, 192)
    values = []
    for i in range(256):
        half, part, at = i // 128, i // 32 % 4, i % 32
        nibble = low[64 * half + 32 * (part % 2) + at] >> 4 * (part // 2) & 15
        pair = high[32 * half + at] >> 2 * part & 3
        values.append(d * scales[i // 16] * ((nibble | pair << 4) - 32))
    return values


FORMATS: dict[str, Format] = {
    "F32": Format(_f32, 0),
    "F16": Format(_f16, 0),
    "BF16": Format(_bf16, 0),
    "Q4_0": Format(_q4_0, 12),
    "Q4_1": Format(_q4_1, 12),
    "Q5_0": Format(_q5_0, 13),
    "Q5_1": Format(_q5_1, 13),
    "Q8_0": Format(_q8_0, 16),
    "Q4_K": Format(_q4_k, 18),
    "Q6_K": Format(_q6_k, 20),
}
_FLOATS: dict[str, Callable[[float], bytes]] = {
    "F32": lambda value: struct.pack("<f", value),
    "F16": lambda value: struct.pack("<e", value),
    "BF16": lambda value: struct.pack("<f", value)[2:],
}
