"""The same files through gguf-py, an independent reader."""

from pathlib import Path
from typing import Any

import pytest
from gguf import GGUFReader

from wgpu_engine.errors import UnsupportedModelError
from wgpu_engine.files.gguf import read_gguf
from wgpu_engine.files.quants import BY_GGML_ID
from wgpu_engine.platform.drive import drive
from wgpu_engine.platform.file_source import FileSource

pytestmark = pytest.mark.conformance


def as_plain(value: Any) -> Any:
    return list(value) if not isinstance(value, str | int | float | bool) else value


def test_agrees_with_another_reader(conformance: Path) -> None:
    files = sorted([*conformance.glob("quants/*.gguf"), *conformance.glob("logits/*.gguf")])
    # gguf-py 0.19 doesn't know this type.
    files = [file for file in files if ".Q2_0." not in file.name]
    # Its loop over the strings is slow, so only the small vocabularies.
    files += [file for file in sorted(conformance.glob("vocabularies/*.gguf")) if file.stat().st_size < 700_000]
    read = 0
    for file in files:
        theirs = GGUFReader(file)
        with FileSource(file) as source:
            if any(tensor.tensor_type not in BY_GGML_ID for tensor in theirs.tensors):
                with pytest.raises(UnsupportedModelError):
                    drive(read_gguf(source))
                continue
            ours = drive(read_gguf(source))
        fields = {name: field for name, field in theirs.fields.items() if not name.startswith("GGUF.")}
        assert list(ours.metadata) == list(fields)
        for name, field in fields.items():
            assert as_plain(ours.metadata[name]) == field.contents(), (file.name, name)
        assert list(ours.tensors) == [tensor.name for tensor in theirs.tensors]
        for tensor in theirs.tensors:
            info = ours.tensors[tensor.name]
            assert info.type.name == tensor.tensor_type.name
            assert info.shape == tuple(reversed(tensor.shape.tolist()))
            assert (info.offset, info.nbytes) == (tensor.data_offset, tensor.n_bytes)
        read += 1
    assert read >= 10


def test_reads_the_largest_vocabularies(conformance: Path) -> None:
    sizes = {}
    for file in sorted(conformance.glob("vocabularies/*.gguf")):
        with FileSource(file) as source:
            metadata = drive(read_gguf(source)).metadata
        tokens, types = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.token_type"]
        assert isinstance(tokens, list)
        assert not isinstance(types, str | int | float)
        assert len(tokens) == len(types)
        sizes[file.stem] = len(tokens)
    assert sizes["ggml-vocab-llama-bpe"] == 128_256
    assert sizes["ggml-vocab-qwen2"] == 151_936
