"""What blocks of the IQ types and of 4-bit floats mean, in plain Python."""

import struct
from collections.abc import Iterable, Sequence
from functools import cache

from wgpu_engine.files.grids import grid

_IQ2_SIZES = (8, 25, 43)
_IQ4_VALUES = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
_FP4_VALUES = (0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6)


@cache
def _pairs(name: str) -> list[list[int]]:
    """Entries of a grid with two bits for each of eight weights."""
    halves = memoryview(grid(name)).cast("H")
    return [[half >> 2 * i & 3 for i in range(8)] for half in halves]


@cache
def _sizes(name: str) -> list[list[int]]:
    """Entries of IQ2 grids as magnitudes."""
    return [[_IQ2_SIZES[pair] for pair in entry] for entry in _pairs(name)]


@cache
def _bytes(name: str) -> list[bytes]:
    """Entries of a grid with a byte for each of four weights."""
    data = grid(name)
    return [data[at : at + 4] for at in range(0, len(data), 4)]


def _signed(sizes: Iterable[int], signs: int) -> list[int]:
    return [-size if signs >> i & 1 else size for i, size in enumerate(sizes)]


def _even(signs: int) -> int:
    """Seven signs and an eighth that makes an even number of them set."""
    return signs | signs.bit_count() % 2 << 7


def _scaled(quants: Sequence[float], scales: Sequence[float]) -> list[float]:
    """Quants times scales, each for as many of them."""
    each = len(quants) // len(scales)
    return [scales[i // each] * q for i, q in enumerate(quants)]


def _halves(data: bytes) -> list[int]:
    return [half for byte in data for half in (byte & 15, byte >> 4)]


def iq1_s(block: bytes) -> list[float]:
    d, *fields = struct.unpack("<e32B8H", block)
    values: list[float] = []
    for unit, high in enumerate(fields[32:]):
        delta = -0.125 if high >> 15 else 0.125
        for group, low in enumerate(fields[4 * unit : 4 * unit + 4]):
            entry = _pairs("IQ1")[low | (high >> 3 * group & 7) << 8]
            values += [d * (2 * (high >> 12 & 7) + 1) * (pair - 1 + delta) for pair in entry]
    return values


def iq1_m(block: bytes) -> list[float]:
    packed = struct.unpack_from("<4H", block, 48)
    (d,) = struct.unpack("<e", struct.pack("<H", sum((half >> 12) << 4 * i for i, half in enumerate(packed))))
    quants: list[float] = []
    for low, high in zip(block[:32], _halves(block[32:48]), strict=True):
        delta = -0.125 if high >> 3 else 0.125
        quants += [pair - 1 + delta for pair in _pairs("IQ1")[low | (high & 7) << 8]]
    return _scaled(quants, [d * (2 * (packed[i // 4] >> 3 * (i % 4) & 7) + 1) for i in range(16)])


def iq2_xxs(block: bytes) -> list[float]:
    d, *words = struct.unpack("<e16I", block)
    quants: list[int] = []
    for low, high in zip(words[::2], words[1::2], strict=True):
        for group in range(4):
            quants += _signed(_sizes("IQ2_XXS")[low >> 8 * group & 255], _even(high >> 7 * group & 127))
    return _scaled(quants, [d * ((high >> 28) + 0.5) / 4 for high in words[1::2]])


def iq2_xs(block: bytes) -> list[float]:
    d, *halves = struct.unpack_from("<e32H", block)
    quants = [q for half in halves for q in _signed(_sizes("IQ2_XS")[half & 511], _even(half >> 9))]
    return _scaled(quants, [d * (scale + 0.5) / 4 for scale in _halves(block[66:])])


def iq2_s(block: bytes) -> list[float]:
    (d,) = struct.unpack_from("<e", block)
    low, signs, high = block[2:34], block[34:66], block[66:74]
    index = [low[i] | (high[i // 4] >> 2 * (i % 4) & 3) << 8 for i in range(32)]
    quants = [q for i in range(32) for q in _signed(_sizes("IQ2_S")[index[i]], signs[i])]
    return _scaled(quants, [d * (scale + 0.5) / 4 for scale in _halves(block[74:])])


def iq3_xxs(block: bytes) -> list[float]:
    (d,) = struct.unpack_from("<e", block)
    words = struct.unpack_from("<8I", block, 66)
    sizes = b"".join(_bytes("IQ3_XXS")[i] for i in block[2:66])
    quants: list[int] = []
    for group in range(32):
        signs = _even(words[group // 4] >> 7 * (group % 4) & 127)
        quants += _signed(sizes[8 * group : 8 * group + 8], signs)
    return _scaled(quants, [d * ((word >> 28) + 0.5) / 2 for word in words])


def iq3_s(block: bytes) -> list[float]:
    (d,) = struct.unpack_from("<e", block)
    low, high, signs = block[2:66], block[66:74], block[74:106]
    entries = b"".join(_bytes("IQ3_S")[low[i] | (high[i // 8] >> i % 8 & 1) << 8] for i in range(64))
    quants = _signed([2 * entry - 15 for entry in entries], int.from_bytes(signs, "little"))
    return _scaled(quants, [d * (2 * scale + 1) for scale in _halves(block[106:])])


def _low_then_high(data: bytes, width: int) -> list[int]:
    """The low halves of `width` bytes, then their high halves, then the next bytes."""
    starts = range(0, len(data), width)
    return [byte >> shift & 15 for start in starts for shift in (0, 4) for byte in data[start : start + width]]


def iq4_nl(block: bytes) -> list[float]:
    (d,) = struct.unpack_from("<e", block)
    return [d * _IQ4_VALUES[q] for q in _low_then_high(block[2:], 16)]


def iq4_xs(block: bytes) -> list[float]:
    d, high = struct.unpack_from("<eH", block)
    scales = [low | (high >> 2 * i & 3) << 4 for i, low in enumerate(_halves(block[4:8]))]
    quants = [_IQ4_VALUES[q] for q in _low_then_high(block[8:], 16)]
    return _scaled(quants, [d * (scale - 32) for scale in scales])


def mxfp4(block: bytes) -> list[float]:
    return [2.0 ** (block[0] - 127) * _FP4_VALUES[q] for q in _low_then_high(block[1:], 16)]


def nvfp4(block: bytes) -> list[float]:
    return _scaled([_FP4_VALUES[q] for q in _low_then_high(block[4:], 8)], list(map(_unsigned_e4m3, block[:4])))


def _unsigned_e4m3(bits: int) -> float:
    exponent, mantissa = bits >> 3 & 15, bits & 7
    if bits == 127:
        return 0.0
    return (mantissa + 8) * 2.0 ** (exponent - 10) if exponent else mantissa * 2.0**-9


def tame_iq1_m(block: bytes) -> bytes:
    """With the exponent of its scale, in the top bits of its last halves, that of 1/64."""
    last = bytearray(block)
    last[53], last[55] = last[53] & 0x3F | 0x40, last[55] & 0x8F | 0x20
    return bytes(last)


def tame_mxfp4(block: bytes) -> bytes:
    return bytes([120 + block[0] % 4]) + block[1:]


def tame_nvfp4(block: bytes) -> bytes:
    return bytes(scale % 32 for scale in block[:4]) + block[4:]
