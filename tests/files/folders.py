"""Folders opened as models, and why some are not."""

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from wgpu_engine.errors import EngineError, ModelFileError
from wgpu_engine.files.model_file import ModelFile
from wgpu_engine.files.opening import open_any
from wgpu_engine.platform.drive import drive

Write = Callable[..., Path]


def opened(path: Path) -> ModelFile:
    return drive(open_any(path))


def refusal(path: Path, kind: type[EngineError] = ModelFileError) -> str:
    with pytest.raises(kind) as caught:
        opened(path)
    text = str(caught.value)
    assert "\n" not in text and ". " not in text
    assert 20 < len(text) < 500
    return text


def values_of(model: ModelFile, name: str) -> list[float]:
    tensor = model.tensors[name]
    data = drive(tensor.source.read(tensor.offset, tensor.nbytes))
    return list(struct.unpack(f"<{len(data) // 4}f", data))
