"""Weights packed as the quantizers of Hugging Face do it, and what they mean.

The formats are written out from their definitions, element by element; nothing of the engine is used.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Array = NDArray[Any]
Stored = tuple[str, Array]
"""dtype and values; BF16 as the f32 that it rounds from"""


@dataclass
class Packed:
    """The tensors of a module by the last part of their names, and the matrix [rows, columns] that they mean."""

    tensors: dict[str, Stored]
    values: Doubles


def bf16(values: Array) -> NDArray[np.float32]:
    """Values cut to what bf16 holds."""
    return (np.asarray(values, np.float32).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


def float8_table(dtype: str) -> Doubles:
    """What each code of an 8-bit float means; NaN and infinity are NaN."""
    exponent_bits, mantissa_bits = (4, 3) if dtype == "F8_E4M3" else (5, 2)
    values = []
    for code in range(256):
        exponent, mantissa = code >> mantissa_bits & (1 << exponent_bits) - 1, code & (1 << mantissa_bits) - 1
        bias = (1 << exponent_bits - 1) - 1
        if (dtype == "F8_E5M2" and exponent == 31) or (dtype == "F8_E4M3" and code & 127 == 127):
            values.append(np.nan)
            continue
        size = mantissa / (1 << mantissa_bits) + (1 if exponent else 0)
        values.append((-1.0 if code >> 7 else 1.0) * size * 2.0 ** (max(exponent, 1) - bias))
    return np.array(values)


def float8(dtype: str, part: str, scale_dtype: str, tile: tuple[int, int], shape: str) -> Callable[..., Packed]:
    """Tiles of so many rows and columns, 0 for all; scales of the shape "none", "one", "row", "column" or "matrix"."""
    table = float8_table(dtype)
    codes = np.flatnonzero(np.isfinite(table))
    codes = codes[np.argsort(table[codes], kind="stable")]

    def pack(weight: Doubles, rng: np.random.Generator) -> Packed:
        rows, columns = weight.shape
        high, wide = tile[0] or rows, tile[1] or columns
        down, across = -(-rows // high), -(-columns // wide)
        scale = np.empty((down, across))
        for i in range(down):
            for j in range(across):
                some = weight[i * high : (i + 1) * high, j * wide : (j + 1) * wide]
                scale[i, j] = np.abs(some).max() / (400 if dtype == "F8_E4M3" else 50000)
        scale = {"F32": np.float32, "F16": np.float16, "BF16": bf16}[scale_dtype](scale).astype(np.float64)
        spread = scale.repeat(high, axis=0)[:rows].repeat(wide, axis=1)[:, :columns]
        places = np.searchsorted(table[codes], weight / spread).clip(0, len(codes) - 1)
        chosen = codes[places].astype(np.uint8)
        sized = {"none": (), "one": (1,), "row": (rows,), "column": (rows, 1), "matrix": scale.shape}[shape]
        tensors = {"weight": (dtype, chosen), part: (scale_dtype, scale.astype(np.float32).reshape(sized))}
        return Packed(tensors | {"input_scale": ("F32", np.ones((), np.float32))}, table[chosen] * spread)

    return pack


@dataclass
class Whole:
    """A matrix as whole numbers: weight = scale * (q - zero) of the column's group."""

    q: NDArray[np.int64]
    scale: Doubles
    zero: NDArray[np.int64]
    """[rows, groups], like scale"""
    group_of: NDArray[np.int64]

    @property
    def values(self) -> Doubles:
        return self.scale[:, self.group_of] * (self.q - self.zero[:, self.group_of])


def whole(
    weight: Doubles, rng: np.random.Generator, bits: int, group: int, *, symmetric: bool, shuffled: bool = False
) -> Whole:
    """Rounds a matrix to whole numbers; `group` columns share a scale (-1: all), whichever they are if shuffled."""
    rows, columns = weight.shape
    size = columns if group == -1 else group
    group_of = np.arange(columns) // size
    if shuffled:
        group_of = rng.permutation(group_of)
    groups, top = -(-columns // size), (1 << bits) - 1
    q = np.zeros((rows, columns), np.int64)
    scale, zero = np.zeros((rows, groups)), np.zeros((rows, groups), np.int64)
    for g in range(groups):
        some = weight[:, group_of == g]
        if symmetric:
            step, centre = np.abs(some).max(axis=1) * 2 / top, np.full(rows, (top + 1) // 2)
        else:
            low, high = some.min(axis=1).clip(max=0), some.max(axis=1).clip(min=0)
            step = (high - low) / top
            centre = np.rint(-low / step).astype(np.int64)
        scale[:, g] = step.astype(np.float16)
        zero[:, g] = centre.clip(0, top)
        q[:, group_of == g] = np.rint(some / scale[:, g : g + 1] + zero[:, g : g + 1]).clip(0, top)
    return Whole(q, scale, zero, group_of)


def _pack_rows(q: NDArray[np.int64], bits: int, order: tuple[int, ...] | None = None) -> NDArray[np.int32]:
    """Runs of 32 / bits numbers of a column become a word: [rows, columns] -> [rows * bits / 32, columns]."""
    each = 32 // bits
    words = np.zeros((-(-len(q) // each), q.shape[1]), np.uint64)
    for word in range(len(words)):
        for place in range(each):
            at = word * each + (order[place] if order else place)
            if at < len(q):
                words[word] |= q[at].astype(np.uint64) << np.uint64(bits * place)
    return words.astype(np.uint32).view(np.int32)


def gptq(bits: int, group: int, *, symmetric: bool, less: int, shuffled: bool = False, index: bool = True) -> Any:
    def pack(weight: Doubles, rng: np.random.Generator) -> Packed:
        it = whole(weight, rng, bits, group, symmetric=symmetric, shuffled=shuffled)
        stored = (it.zero - less) & ((1 << bits) - 1)
        tensors = {
            "qweight": ("I32", _pack_rows(it.q.T, bits)),
            "qzeros": ("I32", _pack_rows(stored, bits).T.copy()),
            "scales": ("F16", it.scale.T.astype(np.float16)),
        }
        if index:
            tensors["g_idx"] = ("I32", it.group_of.astype(np.int32))
        return Packed(tensors, it.values.astype(np.float16).astype(np.float64) if shuffled else it.values)

    return pack


def awq(group: int) -> Callable[..., Packed]:
    order = (0, 2, 4, 6, 1, 3, 5, 7)

    def pack(weight: Doubles, rng: np.random.Generator) -> Packed:
        it = whole(weight, rng, 4, group, symmetric=False)
        tensors = {
            "qweight": ("I32", _pack_rows(it.q, 4, order).T.copy()),
            "qzeros": ("I32", _pack_rows(it.zero, 4, order).T.copy()),
            "scales": ("F16", it.scale.T.astype(np.float16)),
        }
        return Packed(tensors, it.values)

    return pack


def compressed(bits: int, group: int, *, packed: bool, zeros: str = "", shuffled: bool = False) -> Any:
    """Of compressed-tensors; `zeros`: empty where it is symmetric, else "I8" or "I32"."""

    def pack(weight: Doubles, rng: np.random.Generator) -> Packed:
        it = whole(weight, rng, bits, group, symmetric=not zeros, shuffled=shuffled)
        half = 1 << (bits - 1)
        if not zeros:
            it.zero[:] = half
        tensors: dict[str, Stored] = {"weight_scale": ("BF16", bf16(it.scale))}
        it.scale = bf16(it.scale).astype(np.float64)
        if packed:
            tensors["weight_packed"] = ("I32", _pack_rows(it.q.T, bits).T.copy())
            tensors["weight_shape"] = ("I64", np.array(weight.shape, np.int64))
        else:
            tensors["weight"] = ("I8", (it.q - half).astype(np.int8))
        if zeros == "I8":
            tensors["weight_zero_point"] = ("I8", (it.zero - half).astype(np.int8))
        if zeros == "I32":
            tensors["weight_zero_point"] = ("I32", _pack_rows(it.zero, bits))
        if shuffled:
            tensors["weight_g_idx"] = ("I32", it.group_of.astype(np.int32))
        return Packed(tensors, it.values.astype(np.float16).astype(np.float64) if shuffled else it.values)

    return pack


def ternary(inverse: bool) -> Callable[..., Packed]:
    """Four rows in one of bytes, a quarter of the matrix apart; the scale multiplies or, `inverse`, divides."""

    def pack(weight: Doubles, rng: np.random.Generator) -> Packed:
        rows, columns = weight.shape
        mean = np.abs(weight).mean()
        scale = bf16(np.array([1 / mean if inverse else mean]))
        size = float(scale[0]) ** (-1 if inverse else 1)
        quants = np.rint(weight / size).clip(-1, 1).astype(int)
        stored = np.zeros((rows // 4, columns), np.uint8)
        for i in range(rows):
            stored[i % (rows // 4)] |= (quants[i] + 1 << 2 * (i // (rows // 4))).astype(np.uint8)
        return Packed({"weight": ("U8", stored), "weight_scale": ("BF16", scale)}, quants * size)

    return pack


def rounded(weight: Doubles, rng: np.random.Generator) -> Packed:
    """BF16 weights that are rounded only when they are read."""
    stored = bf16(weight)
    size = np.abs(stored.astype(np.float64)).mean()
    return Packed({"weight": ("BF16", stored)}, np.rint(stored / size).clip(-1, 1) * size)
