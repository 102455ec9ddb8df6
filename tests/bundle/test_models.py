"""Which models go into a bundle, and what is said of those that can't."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wgpu_engine.bundle.models import choose
from wgpu_engine.errors import BundleError, EngineError, ModelFileError, ModelNotFoundError
from wgpu_engine.files.store import Store

Write = Callable[..., Path]


def test_a_file_of_ones_own(tiny_llama: Write, tmp_path: Path) -> None:
    path = tmp_path / "My Model (v2).gguf"
    shutil.copy(tiny_llama(metadata={"general.license": "mit"}), path)
    found = choose(str(path), Store())
    assert found.id == "my-model-v2"
    assert found.license is None or found.license == "mit"
    assert found.place(path) == "models/my-model-v2/My-Model-v2-.gguf"
    assert found.size == path.stat().st_size
    assert found.memory_bytes > 64 << 20


def test_all_parts_of_a_split_model(tiny_llama: Write) -> None:
    first = tiny_llama(tensors_per_part=8, name="In parts")
    parts = sorted(first.parent.glob(f"{first.name.removesuffix('-00001-of-00003.gguf')}-*.gguf"))
    assert len(parts) == 3
    for part in parts:
        found = choose(str(part), Store())
        assert found.paths == tuple(parts)
        assert (found.title, found.id) == ("In parts", first.name.removesuffix("-00001-of-00003.gguf"))
    parts[1].rename(parts[1].with_suffix(".away"))
    with pytest.raises(EngineError, match="is one of 3 parts: put"):
        choose(str(first), Store())


def test_titles_hold_no_control_characters(tiny_llama: Write, tmp_path: Path) -> None:
    named = tiny_llama(metadata={"general.name": "x"})
    data = named.read_bytes()
    path = tmp_path / "m.gguf"
    path.write_bytes(data)
    assert choose(str(path), Store()).title.isprintable()


def test_a_model_that_is_nowhere(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match="there is no file"):
        choose(str(tmp_path / "none.gguf"), Store(tmp_path))
    with pytest.raises(ModelNotFoundError, match="hasn't been pulled yet"):
        choose("smollm2", Store(tmp_path))


def test_what_is_no_gguf_file(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"PK\x03\x04" + bytes(100))
    with pytest.raises(EngineError):
        choose(str(tmp_path / "m.gguf"), Store())


def test_a_truncated_file(tiny_llama: Write, tmp_path: Path) -> None:
    data = tiny_llama().read_bytes()
    (tmp_path / "m.gguf").write_bytes(data[: len(data) - 1000])
    with pytest.raises(BundleError, match=r"m\.gguf can't go into a bundle: .*"):
        choose(str(tmp_path / "m.gguf"), Store())


def test_an_architecture_that_nobody_knows(tiny_llama: Write) -> None:
    path = tiny_llama(architecture="martian")
    with pytest.raises(BundleError, match=r"can't go into a bundle: .*martian"):
        choose(str(path), Store())


def test_a_folder_is_to_be_quantized_first(tiny_folder: Any) -> None:
    with pytest.raises(ModelFileError, match="is a folder, and browsers load GGUF files: write one with `wgpu-engine"):
        choose(str(tiny_folder()), Store())


def test_a_file_of_a_folder_is_to_be_quantized_with_it(tiny_folder: Any) -> None:
    path = next(tiny_folder().glob("*.safetensors"))
    with pytest.raises(ModelFileError, match="browsers load GGUF files: write one from its folder with") as refusal:
        choose(str(path), Store())
    assert f"quantize {path.parent} model.gguf Q8_0`" in str(refusal.value)


@pytest.mark.model
@pytest.mark.parametrize("by_name", [True, False])
def test_the_default_model_goes_in(smollm2: Path, by_name: bool) -> None:
    found = choose("smollm2" if by_name else str(smollm2), Store())
    assert (found.id, found.title, found.license) == ("smollm2", "SmolLM2 135M Instruct", "Apache-2.0")
    assert 150_000_000 < found.memory_bytes < 400_000_000
    assert found.paths == (smollm2,)


@pytest.mark.model
def test_a_model_of_embeddings_is_refused(minilm: Path) -> None:
    with pytest.raises(BundleError, match="makes embeddings, and the page is for chatting"):
        choose(str(minilm), Store())
