"""Tensors whose bytes lie in another order in their file."""

import struct

import numpy as np
import pytest

from wgpu_engine.errors import ModelFileError, UnsupportedModelError
from wgpu_engine.files.gguf import TensorInfo
from wgpu_engine.files.quants import QUANT_TYPES
from wgpu_engine.files.rearranged import transposed, with_rows
from wgpu_engine.platform.drive import drive
from wgpu_engine.platform.memory_source import MemorySource

BEFORE = 5


def tensor(values: np.ndarray, kind: str) -> TensorInfo:
    data = values.tobytes()
    source = MemorySource("file", b"\xff" * BEFORE + data + b"\xff" * 3)
    return TensorInfo("t", QUANT_TYPES[kind], values.shape, source, BEFORE, len(data))


def read(info: TensorInfo, start: int = 0, length: int | None = None) -> bytes:
    length = info.nbytes if length is None else length
    return bytes(drive(info.source.read(info.offset + start, length)))


@pytest.mark.parametrize(("kind", "dtype"), [("F32", "<u4"), ("F16", "<u2"), ("BF16", "<u2")])
@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (7, 1), (5, 3), (12, 31)])
def test_transposed(kind: str, dtype: str, shape: tuple[int, int], rng: np.random.Generator) -> None:
    values = rng.integers(0, 1 << 16, shape).astype(dtype)
    found = transposed(tensor(values, kind))
    wanted = np.ascontiguousarray(values.T).tobytes()
    assert (found.shape, found.nbytes, found.name) == (shape[::-1], values.nbytes, "t")
    assert read(found) == wanted
    for _ in range(20):
        start, end = sorted(int(each) for each in rng.integers(0, values.nbytes + 1, 2))
        assert read(found, start, end - start) == wanted[start:end]


def test_blocks_are_not_transposed() -> None:
    with pytest.raises(UnsupportedModelError, match=r"stores 't' transposed and as Q8_0"):
        transposed(tensor(np.zeros((2, 34), np.uint8), "Q8_0"))


def test_rows_in_another_order(rng: np.random.Generator) -> None:
    runs = [(4, 2), (0, 1), (3, 1), (1, 2)]
    order = [4, 5, 0, 3, 1, 2]
    for values in (rng.integers(0, 1 << 32, (6, 5), np.uint32), rng.integers(0, 1 << 32, 6, np.uint32)):
        found = with_rows(tensor(values, "F32"), runs)
        wanted = values[order].tobytes()
        assert found.shape == values.shape
        assert read(found) == wanted
        for _ in range(20):
            start, end = sorted(int(each) for each in rng.integers(0, values.nbytes + 1, 2))
            assert read(found, start, end - start) == wanted[start:end]


@pytest.mark.parametrize("make", [transposed, lambda info: with_rows(info, [(1, 1), (0, 1)])])
def test_nothing_is_read_past_the_end(make) -> None:
    values = np.frombuffer(struct.pack("<4f", 1, 2, 3, 4), np.float32).reshape(2, 2)
    found = make(tensor(values, "F32"))
    for start, length in ((-1, 4), (0, 17), (16, 1), (0, -1)):
        with pytest.raises(ModelFileError, match="a tensor of 16 bytes"):
            read(found, start, length)
