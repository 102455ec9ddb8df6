"""Model files of a few tensors, and what bytes of a type mean to somebody else."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from gguf.quants import dequantize
from numpy.typing import NDArray

from wgpu_engine.files.quants import QuantType
from wgpu_engine.ops.known_answers.blocks import decoded

Floats = NDArray[np.float32]


def _meaning(raw: NDArray[np.uint8], quant: QuantType) -> Floats:
    """Rows of blocks as gguf-py decodes them, or as our known answers do where it can't."""
    if quant.name in ("Q1_0", "Q2_0") or quant.ggml_id is None:
        return np.array(decoded(quant, raw.tobytes()), np.float32).reshape(len(raw), -1)
    values: Floats = dequantize(raw, gguf.GGMLQuantizationType[quant.name]).astype(np.float32)
    return values


def _write_model(path: Path, tensors: dict[str, NDArray[Any]], architecture: str = "llama") -> Path:
    """A GGUF file of these tensors, float32 or float16, and a few settings of every kind."""
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_name("Löwe")
    writer.add_uint16("a.uint16", 7)
    writer.add_int32("an.int32", 7)
    writer.add_uint64("a.uint64", 7)
    writer.add_float64("a.float64", 0.1)
    writer.add_float32("a.float32", 0.1)
    writer.add_bool("a.bool", True)
    writer.add_key_value("bytes", b"\xff\xfe", gguf.GGUFValueType.STRING)
    writer.add_array("texts", ["a", "ü", ""])
    writer.add_key_value("shorts", [1, -2, 3], gguf.GGUFValueType.ARRAY, gguf.GGUFValueType.INT16)
    writer.add_array("bools", [True, False])
    writer.add_file_type(int(gguf.LlamaFileType.ALL_F32))
    for name, values in tensors.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture(scope="session")
def meaning() -> Callable[[NDArray[np.uint8], QuantType], Floats]:
    """`meaning(rows of bytes, type)`: rows of weights."""
    return _meaning


@pytest.fixture
def write_model(tmp_path: Path) -> Callable[..., Path]:
    """`write_model({"name": values, …}, architecture="llama")`: the path of a GGUF file."""
    return lambda tensors, **more: _write_model(tmp_path / "given.gguf", tensors, **more)
