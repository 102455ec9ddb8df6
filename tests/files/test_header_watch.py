from pathlib import Path
from typing import Any

import pytest

from wgpu_engine.errors import ModelFileError
from wgpu_engine.files.header_watch import HeaderWatch


def test_looks_as_soon_as_it_can(tmp_path: Path, draft: Any) -> None:
    """A header of 3 MiB in a file of 100 MiB: a fault is seen long before the end."""
    broken = draft(data=bytes(64)).put("long", "str", "x" * (3 << 20)).tensor("a", (0,)).build()
    content = broken + bytes(16 << 20)
    path = tmp_path / "m.part"
    watch = HeaderWatch(path, "m.gguf")
    with path.open("wb") as file, pytest.raises(ModelFileError, match=r"m\.gguf is damaged: .* impossible shape"):
        for start in range(0, len(content), 1 << 19):
            file.write(content[start : start + (1 << 19)])
            file.flush()
            watch.grown(file.tell(), 100 << 20)
    assert path.stat().st_size <= 8 << 20


def test_looks_again_when_the_file_starts_over(tmp_path: Path, small_model: bytes) -> None:
    path = tmp_path / "m.part"
    sound = small_model + bytes(2 << 20)
    path.write_bytes(sound)
    watch = HeaderWatch(path, "m.gguf")
    watch.grown(len(sound), len(sound))
    path.write_bytes(bytes(len(sound)))
    watch.grown(0, len(sound))
    with pytest.raises(ModelFileError, match="begins with zeros"):
        watch.grown(len(sound), len(sound))


def test_checks_the_whole_file(tmp_path: Path, small_model: bytes) -> None:
    path = tmp_path / "m.part"
    path.write_bytes(small_model)
    assert HeaderWatch(path, "m.gguf").check().metadata["general.architecture"] == "llama"
    path.write_bytes(small_model[:-1])
    with pytest.raises(ModelFileError, match="1 bytes are missing"):
        HeaderWatch(path, "m.gguf").check()
