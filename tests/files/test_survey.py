"""What is found out of models that don't load."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGUFWriter

from wgpu_engine.errors import EngineError, ModelFileError, ModelNotFoundError
from wgpu_engine.files.gguf import survey_gguf
from wgpu_engine.files.model_file import open_model
from wgpu_engine.files.survey import Survey, survey
from wgpu_engine.platform.drive import drive
from wgpu_engine.platform.memory_source import MemorySource

Write = Callable[[bytes], Path]


def look(path: Path) -> Survey:
    with drive(survey(path)) as found:
        return found


def test_a_sound_file_is_what_it_is(small_model: bytes, write: Write) -> None:
    path = write(small_model)
    found, model = look(path), drive(open_model(path))
    assert (found.metadata, list(found.tensors), found.file_bytes) == (
        model.metadata,
        list(model.tensors),
        model.file_bytes,
    )
    assert found.whole and not found.obstacles and not found.unreadable and found.kind == "GGUF"
    model.close()


def test_unknown_types_are_named_and_the_rest_is_listed(draft: Any, write: Write) -> None:
    made = draft(data=bytes(96)).put("general.architecture", "str", "llama").tensor("a", (8,), 0, 0)
    made.tensor("b", (32, 2), 99, 32).tensor("c", (32, 3), 99, 64).tensor("d", (256, 1), 36, 64)
    made.tensor("e", (31, 1), 2, 64).tensor("f", (8,), 0, 64)
    found = look(write(made.build()))
    assert list(found.tensors) == ["a", "f"] and found.whole
    assert [(each.name, each.type, each.shape) for each in found.unreadable] == [
        ("b", "type 99", (2, 32)),
        ("c", "type 99", (3, 32)),
        ("d", "IQ4_NL_4_4", (1, 256)),
        ("e", "Q4_0", (1, 31)),
    ]
    unknown, unsupported, odd = found.obstacles
    assert "'b' has the unknown type 99" in unknown and unknown.endswith("(and 1 more of this type)")
    assert "'d' is of type IQ4_NL_4_4" in unsupported and "rows of 31 elements" in odd


def test_a_truncated_file_keeps_what_is_there(small_model: bytes, write: Write) -> None:
    found = look(write(small_model[:-1]))
    assert len(found.tensors) == 2 and found.whole
    assert [obstacle.rpartition(": ")[2] for obstacle in found.obstacles] == ["1 bytes are missing; download it again"]
    header = look(write(small_model[:400]))
    assert header.metadata["one.u8"] == 1 and not header.tensors and not header.whole
    assert len(header.obstacles) == 1 and "truncated" in header.obstacles[0]


def test_a_part_that_is_missing_is_named(tmp_path: Path) -> None:
    writer = GGUFWriter(tmp_path / "tiny.gguf", "llama", split_max_tensors=2)
    for i in range(5):
        writer.add_tensor(f"t.{i}", np.zeros((2, 4), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    paths = sorted(tmp_path.glob("tiny-*"))
    assert len(look(paths[0]).tensors) == 5 and not look(paths[1]).obstacles
    paths[1].unlink()
    found = look(paths[0])
    assert sorted(found.tensors) == ["t.0", "t.1", "t.4"] and not found.whole
    assert len(found.obstacles) == 1 and f"put {paths[1].name} into the same folder" in found.obstacles[0]


@pytest.mark.parametrize("content", [b"", b"GG", b"<!doctype html>", b"GGUF" + bytes(4)])
def test_what_is_no_model_is_refused(content: bytes, write: Write) -> None:
    with pytest.raises(EngineError):
        look(write(content))


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError):
        look(tmp_path / "absent.gguf")
    with pytest.raises(ModelFileError, match=r"without config\.json"):
        look(tmp_path)


def test_whatever_is_cut_off_is_survived(small_model: bytes) -> None:
    for length in range(24, len(small_model), 7):
        found = drive(survey_gguf(MemorySource("cut.gguf", small_model[:length])))
        assert found.faults and found.version == 3


# folders


def test_a_sound_folder(tiny_folder: Callable[..., Path]) -> None:
    found = look(tiny_folder(shards=2))
    assert len(found.tensors) == 12 and found.kind == "safetensors" and not found.obstacles
    assert found.metadata["general.architecture"] == "llama" and len(found.sources) == 2


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"config": {"architectures": ["NovelForCausalLM"]}}, "'NovelForCausalLM'"),
        ({"config": {"quantization_config": {"quant_method": "odd"}}}, "'odd'"),
        ({"tensors": {"model.layers.0.novel.weight": np.ones(4, np.float32)}}, "'model.layers.0.novel.weight'"),
    ],
)
def test_a_folder_that_does_not_load_is_listed(
    tiny_folder: Callable[..., Path], changes: dict[str, Any], said: str
) -> None:
    path = tiny_folder(**changes)
    found = look(path)
    assert len(found.obstacles) == 1 and said in found.obstacles[0]
    assert len(found.unreadable) >= 12 and found.file_bytes == (path / "model.safetensors").stat().st_size
    assert found.sizes["F32"] > 40_000 and found.metadata["general.name"] == path.name


def test_a_shard_that_is_missing_or_damaged_is_named(tiny_folder: Callable[..., Path]) -> None:
    path = tiny_folder(shards=3)
    names = sorted(file.name for file in path.glob("*.safetensors"))
    (path / names[1]).unlink()
    (path / names[2]).write_bytes(b"\xff" * 20)
    found = look(path)
    assert len(found.unreadable) == 4
    assert names[1] in found.obstacles[0] and any(names[2] in obstacle for obstacle in found.obstacles[1:])


def test_a_config_that_is_odd(tiny_folder: Callable[..., Path]) -> None:
    path = tiny_folder()
    (path / "config.json").write_text(json.dumps({"architectures": [{"not": "text"}], "model_type": 5}))
    assert look(path).obstacles
    (path / "config.json").write_text("[]")
    with pytest.raises(ModelFileError, match="no JSON object"):
        look(path)
