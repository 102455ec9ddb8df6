"""Blocks of one type made of blocks of another, in chunks and on all cores."""

import math
import os
import re
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
"""weights at a time, about: what a core's cache holds; a power of two would be slow"""

_MIXTURE = re.compile(r"_(?:XS|S|M|L|XL)$")

_LARGE = 1e12
"""far beyond what a scale in half floats can mean"""


def writable(name: str) -> QuantType:
    """The type of that name, in upper or lower case, if it can be quantized to.

    Raises:
        RequestError: it is none of those.
    """
    if name.upper() not in QUANTIZERS:
        # llama.cpp names mixtures of types after the one that most weights get
        like = _MIXTURE.sub("", name.upper())
        hint = f"choose {like}, or one of" if like in QUANTIZERS else "choose one of"
        raise RequestError(f"{name!r:.40} is no type to quantize to: {hint} {', '.join(QUANTIZERS)}")
    return QUANT_TYPES[name.upper()]


def convert(data: bytes | memoryview, source: QuantType, target: QuantType, columns: int) -> Bytes:
    """Rows of `columns` weights in blocks of `source` as rows in blocks of `target`, both as in files, flat.

    Raises:
        ValueError: a weight is NaN or infinite.
        OverflowError: a weight is larger than the target's scales can say.
    """
    raw = np.frombuffer(data, np.uint8).reshape(-1, source.row_bytes(columns))
    result = np.empty((len(raw), target.row_bytes(columns)), np.uint8)
    # in a sum of squares, float32 itself would overflow
    most = _LARGE if any(field.floats == "f16" for field in target.fields) else math.inf
    step = max(1, _CHUNK // columns)

    def one(start: int) -> None:
        # the last block of a row may have weights beyond its end
        values = np.ascontiguousarray(decode(raw[start : start + step], source)[:, :columns])
        largest = max(values.max(), -values.min())
        if not math.isfinite(largest):
            raise ValueError
        if largest > most:
            raise OverflowError
        with np.errstate(all="ignore"):
            blocks = QUANTIZERS[target.name](values.reshape(-1, target.block))
        result[start : start + step] = blocks.reshape(len(values), -1)

    starts = range(0, len(raw), step)
    if len(starts) == 1:
        one(0)
    else:
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            for _ in threads.map(one, starts):
                pass
    return result.reshape(-1)


def quantize(values: Floats, target: QuantType) -> Bytes:
    """Rows of weights f32 [rows, columns] as rows of bytes [rows, row bytes]; raises as `convert` does."""
    data = np.ascontiguousarray(values, "<f4").tobytes()
    return convert(data, QUANT_TYPES["F32"], target, values.shape[1]).reshape(len(values), -1)
