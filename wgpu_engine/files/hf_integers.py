"""Weights of whole numbers: `quant_method` gptq, awq and compressed-tensors, the last of 8-bit floats too.

Settings: quantize_config of AutoGPTQ and GPTQModel, quant_config of AutoAWQ, QuantizationConfig of compressed-tensors.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from wgpu_engine.errors import UnsupportedModelError
from wgpu_engine.files.gguf_window import show
from wgpu_engine.files.hf_config import HFConfig
from wgpu_engine.files.hf_float8 import FLOAT8, float8_rows, tile_of
from wgpu_engine.files.integer_layouts import AWQ, GPTQ, Compressed
from wgpu_engine.files.integers import ExpandedIntegers, IntegerBlocks, Integers
from wgpu_engine.files.module import FLOATS, INTEGERS, Module
from wgpu_engine.files.packed_rows import Rows, read_all
from wgpu_engine.files.safetensors import StoredTensor

_RowsOf = Callable[[Module], Awaitable[Rows | None]]
_COMPRESSED = ("dense", "float-quantized", "int-quantized", "naive-quantized", "pack-quantized")
"""formats of compressed-tensors"""


def gptq(settings: HFConfig) -> _RowsOf:
    """How to read the modules of a model of GPTQ."""
    bits, group = _bits(settings, "bits"), _group(settings)
    version = settings.text("checkpoint_format", "gptq")
    if version not in ("gptq", "gptq_v2"):
        raise _refused(settings, "checkpoint_format", version, "gptq and gptq_v2")
    if settings.values.get("dynamic"):
        raise _refused(settings, "dynamic", "something", "none")
    if settings.flag("is_marlin_format", False):
        raise _refused(settings, "is_marlin_format", "true", "false")

    async def rows(module: Module) -> Rows | None:
        if "qweight" not in module:
            return None
        qweight = module.take_matrix("qweight", INTEGERS)
        features, columns = qweight.shape[1], qweight.shape[0] * 32 // bits
        groups = -(-columns // (group or columns))
        if features * bits % 32:
            raise module.wrong("qweight", f"has {features} columns, whose zeros don't fill words")
        layout = GPTQ(
            bits,
            qweight,
            module.take_shaped("qzeros", INTEGERS, groups, features * bits // 32),
            module.take_shaped("scales", FLOATS, groups, features),
            stored_less=1 if version == "gptq" else 0,
        )
        order = module.take_shaped("g_idx", INTEGERS, columns) if "g_idx" in module else None
        return await _ordered(module, "g_idx", layout, group or columns, groups, order)

    return rows


def awq(settings: HFConfig) -> _RowsOf:
    """How to read the modules of a model of AWQ."""
    bits, group = _bits(settings, "bits"), _group(settings)
    version = settings.text("version", "gemm").lower()
    if version != "gemm":
        raise _refused(settings, "version", version, "gemm")
    if bits != 4:
        raise _refused(settings, "bits", str(bits), "4")

    async def rows(module: Module) -> Rows | None:
        if "qweight" not in module:
            return None
        qweight = module.take_matrix("qweight", INTEGERS)
        columns, words = qweight.shape
        groups = -(-columns // (group or columns))
        if columns % 8:
            raise module.wrong("qweight", f"has {columns} rows, which is no multiple of 8")
        layout = AWQ(
            qweight,
            module.take_shaped("qzeros", INTEGERS, groups, words),
            module.take_shaped("scales", FLOATS, groups, 8 * words),
        )
        return await _ordered(module, "", layout, group or columns, groups, None)

    return rows


def compressed(settings: HFConfig) -> _RowsOf:
    """How to read the modules of a model of compressed-tensors: 8-bit floats, int8, or packed integers."""
    kind = settings.text("format", "dense")
    if kind not in _COMPRESSED:
        raise _refused(settings, "format", kind, ", ".join(_COMPRESSED))
    sparsity = settings.section("sparsity_config")
    if sparsity is not None and sparsity.text("format", "dense") != "dense":
        raise _refused(sparsity, "format", sparsity.text("format"), "dense")
    if settings.values.get("transform_config"):
        raise _refused(settings, "transform_config", "something", "none")
    weights = _scheme(settings)
    bits, floats = _bits(weights, "num_bits"), weights.text("type", "int") == "float"
    strategy = weights.text("strategy", "tensor" if weights.values.get("group_size") is None else "group")
    group = _group(weights) if strategy == "group" else 0
    tile = tile_of(weights, "block_structure")
    if floats and bits != 8:
        raise _refused(weights, "num_bits", str(bits), "8")
    if floats and group % 128:
        raise _refused(weights, "group_size", str(group), "multiples of 128")

    async def rows(module: Module) -> Rows | None:
        weight = module.parts.get("weight")
        if weight is not None and weight.dtype in FLOAT8:
            return float8_rows(module, tile or ((1, group) if group else None))
        if "weight_packed" not in module and (weight is None or weight.dtype != "I8"):
            return None
        if floats:
            raise module.unsupported("holds integers in a model of 8-bit floats")
        if weight is not None:
            return await _compressed(module, 8, module.take_matrix("weight", ("I8",)), weight.shape[-1], group)
        packed = module.take_matrix("weight_packed", INTEGERS)
        shape = (await read_all(module.take_shaped("weight_shape", ("I64", "I32"), 2))).tolist()
        if shape[0] != packed.shape[0] or -(-shape[1] * bits // 32) != packed.shape[1]:
            raise module.wrong(
                "weight_shape", f"says {shape} where the weight is packed into {list(packed.shape)} words"
            )
        return await _compressed(module, bits, packed, shape[1], group)

    return rows


async def _compressed(module: Module, bits: int, weight: StoredTensor, columns: int, group: int) -> Rows:
    rows, groups = weight.shape[0], -(-columns // (group or columns))
    scale = module.take("weight_scale", FLOATS)
    fitting = [(rows, groups)] if group else [(), (1,), (1, 1), (rows,), (rows, 1)]
    if scale.shape not in fitting:
        raise module.wrong("weight_scale", f"has the shape {list(scale.shape)} where {list(fitting[-1])} belongs")
    zero = None
    if "weight_zero_point" in module:
        zero = module.take("weight_zero_point", ("I8", *INTEGERS))
        fits = scale.shape if zero.dtype == "I8" else (-(-rows * bits // 32), groups)
        if zero.shape != fits:
            raise module.wrong("weight_zero_point", f"has the shape {list(zero.shape)} where {list(fits)} belongs")
    order = module.take_shaped("weight_g_idx", INTEGERS, columns) if "weight_g_idx" in module else None
    if order is not None and (await read_all(order) == -1).all():
        # made by a quantizer that was to order groups, and didn't
        order = None
    layout = Compressed(bits, columns, weight, scale, zero)
    return await _ordered(module, "weight_g_idx", layout, group or columns, groups, order)


async def _ordered(
    module: Module, part: str, layout: Integers, group: int, groups: int, order: StoredTensor | None
) -> Rows:
    """Blocks where groups are runs of columns that blocks can follow; else what they mean, in F16.

    Raises:
        ModelFileError: a column is of a group that there isn't.
    """
    import numpy as np

    columns = layout.shape[1]
    runs = np.arange(columns, dtype=np.int64) // group
    found = runs if order is None else (await read_all(order)).astype(np.int64)
    if found.min() < 0 or found.max() >= groups:
        outside = int(found[(found < 0) | (found >= groups)][0])
        raise module.wrong(part, f"puts a column into group {outside} of {groups}")
    if np.array_equal(found, runs) and columns % 32 == 0 and (group % 32 == 0 or groups == 1):
        return IntegerBlocks(layout, group)
    return ExpandedIntegers(layout, found.astype(np.int32))


def _bits(settings: HFConfig, key: str) -> int:
    bits = settings.count(key, 4)
    if bits not in (4, 8):
        raise _refused(settings, key, str(bits), "4 and 8")
    return bits


def _group(settings: HFConfig) -> int:
    """Columns of a group; 0 where all are one."""
    return 0 if settings.values.get("group_size") == -1 else settings.count("group_size", 128)


def _scheme(settings: HFConfig) -> HFConfig:
    """The settings of weights, which must be the same for all modules that are quantized."""
    groups = settings.section("config_groups")
    found: list[dict[str, Any]] = []
    for name in groups.values if groups is not None else ():
        scheme = groups.section(name) if groups is not None else None
        weights = scheme.section("weights") if scheme is not None else None
        if weights is not None:
            found.append(dict(weights.values))
    if not found:
        return HFConfig(settings.name, {"num_bits": 8})
    keys = ("num_bits", "type", "strategy", "group_size", "block_structure")
    if any(each.get(key) != found[0].get(key) for each in found for key in keys):
        raise UnsupportedModelError(
            f"{settings.name} quantizes weights in different ways, which is not supported: use another version of the "
            "model, or a GGUF file"
        )
    return HFConfig(f"{settings.name} (weights)", found[0])


def _refused(settings: HFConfig, key: str, found: str, supported: str) -> UnsupportedModelError:
    return UnsupportedModelError(
        f"{settings.name} has {show(found)} for {key}, which is not supported, only {supported}: use another version "
        "of the model, or a GGUF file"
    )
