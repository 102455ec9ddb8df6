"""Vectors brought onto the device, and what the loader leaves behind."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from wgpu_engine.errors import ModelFileError, UnsupportedModelError
from wgpu_engine.files.gguf import TensorInfo
from wgpu_engine.ops import repack
from wgpu_engine.ops.repack import Loader
from wgpu_engine.platform.drive import drive


def vector_tensor(name: str, values: Any, lab: Any) -> TensorInfo:
    dtype = {"F64": "f8", "F32": "f4", "F16": "f2", "I8": "i1", "I16": "i2", "I32": "i4", "I64": "i8"}.get(name)
    data = np.asarray(values, np.float32)
    raw = data.astype(dtype).view(np.uint8) if dtype else (data.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    return replace(lab.matrix(name, 1, len(data), raw.reshape(1, -1)).tensor, shape=(len(data),))


@pytest.mark.parametrize("name", ["F32", "F16", "BF16"])
def test_vectors_become_floats(name: str, lab: Any) -> None:
    values = [1.0, -2.5, 0.0, 1024.0, -0.125]
    loader = lab.loader()
    vector = drive(loader.vector(vector_tensor(name, values, lab)))
    assert lab.words(vector, 8).view(np.float32).tolist() == [*values, 0.0, 0.0, 0.0]
    assert drive(loader.floats(vector_tensor(name, values, lab))) == values
    assert not loader.warnings
    lab.device.free(vector)
    loader.close()


@pytest.mark.parametrize("name", ["I8", "I16", "I32", "I64", "F64"])
def test_vectors_of_rare_types_become_floats(name: str, lab: Any) -> None:
    values = [1.0, -3.0, 0.0, 127.0, -128.0]
    loader = lab.loader()
    assert drive(loader.floats(vector_tensor(name, values, lab))) == values
    loader.close()


def test_a_vector_beyond_f32_is_broken(lab: Any) -> None:
    loader = lab.loader()
    with np.errstate(over="ignore"):
        tensor = lab.matrix("F64", 1, 2, np.array([[1e300, 0.1]]).view(np.uint8)).tensor
    vector = drive(loader.vector(tensor))
    assert lab.words(vector, 2).view(np.float32).tolist() == [np.inf, np.float32(0.1)]
    assert len(loader.warnings) == 1
    lab.device.free(vector)
    loader.close()


def test_a_missing_part_of_a_joined_vector_is_zeros(lab: Any) -> None:
    loader = lab.loader()
    parts = [(vector_tensor("F32", [1.0, 2.0], lab), 2), (None, 3), (vector_tensor("F16", [3.0], lab), 1)]
    vector = drive(loader.joined_vector(parts))
    assert lab.words(vector, 6).view(np.float32).tolist() == [1.0, 2.0, 0.0, 0.0, 0.0, 3.0]
    lab.device.free(vector)
    loader.close()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_broken_vectors_warn(value: float, lab: Any) -> None:
    loader = lab.loader()
    tensor = replace(vector_tensor("F32", [1.0, value, 2.0], lab), name="blk.0.attn_norm.weight")
    lab.device.free(drive(loader.vector(tensor)))
    assert len(loader.warnings) == 1
    assert "blk.0.attn_norm.weight" in loader.warnings[0]
    loader.close()


def test_a_quantized_vector_is_refused(lab: Any) -> None:
    loader = lab.loader()
    tensor = replace(lab.matrix("Q8_0", 1, 32).tensor, name="output_norm.weight", shape=(32,))
    with pytest.raises(UnsupportedModelError, match=r"output_norm\.weight is Q8_0"):
        drive(loader.vector(tensor))
    loader.close()


def test_progress_and_buffers(lab: Any, monkeypatch: Any) -> None:
    """Progress adds up to the tensors' bytes; what the loader held is freed when it closes."""
    matrix = lab.matrix("Q5_1", 50, 96)
    vector = vector_tensor("F16", [1.0, 2.0, 3.0], lab)
    monkeypatch.setattr(repack, "CHUNK", 5 * matrix.tensor.type.row_bytes(96))
    steps: list[int] = []
    before = lab.device.buffers
    loader = Loader(lab.device, steps.append)
    weight = drive(loader.weight("w", [[matrix.tensor]]))
    gain = drive(loader.vector(vector))
    loader.close()
    assert sum(steps) == matrix.tensor.nbytes + vector.nbytes
    assert len(steps) == 11, "ten chunks of five rows, and the vector"
    assert lab.device.buffers <= before + 3, "only the weight, the vector and a read-back buffer are left"
    assert weight.bytes == weight.parts[0].buffer.size
    for buffer in (weight.parts[0].buffer, gain):
        lab.device.free(buffer)


def test_a_source_that_fails_is_heard(lab: Any) -> None:
    matrix = lab.matrix("Q8_0", 4, 32)

    class Torn:
        name, size = "torn", 10

        async def read(self, offset: int, length: int) -> bytes:
            raise ModelFileError("torn")

        def close(self) -> None:
            pass

    loader = lab.loader()
    with pytest.raises(ModelFileError):
        drive(loader.weight("w", [[replace(matrix.tensor, source=Torn())]]))
    loader.close()
