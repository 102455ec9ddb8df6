"""Q2_K to Q6_K: blocks of 256, whose parts have scales, and offsets, that are integers times one of the whole block.

Formats: llama.cpp, ggml/src/ggml-common.h.
"""

import numpy as np

from wgpu_engine.quantize.blocks import Bytes, Floats, columns, halves, packed, reciprocal, rounded, rows
from wgpu_engine.quantize.search import AFFINE_STEPS, LINEAR_STEPS, affine, importance_of, symmetric


def _shifted(blocks: Floats, parts: int, high: int, most: int) -> tuple[Bytes, Bytes, Bytes, Bytes]:
    """Of `d * scale * q - d_min * offset`: d and d_min as bytes, scales and offsets [blocks, parts] up to `most`, and
    quants [blocks, 256]."""
    x = columns(blocks, parts)
    scales, offsets = affine(x, high, AFFINE_STEPS, importance_of(x))
    largest = np.float32(most)
    (d, d_min), stored = halves(scales.max(axis=0) / largest, (-offsets).max(axis=0) / largest)
    scale = rounded(scales * reciprocal(d), 0, most)
    offset = rounded(-offsets * reciprocal(d_min), 0, most)
    quants = rounded((x + d_min * offset) * reciprocal(d * scale), 0, high)
    return stored, rows(scale), rows(offset), rows(quants)


def _centred(blocks: Floats, low: int, lowest: int) -> tuple[Bytes, Floats, Bytes]:
    """Of `d * scale * q`: d as bytes, scales [16, blocks] from `lowest` to -lowest - 1, and quants [blocks, 256] less
    `low`."""
    x = columns(blocks, 16)
    scales = symmetric(x, low, -low - 1, LINEAR_STEPS, importance_of(x))
    largest, smallest = scales.max(axis=0), scales.min(axis=0)
    (d,), stored = halves(np.where(largest > -smallest, largest, smallest) / np.float32(lowest))
    scale = rounded(scales * reciprocal(d), lowest, -lowest - 1)
    quants = rounded(x * reciprocal(d * scale), low, -low - 1)
    return stored, scale, rows(quants - np.float32(low))


def _six_bits(scales: Bytes, offsets: Bytes) -> Bytes:
    """Eight scales and eight offsets of 6 bits in 12 bytes, as Q4_K and Q5_K have them."""
    first = scales[:, :4] | (scales[:, 4:] >> 4) << 6
    second = offsets[:, :4] | (offsets[:, 4:] >> 4) << 6
    return np.hstack([first, second, scales[:, 4:] & 15 | (offsets[:, 4:] & 15) << 4])


def q2_k(blocks: Floats) -> Bytes:
    d, scales, offsets, quants = _shifted(blocks, 16, 3, 15)
    return np.hstack([scales | offsets << 4, packed(quants, 2, 32), d])


def q3_k(blocks: Floats) -> Bytes:
    d, scale, quants = _centred(blocks, -4, -32)
    scales = rows(scale + np.float32(32))
    low = packed(scales & 15, 4, 8)
    high = packed(scales >> 4, 2, 4)
    return np.hstack([packed(quants >> 2, 1, 32), packed(quants & 3, 2, 32), low, high, d])


def q4_k(blocks: Floats) -> Bytes:
    d, scales, offsets, quants = _shifted(blocks, 8, 15, 63)
    return np.hstack([d, _six_bits(scales, offsets), packed(quants, 4, 32)])


def q5_k(blocks: Floats) -> Bytes:
    d, scales, offsets, quants = _shifted(blocks, 8, 31, 63)
    return np.hstack([d, _six_bits(scales, offsets), packed(quants >> 4, 1, 32), packed(quants & 15, 4, 32)])


def q6_k(blocks: Floats) -> Bytes:
    d, scale, quants = _centred(blocks, -32, -128)
    scales = np.ascontiguousarray(scale.T).astype(np.int8).view(np.uint8)
    return np.hstack([packed(quants & 15, 4, 64), packed(quants >> 4, 2, 32), scales, d])
