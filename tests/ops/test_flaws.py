"""Weights that are no numbers: found while they are repacked, whatever their type, and told."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from wgpu_engine.errors import UnsupportedModelError
from wgpu_engine.files.quants import QUANT_TYPES
from wgpu_engine.ops import repack
from wgpu_engine.platform.drive import drive
from wgpu_engine.platform.memory_source import MemorySource

NAN = {"f16": 0x7E00, "bf16": 0x7FC0, "f32": 0x7FC0, "f64": 0x7FF8, "f8_e4m3": 0x007F, "f8_e5m2": 0x007E}
INFINITE = {"f16": 0xFC00, "bf16": 0xFF80, "f32": 0x7F80, "f64": 0xFFF0, "f8_e4m3": 0xFF00, "f8_e5m2": 0xFC00}
"""the upper 16 bits, which say it; one of two floats of eight bits (E4M3 has no infinity)"""
FLOAT_FIELDS = [
    (name, place, field.floats)
    for name, quant in QUANT_TYPES.items()
    for field in quant.fields
    if field.floats
    for place in range(field.offset + {"f32": 2, "f64": 6}.get(field.floats, 0), field.offset + field.size, 2)
]
"""type, byte of a block where the upper half of a float is, and its format"""


def test_every_float_is_looked_at() -> None:
    for quant in QUANT_TYPES.values():
        floats = {field.name for field in quant.fields if field.floats}
        assert floats == {field.name for field in quant.fields} & {"values", "scale", "scale_min"}, quant.name


def loaded(lab: Any, *matrices: Any) -> list[str]:
    """The warnings of loading each matrix as a weight."""
    loader = lab.loader()
    for matrix in matrices:
        weight = drive(loader.weight(matrix.tensor.name, [[matrix.tensor]]))
        lab.device.free(weight.parts[0].buffer)
    drive(loader.finish())
    return list(loader.warnings)


def spoil(matrix: Any, place: int, bits: int) -> Any:
    """The matrix with other bits at a byte of its last block."""
    tensor = matrix.tensor
    data = bytearray(drive(tensor.source.read(0, tensor.source.size)))
    at = tensor.offset + tensor.nbytes - tensor.type.block_bytes + place
    data[at : at + 2] = bits.to_bytes(2, "little")
    source = MemorySource("memory", bytes(data))
    return replace(matrix, tensor=replace(tensor, name="blk.3.ffn_up.weight", source=source))


@pytest.mark.parametrize(("name", "place", "floats"), FLOAT_FIELDS)
def test_flawed_weights_are_told(name: str, place: int, floats: str, lab: Any) -> None:
    quant = QUANT_TYPES[name]
    matrix = lab.matrix(name, 5, quant.block if quant.block > 1 else 33)
    assert loaded(lab, matrix) == [], "random bits of quants are no flaw"
    for bits in (NAN[floats], INFINITE[floats]):
        (warning,) = loaded(lab, lab.matrix("F32", 2, 4), spoil(matrix, place, bits), matrix)
        assert "blk.3.ffn_up.weight" in warning


def test_largest_numbers_are_no_flaw(lab: Any) -> None:
    for name, dtype in (("F32", np.float32), ("F16", np.float16)):
        largest = np.array([[np.finfo(dtype).max, np.finfo(dtype).min, np.finfo(dtype).tiny, 0]], dtype)
        assert loaded(lab, lab.matrix(name, 1, 4, largest.view(np.uint8))) == []


def halved(lab: Any, values: Any) -> list[str]:
    """The warnings of loading F32 as F16, between others."""
    loader = lab.loader(halve=True)
    for matrix in (lab.matrix("F32", 3, 5), values, lab.matrix("F16", 3, 5)):
        lab.device.free(drive(loader.weight(matrix.tensor.name, [[matrix.tensor]])).parts[0].buffer)
    drive(loader.finish())
    return list(loader.warnings)


@pytest.mark.parametrize("value", [65504.1, -65520.0, 1e30, -3.4e38])
def test_what_is_too_large_for_halves_is_refused(value: float, lab: Any) -> None:
    for k in (1, 2, 33):
        values = np.zeros((7, k), np.float32)
        values[-1, -1] = value
        matrix = lab.matrix("F32", 7, k, values.view(np.uint8))
        assert loaded(lab, matrix) == []
        with pytest.raises(UnsupportedModelError, match=r"F32\[7,\d+\] holds values beyond 65504.* precision exact"):
            halved(lab, matrix)
    assert halved(lab, lab.matrix("F32", 1, 3, np.array([[65504, -65504, 0]], np.float32).view(np.uint8))) == []


@pytest.mark.parametrize("bits", [NAN["f32"], INFINITE["f32"]])
def test_flawed_weights_that_are_halved_are_told(bits: int, lab: Any) -> None:
    (warning,) = halved(lab, spoil(lab.matrix("F32", 5, 33), 2, bits))
    assert "blk.3.ffn_up.weight" in warning


def test_one_warning_is_enough(lab: Any, monkeypatch: Any) -> None:
    """However many weights are flawed, over several chunks too."""
    monkeypatch.setattr(repack, "CHUNK", 64)
    raw = np.full((50, 64), 0xFF, np.uint8)
    assert len(loaded(lab, lab.matrix("F32", 50, 16, raw), lab.matrix("BF16", 50, 32, raw))) == 1
