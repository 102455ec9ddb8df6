"""Blocks of one type made of blocks of another, in chunks and on all cores."""

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from wgpu_engine.errors import RequestError
from wgpu_engine.files.quants import QUANT_TYPES, QuantType
from wgpu_engine.quantize import few_bits, floats, four_bits, k_quants, legacy
from wgpu_engine.quantize.blocks import Bytes, Floats
from wgpu_engine.quantize.decode import decode

QUANTIZERS: dict[str, Callable[[Floats], Bytes]] = {
    "F32": floats.f32,
    "F16": floats.f16,
    "BF16": floats.bf16,
    "Q4_0": legacy.q4_0,
    "Q4_1": legacy.q4_1,
    "Q5_0": legacy.q5_0,
    "Q5_1": legacy.q5_1,
    "Q8_0": legacy.q8_0,
    "Q2_K": k_quants.q2_k,
    "Q3_K": k_quants.q3_k,
    "Q4_K": k_quants.q4_k,
    "Q5_K": k_quants.q5_k,
    "Q6_K": k_quants.q6_k,
    "IQ4_NL": four_bits.iq4_nl,
    "IQ4_XS": four_bits.iq4_xs,
    "MXFP4": four_bits.mxfp4,
    "TQ1_0": few_bits.tq1_0,
    "TQ2_0": few_bits.tq2_0,
    "Q1_0": few_bits.q1_0,
    "Q2_0": few_bits.q2_0,
}
"""by type: make blocks [blocks, block bytes] of weights [blocks, elements]; OverflowError where those are too large"""

_CHUNK = 240 * 256
"""weights at a time: whole blocks of every type, and what a core's cache holds; a power of two would be slow"""

_LARGE = 1e12
"""far beyond what a scale in half floats can mean"""


def writable(name: str) -> QuantType:
    """The type of that name, in upper or lower case, if it can be quantized to.

    Raises:
        RequestError: it is none of those.
    """
    if name.upper() not in QUANTIZERS:
        raise RequestError(f"{name!r:.40} is no type to quantize to: choose one of {', '.join(QUANTIZERS)}")
    return QUANT_TYPES[name.upper()]


def convert(data: bytes | memoryview, source: QuantType, target: QuantType) -> Bytes:
    """Blocks of `target` from blocks of `source`, both as in files; the elements must fill blocks of both.

    Raises:
        ValueError: an element is NaN or infinite.
        OverflowError: an element is larger than the target's scales can say.
    """
    raw = np.frombuffer(data, np.uint8)
    if source is target and not source.is_float:
        return raw
    # in a sum of squares, float32 itself would overflow
    most = _LARGE if any(field.floats == "f16" for field in target.fields) else math.inf
    elements = len(raw) // source.block_bytes * source.block
    result = np.empty(elements // target.block * target.block_bytes, np.uint8)

    def one(start: int) -> None:
        stop = min(start + _CHUNK, elements)
        values = decode(raw[source.row_bytes(start) : source.row_bytes(stop)], source)
        largest = max(values.max(), -values.min())
        if not math.isfinite(largest):
            raise ValueError
        if largest > most:
            raise OverflowError
        with np.errstate(all="ignore"):
            blocks = QUANTIZERS[target.name](values.reshape(-1, target.block))
        result[target.row_bytes(start) : target.row_bytes(stop)] = blocks.reshape(-1)

    starts = range(0, elements, _CHUNK)
    if len(starts) == 1:
        one(0)
        return result
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for _ in threads.map(one, starts):
            pass
    return result


def quantize(values: Floats, target: QuantType) -> Bytes:
    """Rows of weights f32 [rows, columns] as rows of bytes [rows, row bytes]; raises as `convert` does."""
    return convert(np.ascontiguousarray(values, "<f4").tobytes(), QUANT_TYPES["F32"], target).reshape(len(values), -1)
