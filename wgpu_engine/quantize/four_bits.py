"""IQ4_NL, IQ4_XS and MXFP4: quants of 4 bits that stand for values at unequal distances.

Formats: llama.cpp, ggml/src/ggml-common.h; MXFP4 is that of the OCP Microscaling Formats Specification 1.0.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from wgpu_engine.quantize.blocks import Bytes, Floats, columns, halves, packed, reciprocal, rounded, rows
from wgpu_engine.quantize.search import dot, importance_of, linear

_IQ4_VALUES = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
_E2M1_SIZES = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0], np.float32)
_E2M1 = np.concatenate([_E2M1_SIZES, -_E2M1_SIZES])
_E2M1_MIDDLES = (_E2M1_SIZES[1:] + _E2M1_SIZES[:-1]) / 2
_STEPS = range(-32, 17, 4)


class _Nearest:
    """The nearest of a list of values, by a table for each half from -128 to 128."""

    def __init__(self, values: Iterable[int]) -> None:
        points = np.array(list(values), np.float32)
        centres = (np.arange(512, dtype=np.float32) - 256) / 2 + 0.25
        self.index = np.abs(centres[:, None] - points).argmin(axis=1).astype(np.uint8)
        self.value = points[self.index]

    def cells(self, x: Floats) -> NDArray[np.intp]:
        """Places of numbers in the tables."""
        places = x * np.float32(2)
        places += np.float32(256)
        return np.clip(places, 0, 511, out=places).astype(np.intp)

    def round(self, x: Floats) -> Floats:
        """The nearest values, in place."""
        self.value.take(self.cells(x), out=x, mode="clip")
        return x


_NEAREST = _Nearest(_IQ4_VALUES)


def _scales(x: Floats) -> Floats:
    return linear(x, _NEAREST.round, -127, _STEPS, importance_of(x))


def _indices(x: Floats, scale: Floats) -> Bytes:
    """Which value each weight is nearest to, in bytes [blocks, elements]."""
    return rows(_NEAREST.index.take(_NEAREST.cells(x * reciprocal(scale))))


def iq4_nl(blocks: Floats) -> Bytes:
    x = columns(blocks)
    (scale,), stored = halves(_scales(x))
    return np.hstack([stored, packed(_indices(x, scale), 4, 16)])


def iq4_xs(blocks: Floats) -> Bytes:
    """Eight scales of 6 bits, from -32 to 31, times one of the block."""
    x = columns(blocks, 8)
    scales = _scales(x)
    largest, smallest = scales.max(axis=0), scales.min(axis=0)
    (d,), stored = halves(np.where(largest > -smallest, largest, smallest) / np.float32(-32))
    scale = rounded(scales * reciprocal(d), -32, 31)
    bits = rows(scale + np.float32(32))
    high, low = packed(bits >> 4, 2, 1), packed(bits & 15, 4, 1)
    return np.hstack([stored, high, low, packed(_indices(x, d * scale), 4, 16)])


def mxfp4(blocks: Floats) -> Bytes:
    """A power of two: of those that put the largest weight within the values or just beyond, the better one."""
    x = columns(blocks)
    largest = np.abs(x).max(axis=0)
    exponent = np.where(largest > 0, np.maximum(np.frexp(largest)[1] - 3, -127), -127)
    near, far = _fp4(x, exponent), _fp4(x, exponent + 1)
    closer = _fp4_error(x, near, exponent) <= 4 * _fp4_error(x, far, exponent + 1)
    stored = (np.where(closer, exponent, exponent + 1) + 127).astype(np.uint8)
    return np.hstack([stored[:, None], packed(rows(np.where(closer, near, far)), 4, 16)])


def _fp4(x: Floats, exponent: NDArray[np.int32]) -> Bytes:
    """The nearest of _E2M1_SIZES times 2**exponent, as an index with a sign bit."""
    y = np.ldexp(x, -exponent)
    size = np.abs(y)
    index = np.zeros(x.shape, np.uint8)
    for middle in _E2M1_MIDDLES:
        index += size > middle
    index[(y < 0) & (index > 0)] |= 8
    return index


def _fp4_error(x: Floats, quants: Bytes, exponent: NDArray[np.int32]) -> Floats:
    """Sums of squares, in units of the scale's square."""
    y = np.ldexp(x, -exponent)
    y -= _E2M1.take(quants)
    return dot(y, y)
