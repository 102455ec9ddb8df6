from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGUFWriter

from wgpu_engine.errors import ModelFileError, ModelNotFoundError
from wgpu_engine.files.model_file import ModelFile, open_model, open_sources, part_names
from wgpu_engine.platform.drive import drive
from wgpu_engine.platform.memory_source import MemorySource


def opened(path: Path) -> ModelFile:
    return drive(open_model(path))


def write_parts(folder: Path, name: str = "tiny", tensors: int = 7, per_part: int = 2) -> list[Path]:
    """A model split by gguf-py."""
    writer = GGUFWriter(folder / f"{name}.gguf", "llama", split_max_tensors=per_part)
    writer.add_block_count(1)
    for i in range(tensors):
        writer.add_tensor(f"t.{i}", np.full((2, 4), i, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return sorted(folder.glob(f"{name}-*.gguf"))


def test_opens_a_single_file(small_model: bytes, write: Callable[..., Path]) -> None:
    path = write(small_model)
    with opened(path) as model:
        assert model.path == path
        assert model.metadata["general.architecture"] == "llama"
        assert model.file_bytes == len(small_model)
        assert model.tensor_bytes == 36 + 32
    with pytest.raises(ModelFileError, match="open it again"):
        drive(model.sources[0].read(0, 1))


@pytest.mark.parametrize("given", [0, 1, 3])
def test_opens_a_split_model_by_any_part(tmp_path: Path, given: int) -> None:
    parts = write_parts(tmp_path)
    assert len(parts) == 4
    with opened(parts[given]) as model:
        assert model.path == parts[0]
        assert model.metadata["llama.block_count"] == 1
        assert model.file_bytes == sum(part.stat().st_size for part in parts)
        assert model.tensor_bytes == 7 * 32
        assert sorted(model.tensors) == [f"t.{i}" for i in range(7)]
        for i in range(7):
            tensor = model.tensors[f"t.{i}"]
            values = np.frombuffer(drive(tensor.source.read(tensor.offset, tensor.nbytes)), np.float32)
            assert values.tolist() == [i] * 8


def test_names_the_missing_part(tmp_path: Path) -> None:
    parts = write_parts(tmp_path)
    parts[2].unlink()
    with pytest.raises(ModelFileError, match=r"one of 4 parts: put tiny-00003-of-00004.gguf into the same folder"):
        opened(parts[0])
    for part in parts:
        part.unlink(missing_ok=True)
    with pytest.raises(ModelNotFoundError, match=r"tiny-00002-of-00004.gguf"):
        opened(parts[1])


def test_refuses_parts_in_the_wrong_place(tmp_path: Path) -> None:
    parts = write_parts(tmp_path)
    parts[1].write_bytes(parts[2].read_bytes())
    with pytest.raises(ModelFileError, match="isn't part 2 of 4"):
        opened(parts[0])


def test_refuses_parts_of_another_model(tmp_path: Path) -> None:
    parts = write_parts(tmp_path)
    (tmp_path / "other").mkdir()
    others = write_parts(tmp_path / "other", tensors=8)
    parts[3].write_bytes(others[3].read_bytes())
    with pytest.raises(ModelFileError, match="hold 8 tensors instead of 7"):
        opened(parts[0])


def test_refuses_a_tensor_in_two_parts(tmp_path: Path, draft: Any) -> None:
    for number in range(2):
        made = draft(data=bytes(32)).put("split.no", "u16", number).put("split.count", "u16", 2).tensor("a", (8,))
        (tmp_path / f"m-{number + 1:05}-of-00002.gguf").write_bytes(made.build())
    with pytest.raises(ModelFileError, match="repeats the tensor 'a'"):
        opened(tmp_path / "m-00001-of-00002.gguf")


def test_refuses_a_renamed_part(tmp_path: Path) -> None:
    part = write_parts(tmp_path)[0].rename(tmp_path / "renamed.gguf")
    with pytest.raises(ModelFileError, match="one of 4 parts of a split model: give each its name back"):
        opened(part)


def test_refuses_a_lone_file_that_is_named_like_a_part(tmp_path: Path, small_model: bytes) -> None:
    for number in (1, 2):
        (tmp_path / f"m-{number:05}-of-00002.gguf").write_bytes(small_model)
    with pytest.raises(ModelFileError, match="isn't part 1 of 2 by its own metadata"):
        opened(tmp_path / "m-00001-of-00002.gguf")


def test_opens_a_model_of_one_part(tmp_path: Path, draft: Any) -> None:
    path = tmp_path / "m-00001-of-00001.gguf"
    path.write_bytes(draft().put("split.no", "u16", 0).put("split.count", "u16", 1).build())
    assert opened(path).tensors == {}


def test_says_that_there_is_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match=r"there is no file .*absent.gguf: check the path"):
        opened(tmp_path / "absent.gguf")
    with pytest.raises(ModelFileError, match="is a folder"):
        opened(tmp_path)


def test_names_parts() -> None:
    assert part_names("a-00002-of-00003.gguf") == [f"a-0000{i}-of-00003.gguf" for i in (1, 2, 3)]
    for name in ("a.gguf", "a-00004-of-00003.gguf", "a-00000-of-00003.gguf", "a-1-of-3.gguf", "-00001-of-00002.gguf"):
        assert part_names(name) == [name]


class Elsewhere(MemorySource):
    """A file that has to be fetched."""

    def __init__(self, path: Path) -> None:
        super().__init__(path.name, path.read_bytes())
        self.fetched = self.closed = False

    async def fetch(self) -> None:
        self.fetched = True

    def close(self) -> None:
        self.closed = True


def test_opens_files_that_are_elsewhere(tmp_path: Path) -> None:
    paths = write_parts(tmp_path)
    wanted = opened(paths[0])
    sources = [Elsewhere(path) for path in (paths[2], paths[0], paths[3], paths[1])]
    with drive(open_sources(sources)) as model:
        assert str(model.path) == paths[0].name
        assert model.metadata == wanted.metadata and list(model.tensors) == list(wanted.tensors)
        assert [source.name for source in model.sources] == [path.name for path in paths]
        for name, tensor in model.tensors.items():
            assert (tensor.source.name, tensor.offset) == (Path(wanted.tensors[name].source.name).name, tensor.offset)
        assert not any(source.fetched for source in sources)
        drive(model.fetch())
        assert all(source.fetched for source in sources)
    assert all(source.closed for source in sources)


def test_refuses_files_that_are_not_one_model(tmp_path: Path) -> None:
    paths = write_parts(tmp_path)
    others = write_parts(tmp_path, "other")
    for chosen, message in (
        ([], "choose one GGUF file, or all parts of a split one"),
        ([paths[0], others[0]], "aren't of one model"),
        ([paths[0], paths[0]], "aren't of one model"),
        (paths[1:], r"tiny-00002-of-00004.gguf is one of 4 parts: add tiny-00001-of-00004.gguf$"),
        (paths[:1], r"add tiny-00002-of-00004.gguf, tiny-00003-of-00004.gguf, tiny-00004-of-00004.gguf$"),
    ):
        sources = [Elsewhere(path) for path in chosen]
        with pytest.raises(ModelFileError, match=message):
            drive(open_sources(sources))
        assert all(source.closed for source in sources)


def test_closes_what_it_refuses(tmp_path: Path) -> None:
    paths = write_parts(tmp_path)
    paths[1].write_bytes(b"GGUF")
    sources = [Elsewhere(path) for path in paths]
    with pytest.raises(ModelFileError, match=r"tiny-00002-of-00004.gguf is truncated"):
        drive(open_sources(sources))
    assert all(source.closed for source in sources)
