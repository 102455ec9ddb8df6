"""`wgpu-engine info`."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFWriter
from typer.testing import Result

Cli = Callable[..., Result]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A file with two tensors and a name that tries to be more than a name."""
    path = tmp_path / "tiny.gguf"
    writer = GGUFWriter(path, "llama")
    writer.add_name("Tiny\x1b[2J [red]")
    writer.add_context_length(512)
    writer.add_array("general.license", ["not", "text"])
    writer.add_tensor("a", np.zeros((4, 32), np.float32))
    writer.add_tensor("b", np.zeros((2, 32), np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_json(cli: Cli, model: Path) -> None:
    report = json.loads(cli("info", str(model), "--json").stdout)
    assert report["path"] == str(model) and report["architecture"] == "llama" and report["context"] == 512
    assert report["license"] is None and report["file_bytes"] == model.stat().st_size
    assert report["tensors"] == {"F32": {"count": 1, "bytes": 512}, "F16": {"count": 1, "bytes": 128}}


def test_people_get_tables_and_no_control_characters(cli: Cli, model: Path) -> None:
    result = cli("info", str(model))
    assert result.exit_code == 0 and "Tiny[2J [red]" in result.stdout and "\x1b" not in result.stdout
    assert "512 B" in result.stdout and "128 B" in result.stdout


@pytest.mark.parametrize("arguments", [["--json"], []])
def test_refuses_what_is_no_model(cli: Cli, tmp_path: Path, arguments: list[str]) -> None:
    path = tmp_path / "page.gguf"
    path.write_text("<!doctype html><title>404</title>")
    result = cli("info", str(path), *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ") and result.stderr.count("\n") == 1


def test_an_unknown_name_says_what_there_is(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WGPU_ENGINE_HOME", str(tmp_path))
    result = cli("info", "smolm2")
    assert result.exit_code == 2 and "did you mean smollm2" in result.stderr
