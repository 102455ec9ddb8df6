"""Writes folders of quantized models as the hub has them, and says what their weights mean, in float64."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tests.files.packers import Doubles, Packed, Stored, awq, compressed, float8, gptq, rounded, ternary


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
