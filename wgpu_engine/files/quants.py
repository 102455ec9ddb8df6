"""Quantization types and how their blocks are laid out: those of GGUF tensors, and some of our own.

A tensor's row is a run of blocks; a block is a few fields (scales, quants, high bits…). On the GPU each field has a
plane of its own: the same field of all blocks of a row side by side, rows padded to whole u32 words. The loader only
needs the byte ranges below for that; what the bytes mean is known by `shaders/quants/<type>.wgsl` alone.

Block formats: llama.cpp, ggml/src/ggml-common.h. Our own types hold exactly what quantized safetensors mean
(`packed_rows.py` makes their blocks); no file has them.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Field:
    """A run of bytes within a block that becomes a plane."""

    name: str
    offset: int
    """bytes from the start of the block"""
    size: int
    """bytes in each block"""
    floats: str
    """f64, f32, f16, bf16, f8_e4m3 or f8_e5m2 where the bytes are floats (NaNs are looked for in them), else empty"""


@dataclass(frozen=True)
class QuantType:
    """A tensor type as GGUF spells it, or of our own."""

    name: str
    ggml_id: int | None
    """None: of our own, which no GGUF file can have"""
    block: int
    """elements in a block; the last of a row may have fewer in our own types"""
    fields: tuple[Field, ...]

    nibbles: bool
    """weights are `scale * q + offset` with q from 0 to 15"""
    grid: str
    """the look-up table of `grids.py` that the decoder reads, empty if none"""

    @property
    def block_bytes(self) -> int:
        return sum(field.size for field in self.fields)

    @property
    def is_float(self) -> bool:
        """Whether decoders give values, not int8 with scales."""
        return self.fields[0].name in ("values", "integers")

    def blocks(self, elements: int) -> int:
        """Blocks of a row of `elements`."""
        return -(-elements // self.block)

    def row_bytes(self, elements: int) -> int:
        """Bytes of a row of `elements`."""
        return self.blocks(elements) * self.block_bytes


def _type(name: str, ggml_id: int | None, block: int, *, grid: str = "", **sizes: int) -> QuantType:
    fields, offset = [], 0
    for field, size in sizes.items():
        scale = "f32" if ggml_id is None else "f16"
        fields.append(
            Field(field, offset, size, {"values": name.lower(), "scale": scale, "scale_min": "f16"}.get(field, ""))
        )
        offset += size
    return QuantType(name, ggml_id, block, tuple(fields), name in _NIBBLES, grid)


_NIBBLES = (
    *("Q4_0", "Q4_1", "Q2_K", "Q3_K", "Q4_K", "IQ1_S", "IQ3_S", "TQ1_0", "TQ2_0", "Q1_0", "Q2_0"),
    *("INT4_G32", "INT4_G128", "TERNARY"),
)

_TYPES = (
    _type("F32", 0, 1, values=4),
    _type("F16", 1, 1, values=2),
    _type("BF16", 30, 1, values=2),
    _type("F64", 28, 1, values=8),
    _type("I8", 24, 1, integers=1),
    _type("I16", 25, 1, integers=2),
    _type("I32", 26, 1, integers=4),
    _type("I64", 27, 1, integers=8),
    _type("Q4_0", 2, 32, scale=2, quants=16),
    _type("Q4_1", 3, 32, scale_min=4, quants=16),
    _type("Q5_0", 6, 32, scale=2, high=4, quants=16),
    _type("Q5_1", 7, 32, scale_min=4, high=4, quants=16),
    _type("Q8_0", 8, 32, scale=2, quants=32),
    _type("Q2_K", 10, 256, scales=16, quants=64, scale_min=4),
    _type("Q3_K", 11, 256, high=32, quants=64, scales=12, scale=2),
    _type("Q4_K", 12, 256, scale_min=4, scales=12, quants=128),
    _type("Q5_K", 13, 256, scale_min=4, scales=12, high=32, quants=128),
    _type("Q6_K", 14, 256, quants=128, high=64, scales=16, scale=2),
    _type("IQ1_S", 19, 256, grid="IQ1", scale=2, quants=32, high=16),
    _type("IQ1_M", 29, 256, grid="IQ1", quants=32, high=16, scales=8),
    _type("IQ2_XXS", 16, 256, grid="IQ2_XXS", scale=2, quants=64),
    _type("IQ2_XS", 17, 256, grid="IQ2_XS", scale=2, quants=64, scales=8),
    _type("IQ2_S", 22, 256, grid="IQ2_S", scale=2, quants=32, signs=32, high=8, scales=8),
    _type("IQ3_XXS", 18, 256, grid="IQ3_XXS", scale=2, quants=64, signs=32),
    _type("IQ3_S", 21, 256, grid="IQ3_S", scale=2, quants=64, high=8, signs=32, scales=4),
    _type("IQ4_NL", 20, 32, scale=2, quants=16),
    _type("IQ4_XS", 23, 256, scale=2, scales_high=2, scales_low=4, quants=128),
    _type("MXFP4", 39, 32, exponent=1, quants=16),
    _type("NVFP4", 40, 64, scales=4, quants=32),
    _type("TQ1_0", 34, 256, quants=48, high=4, scale=2),
    _type("TQ2_0", 35, 256, quants=64, scale=2),
    _type("Q1_0", 41, 128, scale=2, quants=16),
    _type("Q2_0", 42, 64, scale=2, quants=16),
    _type("F8_E4M3", None, 128, values=128, scale=4),
    _type("F8_E5M2", None, 128, values=128, scale=4),
    _type("INT4_G32", None, 32, quants=16, scale=4, zero=2),
    _type("INT4_G128", None, 128, quants=64, scale=4, zero=2),
    _type("INT8_G32", None, 32, quants=32, scale=4, zero=2),
    _type("INT8_G128", None, 128, quants=128, scale=4, zero=2),
    _type("TERNARY", None, 256, quants=64, scale=4),
)

QUANT_TYPES: dict[str, QuantType] = {t.name: t for t in _TYPES}
BY_GGML_ID: dict[int, QuantType] = {t.ggml_id: t for t in _TYPES if t.ggml_id is not None}
