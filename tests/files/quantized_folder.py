"""Writes folders of quantized models as the hub has them, and says what their weights mean, in float64.

The formats are written out from their definitions, element by element; nothing of the engine is used.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
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


@dataclass(frozen=True)
class Format:
    """A way to quantize: what config.json says of it, and how a matrix is packed."""

    name: str
    config: Mapping[str, Any]
    pack: Callable[[Doubles, np.random.Generator], Packed]
    types: frozenset[str]
    """the types that its weights become"""

    def __str__(self) -> str:
        return self.name


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


def _gptq(name: str, pack: Any, bits: int, group: int, *types: str, **more: Any) -> Format:
    config = {"quant_method": "gptq", "bits": bits, "group_size": group, "damp_percent": 0.1, **more}
    return Format(name, config, pack, frozenset(types))


def _awq(name: str, group: int, *types: str) -> Format:
    config = {"quant_method": "awq", "bits": 4, "group_size": group, "version": "gemm", "zero_point": True}
    return Format(name, config, awq(group), frozenset(types))


def _compressed(name: str, form: str, weights: Mapping[str, Any], pack: Any, *types: str) -> Format:
    groups = {"group_0": {"targets": ["Linear"], "weights": {"type": "int", **weights}, "input_activations": None}}
    config = {"quant_method": "compressed-tensors", "format": form, "config_groups": groups, "ignore": ["lm_head"]}
    return Format(name, config, pack, frozenset(types))


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


def _bitnet(name: str, pack: Any, **settings: Any) -> Format:
    return Format(name, {"quant_method": "bitnet", **settings}, pack, frozenset({"TERNARY"}))


_E4M3 = frozenset({"F8_E4M3"})
_FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic"}
FORMATS = (
    Format(
        "FP8 in tiles",
        {**_FP8, "weight_block_size": [128, 128]},
        float8("F8_E4M3", "weight_scale_inv", "F32", (128, 128), "matrix"),
        _E4M3,
    ),
    Format("FP8 with a scale", _FP8, float8("F8_E4M3", "weight_scale", "BF16", (0, 0), "none"), _E4M3),
    Format("E5M2", _FP8, float8("F8_E5M2", "weight_scale", "F16", (0, 0), "one"), frozenset({"F8_E5M2"})),
    Format(
        "FBGEMM",
        {"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0, "modules_to_not_convert": ["lm_head"]},
        float8("F8_E4M3", "weight_scale", "F32", (1, 0), "column"),
        _E4M3,
    ),
    _compressed(
        "compressed FP8",
        "float-quantized",
        {"num_bits": 8, "type": "float", "strategy": "channel"},
        float8("F8_E4M3", "weight_scale", "BF16", (1, 0), "row"),
        "F8_E4M3",
    ),
    _compressed(
        "compressed FP8 in groups",
        "float-quantized",
        {"num_bits": 8, "type": "float", "strategy": "group", "group_size": 128},
        float8("F8_E4M3", "weight_scale", "BF16", (1, 128), "matrix"),
        "F8_E4M3",
    ),
    _gptq("GPTQ", gptq(4, 128, symmetric=True, less=1), 4, 128, "INT4_G128", desc_act=False, sym=True),
    _gptq("GPTQ 64", gptq(4, 64, symmetric=False, less=1, index=False), 4, 64, "INT4_G32", sym=False),
    _gptq("GPTQ 32", gptq(4, 32, symmetric=False, less=0), 4, 32, "INT4_G32", checkpoint_format="gptq_v2"),
    _gptq("GPTQ in one group", gptq(4, -1, symmetric=False, less=1), 4, -1, "INT4_G128"),
    _gptq("GPTQ of 8 bits", gptq(8, 128, symmetric=True, less=1), 8, 128, "INT8_G128"),
    _gptq("GPTQ of 8 bits 32", gptq(8, 32, symmetric=False, less=1), 8, 32, "INT8_G32"),
    _gptq("act-order", gptq(4, 64, symmetric=True, less=1, shuffled=True), 4, 64, "F16", desc_act=True),
    _awq("AWQ", 128, "INT4_G128"),
    _awq("AWQ 32", 32, "INT4_G32"),
    _awq("AWQ in one group", -1, "INT4_G128"),
    _compressed(
        "W4A16",
        "pack-quantized",
        {"num_bits": 4, "strategy": "group", "group_size": 128},
        compressed(4, 128, packed=True),
        "INT4_G128",
    ),
    _compressed(
        "W4A16 with zeros",
        "pack-quantized",
        {"num_bits": 4, "strategy": "group", "group_size": 32, "symmetric": False},
        compressed(4, 32, packed=True, zeros="I32"),
        "INT4_G32",
    ),
    _compressed(
        "W4A16 act-order",
        "pack-quantized",
        {"num_bits": 4, "strategy": "group", "group_size": 64, "actorder": "group"},
        compressed(4, 64, packed=True, shuffled=True),
        "F16",
    ),
    _compressed(
        "W8A16",
        "pack-quantized",
        {"num_bits": 8, "strategy": "channel", "group_size": None},
        compressed(8, -1, packed=True, zeros="I8"),
        "INT8_G128",
    ),
    _compressed(
        "W8A8",
        "int-quantized",
        {"num_bits": 8, "strategy": "channel"},
        compressed(8, -1, packed=False),
        "INT8_G128",
    ),
    _bitnet("ternary", ternary(inverse=False), linear_class="autobitlinear", quantization_mode="offline"),
    _bitnet("ternary, divided", ternary(inverse=True), modules_to_not_convert=None),
    _bitnet("ternary once read", rounded, linear_class="autobitlinear", quantization_mode="online"),
)


@dataclass
class Folder:
    """A folder of a quantized model, and its tensors as they would be without quantization."""

    path: Path
    values: dict[str, Doubles] = field(default_factory=dict)
    stored: dict[str, Stored] = field(default_factory=dict)

    def write(self, config: Mapping[str, Any]) -> None:
        """Writes config.json and model.safetensors, as `stored` has it by now."""
        self.path.mkdir(parents=True, exist_ok=True)
        (self.path / "config.json").write_text(json.dumps(config), encoding="utf-8")
        (self.path / "model.safetensors").write_bytes(safetensors(self.stored))


def quantized_folder(
    path: Path,
    config: Mapping[str, Any],
    tensors: Mapping[str, Doubles],
    how: Format,
    rng: np.random.Generator,
    also: tuple[str, ...] = (),
) -> Folder:
    """Quantizes the projections of a model, and the modules in `also`; the other tensors stay F32."""
    folder = Folder(path)
    for name, values in tensors.items():
        module = name.removesuffix(".weight")
        if values.ndim == 2 and ("proj" in module or module in also):
            packed = how.pack(values, rng)
            folder.stored |= {f"{module}.{part}": tensor for part, tensor in packed.tensors.items()}
            folder.values[name] = packed.values
        else:
            folder.stored[name] = ("F32", values.astype(np.float32))
            folder.values[name] = values.astype(np.float32).astype(np.float64)
    folder.write({**config, "quantization_config": dict(how.config)})
    return folder


def safetensors(tensors: Mapping[str, Stored]) -> bytes:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    parts, end = [], 0
    for name, (dtype, values) in tensors.items():
        raw = np.ascontiguousarray(values).tobytes()
        if dtype == "BF16":
            raw = (np.asarray(values, np.float32).view(np.uint32) >> 16).astype("<u2").tobytes()
        if dtype == "F16":
            raw = np.asarray(values, "<f2").tobytes()
        header[name] = {"dtype": dtype, "shape": values.shape, "data_offsets": (end, end + len(raw))}
        parts.append(raw)
        end += len(raw)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + b"".join(parts)
