"""Every type of tensor, brought onto the device in every way that the loader has, against gguf-py's dequantization."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from gguf.quants import quantize

from wgpu_engine.errors import OutOfMemoryError
from wgpu_engine.files.gguf import TensorInfo, read_gguf
from wgpu_engine.files.grids import grid
from wgpu_engine.files.quants import QUANT_TYPES
from wgpu_engine.gpu.device import Limits
from wgpu_engine.ops import repack
from wgpu_engine.ops.weight import Weight, plane_layout, split_features
from wgpu_engine.platform.drive import drive
from wgpu_engine.platform.file_source import FileSource

TYPES = list(QUANT_TYPES)
QUANTIZABLE = ("F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "MXFP4", "TQ1_0", "TQ2_0")
"""those that gguf-py makes"""
NOT_IN_ZOO = ("F64", "I8", "I16", "I32", "I64", "Q2_0")
OWN = tuple(name for name, quant in QUANT_TYPES.items() if quant.ggml_id is None)


def width(name: str, blocks: int) -> int:
    """Columns for so many blocks; floats get an odd number, so that rows begin anywhere."""
    return 32 * blocks + 5 if QUANT_TYPES[name].is_float else QUANT_TYPES[name].block * blocks


def same(found: Any, wanted: Any) -> bool:
    """Equal bit for bit, but for the sign of zero."""
    return np.array_equal(found, wanted)


@pytest.mark.parametrize("name", TYPES)
def test_rows_mean_what_gguf_says(name: str, lab: Any, builder: Any, monkeypatch: Any) -> None:
    matrix = lab.matrix(name, 37, width(name, 3))
    whole = builder(37)
    assert same(lab.embedded(whole, lab.load(matrix)), matrix.values)
    # the same in chunks that hold a few rows and some bytes more
    row_bytes = matrix.tensor.type.row_bytes(matrix.tensor.columns)
    for rows in (1, 5, 12):
        monkeypatch.setattr(repack, "CHUNK", rows * row_bytes + 3)
        assert same(lab.embedded(whole, lab.load(matrix)), matrix.values), f"chunks of {rows} rows"


@pytest.mark.parametrize("k", [1, 2, 37, 64])
def test_f32_kept_as_f16(k: int, lab: Any, builder: Any, monkeypatch: Any) -> None:
    """Two ports of matrices laid one below the other, in chunks and parts; other types stay what they are."""
    values = [(lab.rng.standard_normal((rows, k)) * 8).astype(np.float32) for rows in (33, 12, 40, 5)]
    matrices = [lab.matrix("F32", len(each), k, each.view(np.uint8)) for each in values]
    ports = [[matrix.tensor for matrix in port] for port in (matrices[:2], matrices[2:])]
    monkeypatch.setattr(repack, "CHUNK", 4 * 7 * k + 3)
    loader = lab.loader(halve=True)
    with lab.limits(binding_bytes=4 * plane_layout(QUANT_TYPES["F16"], k, 64)[1]):
        weight = drive(loader.weight("w", ports))
    other = drive(loader.weight("other", [[lab.matrix("BF16", 3, k).tensor]]))
    drive(loader.finish())
    assert (weight.quant.name, other.quant.name) == ("F16", "BF16")
    assert len(weight.parts) == 2
    ported = [np.concatenate(port) for port in (values[:2], values[2:])]
    for part in weight.parts:
        rows = 2 * part.features
        flat = Weight("flat", weight.quant, rows, k, (replace(part, start=0, stop=rows),))
        wanted = np.concatenate([port[part.start : part.stop] for port in ported])
        # WGSL may round a half either way
        np.testing.assert_allclose(lab.embedded(builder(rows), flat), wanted, rtol=2.0**-10, atol=2.0**-24)
    for part in (*weight.parts, *other.parts):
        lab.device.free(part.buffer)


def test_a_router_stays_in_f32(lab: Any) -> None:
    loader = lab.loader(halve=True)
    gain = replace(lab.matrix("F32", 1, 64).tensor, shape=(64,))
    weight = drive(loader.router(lab.matrix("F32", 8, 64).tensor, gain))
    drive(loader.finish())
    assert weight.quant.name == "F32"
    lab.device.free(weight.parts[0].buffer)


@pytest.mark.parametrize("name", TYPES)
def test_a_split_weight_is_the_same(name: str, lab: Any, builder: Any, monkeypatch: Any) -> None:
    matrix = lab.matrix(name, 75, width(name, 1))
    quant, k = matrix.tensor.type, matrix.tensor.columns
    monkeypatch.setattr(repack, "CHUNK", 7 * quant.row_bytes(k))
    _, words = plane_layout(quant, k, 32)
    with lab.limits(binding_bytes=4 * words + 12):
        weight = lab.load(matrix)
    assert [(part.start, part.stop) for part in weight.parts] == [(0, 32), (32, 64), (64, 75)]
    assert all(part.buffer.size <= 4 * words + 12 for part in weight.parts)
    assert same(lab.embedded(builder(75), weight), matrix.values)


@pytest.mark.parametrize("name", QUANTIZABLE)
def test_rows_that_gguf_quantized(name: str, lab: Any, builder: Any, rng: np.random.Generator) -> None:
    k = width(name, 2)
    raw = quantize(rng.standard_normal((9, k)).astype(np.float32), gguf.GGMLQuantizationType[name]).view(np.uint8)
    matrix = lab.matrix(name, 9, k, raw.reshape(9, -1))
    assert same(lab.embedded(builder(9), lab.load(matrix)), matrix.values)


@pytest.mark.parametrize("name", ["F16", "Q4_1", "Q6_K"])
@pytest.mark.parametrize("limit", [1 << 30, 0])
def test_stacked_tensors(name: str, limit: int, lab: Any, builder: Any, monkeypatch: Any) -> None:
    """Tensors laid one below the other, also where parts end within them."""
    matrices = [lab.matrix(name, rows, width(name, 1)) for rows in (33, 5, 1, 40)]
    quant, k = matrices[0].tensor.type, matrices[0].tensor.columns
    monkeypatch.setattr(repack, "CHUNK", 6 * quant.row_bytes(k))
    with lab.limits(binding_bytes=max(limit, 4 * plane_layout(quant, k, 32)[1])):
        (weight,) = lab.load_all("stacked", *matrices)
    assert len(weight.parts) == (1 if limit else 3)
    assert same(lab.embedded(builder(79), weight), np.concatenate([matrix.values for matrix in matrices]))


@pytest.mark.parametrize("name", ["BF16", "Q5_0", "Q4_K"])
@pytest.mark.parametrize("limit", [1 << 30, 0])
def test_paired_tensors(name: str, limit: int, lab: Any, builder: Any, monkeypatch: Any) -> None:
    """Two ports in one weight: each part holds its features of the one, then those of the other."""
    gate, up = (lab.matrix(name, 45, width(name, 1)) for _ in range(2))
    quant, k = gate.tensor.type, gate.tensor.columns
    monkeypatch.setattr(repack, "CHUNK", 4 * quant.row_bytes(k))
    with lab.limits(binding_bytes=max(limit, 4 * plane_layout(quant, k, 64)[1])):
        (weight,) = lab.load_all("paired", gate, up)
    assert (weight.ports, weight.features) == (2, 45)
    assert len(weight.parts) == (1 if limit else 2)
    for part in weight.parts:
        rows = 2 * part.features
        flat = Weight("flat", quant, rows, k, (replace(part, start=0, stop=rows),))
        wanted = np.concatenate([port.values[part.start : part.stop] for port in (gate, up)])
        assert same(lab.embedded(builder(rows), flat), wanted)


@pytest.mark.parametrize("method", ["stacked", "paired"])
def test_unequal_types_stay_apart(method: str, lab: Any, builder: Any) -> None:
    matrices = [lab.matrix("Q4_0", 3, 64), lab.matrix("Q8_0", 5, 64)]
    weights = lab.load_all(method, *matrices)
    assert [(each.quant.name, each.features, each.ports) for each in weights] == [("Q4_0", 3, 1), ("Q8_0", 5, 1)]
    for weight, matrix in zip(weights, matrices, strict=True):
        assert same(lab.embedded(builder(matrix.tensor.rows), weight), matrix.values)


@pytest.mark.conformance
@pytest.mark.parametrize("name", [name for name in TYPES if name not in NOT_IN_ZOO + OWN])
def test_real_tensors(name: str, lab: Any, builder: Any, conformance: Path) -> None:
    """Tensors that llama.cpp quantized; the file holds types that we don't read too, so gguf-py says where they are."""
    path = conformance / "quants" / "quant-zoo.gguf"
    found = next(tensor for tensor in gguf.GGUFReader(path).tensors if tensor.tensor_type.name == name)
    k, rows = map(int, found.shape)
    with FileSource(path) as source:
        info = TensorInfo(found.name, QUANT_TYPES[name], (rows, k), source, int(found.data_offset), int(found.n_bytes))
        loader = lab.loader()
        weight = drive(loader.weight(name, [[info]]))
        loader.close()
    reference = np.load(conformance / "quants" / "quant-zoo-dequant-ref.npz")[name]
    assert same(lab.embedded(builder(rows), weight), reference)
    lab.device.free(weight.parts[0].buffer)


@pytest.mark.conformance
def test_real_q2_0(lab: Any, builder: Any, conformance: Path) -> None:
    """A matrix that llama.cpp quantized, against a decoder in NumPy."""
    with FileSource(conformance / "quants" / "rand-llama-256.Q2_0.gguf") as source:
        tensor = drive(read_gguf(source)).tensors["blk.0.ffn_down.weight"]
        assert tensor.type.name == "Q2_0"
        raw = np.frombuffer(bytes(drive(source.read(tensor.offset, tensor.nbytes))), np.uint8).reshape(tensor.rows, -1)
    matrix = lab.matrix("Q2_0", tensor.rows, tensor.columns, raw)
    assert 0.1 < np.abs(matrix.values).std() / np.abs(matrix.values).max() < 0.5
    assert same(lab.embedded(builder(tensor.rows), lab.load(matrix)), matrix.values)


@pytest.mark.parametrize("name", ["F8_E4M3", "F8_E5M2"])
def test_every_float_of_eight_bits(name: str, lab: Any, builder: Any) -> None:
    codes = np.arange(256, dtype=np.uint8).reshape(2, 128)
    scales = np.array([1.0, 0.375], np.float32).view(np.uint8).reshape(2, 4)
    matrix = lab.matrix(name, 1, 256, np.hstack([codes, scales]).reshape(1, -1))
    found, finite = lab.embedded(builder(1), lab.load(matrix)), np.isfinite(matrix.values)
    assert finite.sum() == (254 if name == "F8_E4M3" else 248)
    assert same(found[finite], matrix.values[finite])


@pytest.mark.parametrize("k", [32, 96, 160])
@pytest.mark.parametrize("name", ["INT4_G128", "INT8_G128"])
def test_rows_that_end_within_a_block(name: str, k: int, lab: Any, builder: Any) -> None:
    matrix = lab.matrix(name, 21, k)
    assert same(lab.embedded(builder(21), lab.load(matrix)), matrix.values)


def test_doubles_are_rounded(lab: Any, builder: Any) -> None:
    exact = [0.0, 1 + 2.0**-24 + 2.0**-40, 1 - 2.0**-25, 2 - 2.0**-30, -3.4e38, 2.0**-126, -(2.0**-126) * 1.75]
    values = np.array([[*exact, 1e-300, 5e-324]])
    matrix = lab.matrix("F64", 1, values.size, values.view(np.uint8))
    assert same(lab.embedded(builder(1), lab.load(matrix)), matrix.values)


def test_more_than_65535_workgroups(lab: Any, builder: Any) -> None:
    """A chunk of 16 MiB of words, 64 a workgroup, and a few rows of the next chunk."""
    matrix = lab.matrix("F32", (repack.CHUNK >> 6) + 7, 16)
    weight = lab.load(matrix)
    values = lab.words(weight.parts[0].buffer, 16 * matrix.tensor.rows).view(np.float32)
    assert same(values.reshape(-1, 16), matrix.values)


@pytest.mark.parametrize(
    ("features", "k", "ports"), [(1, 32, 1), (31, 64, 1), (32, 64, 2), (1000, 256, 1), (333, 512, 2)]
)
def test_parts_cover_a_weight_and_fit(features: int, k: int, ports: int) -> None:
    quant = QUANT_TYPES["Q6_K" if k % 256 == 0 else "Q5_1"]
    for factor in (1, 2, 5):
        limit = factor * 4 * plane_layout(quant, k, 32 * ports)[1] + 8
        parts = split_features(quant, features, k, ports, limit)
        assert [start for start, _ in parts] == [0] + [stop for _, stop in parts[:-1]]
        assert parts[-1][1] == features
        for start, stop in parts:
            assert start % 32 == 0 and start < stop
            assert 4 * plane_layout(quant, k, (stop - start) * ports)[1] <= limit


@pytest.mark.parametrize("experts", [1, 4])
def test_rows_beyond_a_binding_are_refused_in_a_sentence(experts: int) -> None:
    quant = QUANT_TYPES["Q6_K"]
    limit = 4 * plane_layout(quant, 512, 32)[1]
    assert split_features(quant, 32, 512, 1, limit, experts)
    for less in (limit - 4, 64, 0):
        with pytest.raises(OutOfMemoryError, match=r"32 rows of 512 weights in Q6_K take .* choose another adapter"):
            split_features(quant, 32, 512, 1, less, experts)


def test_the_least_limits_hold_a_large_vocabulary() -> None:
    """The head of a model of 262,144 tokens and 4096 values is more than the 128 MiB that WebGPU guarantees."""
    parts = split_features(QUANT_TYPES["Q8_0"], 262_144, 4096, 1, Limits().binding_bytes)
    assert len(parts) > 8
    assert parts[-1][1] == 262_144


@pytest.mark.parametrize("name", TYPES)
def test_planes_hold_all_bytes_in_aligned_rows(name: str) -> None:
    quant = QUANT_TYPES[name]
    k = width(name, 3)
    planes, words = plane_layout(quant, k, 5)
    ends = 0
    for field in quant.fields:
        start, row = planes[field.name]
        assert start == ends and start % 4 == 0 and row % 4 == 0
        size = quant.blocks(k) * field.size
        assert size <= 4 * row < size + max(16, 4 * field.size * (quant.block == 1))
        ends = start + 5 * row
    assert words == ends + (len(grid(quant.grid)) // 4 if quant.grid else 0)
