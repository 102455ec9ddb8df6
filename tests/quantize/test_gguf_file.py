"""Files that are written: what others read in them, and that nothing is left of what fails."""

import shutil
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from wgpu_engine.errors import EngineError, RequestError
from wgpu_engine.files.model_file import ModelFile, open_model
from wgpu_engine.files.opening import open_any
from wgpu_engine.files.quants import QUANT_TYPES
from wgpu_engine.platform.drive import drive
from wgpu_engine.quantize.convert import QUANTIZERS
from wgpu_engine.quantize.gguf_file import write_gguf
from wgpu_engine.quantize.recipe import recipe

WriteModel = Callable[..., Path]
TENSORS = {
    "blk.0.ffn_up.weight": np.linspace(-1, 1, 768, dtype=np.float32).reshape(3, 256),
    "v": np.ones(5, np.float32),
}


def silent(stage: str, done: int, total: int | None) -> None:
    pass


def write(given: Path, out: Path, kind: str = "Q4_K", progress: Any = silent, **options: Any) -> ModelFile:
    """What reads the file again; to be closed."""
    with drive(open_any(given)) as file:
        write_gguf(recipe(file, QUANT_TYPES[kind], requantize=True).file, out, QUANT_TYPES[kind], progress, **options)
    return drive(open_model(out))


def test_metadata_is_kept(write_model: WriteModel, tmp_path: Path) -> None:
    """Values and their types, as gguf-py reads both files."""
    given, out = write_model(TENSORS), tmp_path / "out.gguf"
    write(given, out).close()
    before, after = (dict(gguf.GGUFReader(path).fields) for path in (given, out))
    new = {"general.file_type": 14, "general.quantization_version": 2, "GGUF.kv_count": len(before) - 3 + 1}
    assert set(after) == set(before) | {"general.quantization_version"}
    for key, field in after.items():
        if key in new:
            assert field.contents() == new[key]
        else:
            assert field.types == before[key].types
            parts = [b"".join(part.tobytes() for part in each.parts) for each in (field, before[key])]
            assert parts[0] == parts[1]
    assert [each.name for each in gguf.GGUFReader(out).tensors] == list(TENSORS)


def test_what_it_cannot_keep(tmp_path: Path) -> None:
    """Keys of split files, and arrays that gguf-py doesn't write."""
    writer = gguf.GGUFWriter(tmp_path / "given.gguf", "llama")
    writer.add_uint16("split.count", 1)
    writer.add_uint32("general.alignment", 64)
    writer.data_alignment = 64
    writer.add_array("nested", [[1, 2], [3]])
    writer.add_tensor("v", np.ones(5, np.float32))
    writer.add_tensor("w", np.ones(5, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with write(tmp_path / "given.gguf", tmp_path / "out.gguf") as file:
        assert set(file.metadata) == {"general.architecture", "general.file_type", "general.quantization_version"}
        assert set(file.tensors) == {"v", "w"}


def test_a_split_model_becomes_one_file(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "given.gguf", "llama", split_max_tensors=2)
    for i in range(3):
        writer.add_tensor(f"blk.{i}.ffn_up.weight", np.full((2, 256), i, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with write(tmp_path / "given-00001-of-00002.gguf", tmp_path / "out.gguf", "Q8_0") as file:
        assert len(file.tensors) == 3 and len(file.sources) == 1
        assert not [key for key in file.metadata if key.startswith("split.")]


@pytest.mark.parametrize("kind", QUANTIZERS)
def test_every_type(write_model: WriteModel, tmp_path: Path, kind: str) -> None:
    with write(write_model(TENSORS), tmp_path / "out.gguf", kind) as file:
        assert file.tensors["blk.0.ffn_up.weight"].type.name == kind
        assert file.tensors["blk.0.ffn_up.weight"].shape == (3, 256)
        expected = getattr(gguf.LlamaFileType, f"MOSTLY_{kind}", None)
        if expected is not None:
            assert file.metadata["general.file_type"] == expected
        vector = file.tensors["v"]
        assert bytes(drive(vector.source.read(vector.offset, 20))) == np.ones(5, np.float32).tobytes()


def test_a_folder(tiny_folder: Callable[..., Path], tmp_path: Path) -> None:
    with write(tiny_folder(dtype="BF16"), tmp_path / "out.gguf", "Q8_0") as file:
        assert file.metadata["llama.embedding_length"] == 32 and file.kinds["llama.embedding_length"] == 4
        assert file.kinds["llama.rope.freq_base"] == 6
        assert {tensor.type.name for tensor in file.tensors.values()} == {"F32", "Q8_0"}


def test_progress(write_model: WriteModel, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int | None]] = []
    write(write_model(TENSORS), tmp_path / "out.gguf", progress=lambda *what: seen.append(what)).close()
    assert seen == [("quantize", 3 * 144, 3 * 144 + 20), ("quantize", 3 * 144 + 20, 3 * 144 + 20)]


def test_replaces_only_when_told(write_model: WriteModel, tmp_path: Path) -> None:
    given, out = write_model(TENSORS), tmp_path / "out.gguf"
    out.write_bytes(b"precious")
    with pytest.raises(RequestError, match=r"out\.gguf exists: .* --force"):
        write(given, out)
    assert out.read_bytes() == b"precious"
    write(given, out, replace=True).close()
    for path in (given, tmp_path / "hard.gguf"):
        if not path.exists():
            path.hardlink_to(given)
        with pytest.raises(RequestError, match="is the model that is read"):
            write(given, path, replace=True)
    with pytest.raises(RequestError, match="is a folder"):
        write(given, tmp_path, replace=True)
    with pytest.raises(RequestError, match="there is no folder"):
        write(given, tmp_path / "absent" / "out.gguf")


def test_a_full_disk(write_model: WriteModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = write_model(TENSORS)
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(1 << 20))
    with pytest.raises(EngineError, match=r"out\.gguf would take 34 MB and 1 MB are free"):
        write(given, tmp_path / "out.gguf")


@pytest.mark.parametrize("trouble", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_nothing_is_left_of_what_failed(write_model: WriteModel, tmp_path: Path, trouble: Any) -> None:
    given = write_model(TENSORS)

    def fail(stage: str, done: int, total: int | None) -> None:
        raise trouble

    with pytest.raises(type(trouble) if isinstance(trouble, OSError) else trouble):
        write(given, tmp_path / "out.gguf", progress=fail)
    assert list(tmp_path.iterdir()) == [given]


def test_nothing_is_left_of_a_broken_model(write_model: WriteModel, tmp_path: Path) -> None:
    given = write_model(TENSORS | {"blk.1.ffn_up.weight": np.full((2, 256), np.nan, np.float32)})
    with pytest.raises(EngineError, match="NaN"):
        write(given, tmp_path / "out.gguf")
    assert list(tmp_path.iterdir()) == [given]
