"""Blocks of every quantization type and what they mean, in plain Python: what decoders are compared with.

Formats: llama.cpp, ggml/src/ggml-common.h and ggml-quants.c; our own: `files/quants.py`. A type that is missing here is
loaded and run like any other, but nothing is known of its answers.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from wgpu_engine.files.quants import QuantType
from wgpu_engine.ops.known_answers import iq_blocks as iq


@dataclass(frozen=True)
class Format:
    """How the blocks of a type are made and read."""

    decode: Callable[[bytes], list[float]]
    """the elements of a block"""
    shift: int
    """scales are whole numbers below 128 divided by 2 ** shift, so that weights are around 0.1"""
    tame: Callable[[bytes], bytes] = lambda block: block
    """gives a random block whose scales are no such floats scales that are as small"""


def random_rows(quant: QuantType, rows: int, k: int, random: Random) -> bytes:
    """Raw blocks of a matrix [rows, k]; every value in them is finite and exact in the type's own floats."""
    count = rows * quant.blocks(k)
    if quant.block == 1:
        return b"".join(_FLOATS[quant.name](byte / 512) for byte in memoryview(random.randbytes(count)).cast("b"))
    step = 2.0 ** -FORMATS[quant.name].shift
    parts = []
    for _ in range(count):
        block = b""
        for field in quant.fields:
            data = random.randbytes(field.size)
            if field.floats in _SCALES:
                # 64 to 127 with either sign, in steps that halves hold exactly
                kind, size = _SCALES[field.floats]
                scales = [(byte % 64 + 64) * (1 if byte < 128 else -1) * step for byte in data[::size]]
                data = struct.pack(f"<{len(scales)}{kind}", *scales)
            block += data
        parts.append(FORMATS[quant.name].tame(block))
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


def _parts(data: bytes, bits: int, width: int = 32) -> list[int]:
    """The low `bits` bits of the first `width` bytes, then the next bits of the same bytes, then the next bytes."""
    mask, shifts = (1 << bits) - 1, range(0, 8, bits)
    starts = range(0, len(data), width)
    return [byte >> shift & mask for start in starts for shift in shifts for byte in data[start : start + width]]


def _k_scales(packed: bytes) -> tuple[list[int], list[int]]:
    """Eight scales and eight offsets of 6 bits, as Q4_K and Q5_K pack them."""
    scales = [packed[j] & 63 for j in range(4)] + [packed[j + 8] & 15 | packed[j] >> 6 << 4 for j in range(4)]
    offsets = [packed[j + 4] & 63 for j in range(4)] + [packed[j + 8] >> 4 | packed[j + 4] >> 6 << 4 for j in range(4)]
    return scales, offsets


def _q2_k(block: bytes) -> list[float]:
    d, d_min = struct.unpack_from("<2e", block, 80)
    quants = _parts(block[16:80], 2)
    return [d * (block[i // 16] & 15) * q - d_min * (block[i // 16] >> 4) for i, q in enumerate(quants)]


def _q3_k(block: bytes) -> list[float]:
    high, packed = block[:32], block[96:108]
    (d,) = struct.unpack_from("<e", block, 108)
    low = [packed[j % 8] >> 4 * (j // 8) & 15 for j in range(16)]
    scales = [low[j] | (packed[8 + j % 4] >> 2 * (j // 4) & 3) << 4 for j in range(16)]
    quants = zip(_parts(block[32:96], 2), _parts(high, 1), strict=True)
    return [d * (scales[i // 16] - 32) * (q - 4 * (1 - bit)) for i, (q, bit) in enumerate(quants)]


def _q4_k(block: bytes) -> list[float]:
    d, d_min = struct.unpack_from("<2e", block)
    scales, offsets = _k_scales(block[4:16])
    return [d * scales[i // 32] * q - d_min * offsets[i // 32] for i, q in enumerate(_parts(block[16:], 4))]


def _q5_k(block: bytes) -> list[float]:
    d, d_min = struct.unpack_from("<2e", block)
    scales, offsets = _k_scales(block[4:16])
    quants = zip(_parts(block[48:], 4), _parts(block[16:48], 1), strict=True)
    return [d * scales[i // 32] * (q | bit << 4) - d_min * offsets[i // 32] for i, (q, bit) in enumerate(quants)]


def _q6_k(block: bytes) -> list[float]:
    *scales, d = struct.unpack_from("<16be", block, 192)
    quants = zip(_parts(block[:128], 4, 64), _parts(block[128:192], 2), strict=True)
    return [d * scales[i // 16] * ((low | high << 4) - 32) for i, (low, high) in enumerate(quants)]


def _digits(data: bytes, count: int) -> list[int]:
    """Digits of base three, which multiplications by three carry out of the bytes one after the other."""
    return [(byte * 3**digit % 256) * 3 >> 8 for digit in range(count) for byte in data]


def _tq1_0(block: bytes) -> list[float]:
    (d,) = struct.unpack_from("<e", block, 52)
    digits = _digits(block[:32], 5) + _digits(block[32:48], 5) + _digits(block[48:52], 4)
    return [d * (digit - 1) for digit in digits]


def _tq2_0(block: bytes) -> list[float]:
    (d,) = struct.unpack_from("<e", block, 64)
    return [d * (q - 1) for q in _parts(block[:64], 2)]


def _ternary(block: bytes) -> list[float]:
    (d,) = struct.unpack_from("<f", block, 64)
    return [d * (q - 1) for q in _parts(block[:64], 2)]


def _q1_0(block: bytes) -> list[float]:
    (d,) = struct.unpack_from("<e", block)
    return [d * (2 * bit - 1) for bit in _parts(block[2:], 1, 1)]


def _q2_0(block: bytes) -> list[float]:
    (d,) = struct.unpack_from("<e", block)
    return [d * (q - 1) for q in _parts(block[2:], 2, 1)]


def _f8(block: bytes, mantissa: int, bias: int) -> list[float]:
    """Floats of eight bits and their scale."""
    (d,) = struct.unpack_from("<f", block, len(block) - 4)
    values = []
    for byte in block[:-4]:
        exponent, fraction = (byte & 127) >> mantissa, (byte & (1 << mantissa) - 1) / (1 << mantissa)
        size = (fraction + (exponent > 0)) * 2.0 ** (max(exponent, 1) - bias)
        values.append(d * (size if byte < 128 else -size))
    return values


def _tame_f8(block: bytes, keep: int, exponent: int) -> bytes:
    """Of each eight values one is subnormal and the others have an exponent near that of 1."""
    values = [byte & keep | exponent if i % 8 else byte & 128 | byte & 3 for i, byte in enumerate(block[:-4])]
    return bytes(values) + block[-4:]


def _int(block: bytes, quants: Sequence[int]) -> list[float]:
    d, zero = struct.unpack_from("<fH", block, len(block) - 6)
    return [d * (q - zero) for q in quants]


def _int4(block: bytes) -> list[float]:
    return _int(block, _parts(block[:-6], 4, 16))


def _int8(block: bytes) -> list[float]:
    return _int(block, [q + 128 for q in memoryview(block[:-6]).cast("b")])


def _tame_int(block: bytes, largest: int) -> bytes:
    """The zero is one of the quants."""
    return block[:-2] + struct.pack("<H", block[-1] & largest)


FORMATS: dict[str, Format] = {
    "F32": Format(_f32, 0),
    "F16": Format(_f16, 0),
    "BF16": Format(_bf16, 0),
    "Q4_0": Format(_q4_0, 12),
    "Q4_1": Format(_q4_1, 12),
    "Q5_0": Format(_q5_0, 13),
    "Q5_1": Format(_q5_1, 13),
    "Q8_0": Format(_q8_0, 16),
    "Q2_K": Format(_q2_k, 15),
    "Q3_K": Format(_q3_k, 16),
    "Q4_K": Format(_q4_k, 18),
    "Q5_K": Format(_q5_k, 19),
    "Q6_K": Format(_q6_k, 20),
    "IQ1_S": Format(iq.iq1_s, 13),
    "IQ1_M": Format(iq.iq1_m, 0, iq.tame_iq1_m),
    "IQ2_XXS": Format(iq.iq2_xxs, 16),
    "IQ2_XS": Format(iq.iq2_xs, 16),
    "IQ2_S": Format(iq.iq2_s, 16),
    "IQ3_XXS": Format(iq.iq3_xxs, 17),
    "IQ3_S": Format(iq.iq3_s, 17),
    "IQ4_NL": Format(iq.iq4_nl, 16),
    "IQ4_XS": Format(iq.iq4_xs, 20),
    "MXFP4": Format(iq.mxfp4, 0, iq.tame_mxfp4),
    "NVFP4": Format(iq.nvfp4, 0, iq.tame_nvfp4),
    "TQ1_0": Format(_tq1_0, 10),
    "TQ2_0": Format(_tq2_0, 10),
    "Q1_0": Format(_q1_0, 10),
    "Q2_0": Format(_q2_0, 10),
    "F8_E4M3": Format(lambda block: _f8(block, 3, 7), 9, lambda block: _tame_f8(block, 0x9F, 0x20)),
    "F8_E5M2": Format(lambda block: _f8(block, 2, 15), 9, lambda block: _tame_f8(block, 0x8F, 0x30)),
    "INT4_G32": Format(_int4, 12, lambda block: _tame_int(block, 15)),
    "INT4_G128": Format(_int4, 12, lambda block: _tame_int(block, 15)),
    "INT8_G32": Format(_int8, 16, lambda block: _tame_int(block, 255)),
    "INT8_G128": Format(_int8, 16, lambda block: _tame_int(block, 255)),
    "TERNARY": Format(_ternary, 10),
}
_SCALES = {"f16": ("e", 2), "f32": ("f", 4)}
"""code of `struct` and bytes"""
_FLOATS: dict[str, Callable[[float], bytes]] = {
    "F32": lambda value: struct.pack("<f", value),
    "F16": lambda value: struct.pack("<e", value),
    "BF16": lambda value: struct.pack("<f", value)[2:],
}
