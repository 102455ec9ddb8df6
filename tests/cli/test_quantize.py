"""`wgpu-engine quantize`, and what its option does for other commands."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from wgpu_engine.files.model_file import open_model
from wgpu_engine.platform.drive import drive

Cli = Callable[..., Result]


def types(path: Path) -> set[str]:
    with drive(open_model(path)) as file:
        return {tensor.type.name for tensor in file.tensors.values()}


def test_writes_a_file(cli: Cli, tiny_llama: Callable[..., Path], tmp_path: Path) -> None:
    out = tmp_path / "out.gguf"
    result = cli("quantize", str(tiny_llama()), str(out), "q8_0")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith(f"{out} has ") and result.stderr.endswith(" bits a weight\n")
    assert types(out) == {"Q8_0", "F32"}


def test_says_which_tensors_get_another_type(cli: Cli, tiny_llama: Callable[..., Path], tmp_path: Path) -> None:
    result = cli("quantize", str(tiny_llama()), str(tmp_path / "out.gguf"), "Q2_K")
    assert "token_embd.weight and 1 more became Q8_0, since rows of 64 are not whole blocks of Q6_K" in result.stderr
    assert "blk.0.attn_q.weight and 13 more became Q4_0" in result.stderr
    pure = cli("quantize", str(tiny_llama()), str(tmp_path / "pure.gguf"), "Q2_K", "--pure")
    assert "Q8_0" not in pure.stderr


def test_warns_of_weights_that_lose_twice(cli: Cli, tiny_llama: Callable[..., Path], tmp_path: Path) -> None:
    result = cli("quantize", str(tiny_llama(types={"": "Q8_0"})), str(tmp_path / "out.gguf"), "Q4_0")
    assert result.exit_code == 0
    assert result.stderr.startswith("warning: 16 tensors of ") and "lose a second time" in result.stderr


def test_a_folder(cli: Cli, tiny_folder: Callable[..., Path], tmp_path: Path) -> None:
    assert cli("quantize", str(tiny_folder()), str(tmp_path / "out.gguf"), "Q4_0").exit_code == 0
    assert types(tmp_path / "out.gguf") == {"Q4_0", "F32"}


def test_an_existing_file(cli: Cli, tiny_llama: Callable[..., Path], tmp_path: Path) -> None:
    out = tmp_path / "out.gguf"
    out.write_bytes(b"precious")
    result = cli("quantize", str(tiny_llama()), str(out), "Q8_0")
    assert result.exit_code == 2 and result.stderr.count("\n") == 1 and "--force" in result.stderr
    assert out.read_bytes() == b"precious"
    assert cli("quantize", str(tiny_llama()), str(out), "Q8_0", "--force").exit_code == 0
    assert types(out) == {"Q8_0", "F32"}


@pytest.mark.parametrize(
    ("kind", "like"),
    [("Q4_K_M", "Q4_K, or one"), ("q5_k_s", "Q5_K, or one"), ("IQ2_XXS", "one"), ("8", "one"), ("", "one")],
)
def test_an_unknown_type_says_which_there_are(cli: Cli, tmp_path: Path, kind: str, like: str) -> None:
    result = cli("quantize", "smollm2", str(tmp_path / "out.gguf"), kind)
    assert result.exit_code == 2
    assert f"is no type to quantize to: choose {like} of F32, F16, BF16, Q4_0" in result.stderr
    assert result.stderr.count("\n") == 1


def test_an_architecture_that_does_not_run_here(cli: Cli, tiny_llama: Callable[..., Path], tmp_path: Path) -> None:
    """Others may run the file."""
    result = cli("quantize", str(tiny_llama(architecture="novel")), str(tmp_path / "out.gguf"), "Q8_0")
    assert result.exit_code == 0 and types(tmp_path / "out.gguf") == {"Q8_0", "F32"}
    assert result.stderr.startswith("warning: what is written will not run here: the architecture 'novel' is not")


def test_nothing_to_do_is_said(cli: Cli, tiny_llama: Callable[..., Path], tmp_path: Path) -> None:
    result = cli("quantize", str(tiny_llama(types={"": "Q8_0"})), str(tmp_path / "out.gguf"), "Q8_0")
    assert result.exit_code == 0 and "no weight became Q8_0" in result.stderr


def test_refuses_what_is_no_model(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "page.gguf").write_text("<!doctype html>")
    result = cli("quantize", str(tmp_path / "page.gguf"), str(tmp_path / "out.gguf"), "Q8_0")
    assert result.exit_code == 2 and result.stderr.startswith("error: ") and not (tmp_path / "out.gguf").exists()


def test_info_shows_what_it_would_take(cli: Cli, tiny_llama: Callable[..., Path]) -> None:
    report = json.loads(cli("info", str(tiny_llama()), "--json", "--quantize", "Q8_0").stdout)
    assert report["tensors"]["Q8_0"]["count"] == 16
    assert report["memory"]["weights"] == sum(each["bytes"] for each in report["tensors"].values())
    assert cli("info", str(tiny_llama()), "--quantize", "Q9").exit_code == 2


def test_a_file_without_weights(cli: Cli, tiny_llama: Callable[..., Path], tmp_path: Path) -> None:
    """A vocabulary alone, for one; nothing is left behind."""
    import gguf

    source, out = tmp_path / "vocabulary.gguf", tmp_path / "out.gguf"
    writer = gguf.GGUFWriter(source, "llama")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    result = cli("quantize", str(source), str(out), "Q4_K")
    assert result.exit_code == 2 and "has no weights to quantize" in result.stderr
    assert not out.exists()
    assert cli("quantize", str(tiny_llama()), "-", "Q4_0").exit_code == 2
