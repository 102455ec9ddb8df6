"""`wgpu-engine info`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGUFWriter
from typer.testing import Result

from tests.models.hf_models import config_of, write_folder
from wgpu_engine.errors import NoAdapterError
from wgpu_engine.gpu.device import AdapterInfo

Cli = Callable[..., Result]


def _write(path: Path, architecture: str) -> Path:
    """A file of one layer, with a name that tries to be more than a name."""
    writer = GGUFWriter(path, architecture)
    writer.add_name("Tiny\x1b[2J [red]")
    writer.add_context_length(512)
    writer.add_block_count(1)
    writer.add_embedding_length(32)
    writer.add_feed_forward_length(64)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_array("general.license", ["not", "text"])
    shapes = {"token_embd": (4, 32), "output_norm": (32,), "blk.0.attn_norm": (32,), "blk.0.ffn_norm": (32,)}
    shapes |= {f"blk.0.attn_{name}": (rows, 32) for name, rows in (("q", 32), ("k", 16), ("v", 16), ("output", 32))}
    shapes |= {"blk.0.ffn_gate": (64, 32), "blk.0.ffn_up": (64, 32), "blk.0.ffn_down": (32, 64)}
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", np.ones(shape, np.float32 if len(shape) == 1 else np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return _write(tmp_path / "tiny.gguf", "llama")


@pytest.fixture
def adapter(monkeypatch: pytest.MonkeyPatch) -> None:
    """An adapter that tells how much memory it has."""
    gpu = AdapterInfo(0, "Blue GPU", "integrated", "Vulkan", "blue 1.2")

    def choose(selector: str | None) -> tuple[AdapterInfo, None]:
        if selector not in (None, "0"):
            raise NoAdapterError("no adapter fits: choose another")
        return gpu, None

    monkeypatch.setattr("wgpu_engine.gpu.adapters.choose_adapter", choose)
    monkeypatch.setattr("wgpu_engine.engine.memory.memory_budget", lambda adapter: 1 << 30)


@pytest.mark.usefixtures("adapter")
def test_json(cli: Cli, model: Path) -> None:
    report = json.loads(cli("info", str(model), "--json").stdout)
    assert report["path"] == str(model) and report["architecture"] == "llama" and report["context"] == 512
    assert report["license"] is None and report["file_bytes"] == model.stat().st_size
    matrices, vectors = 4 * 32 + 32 * (32 + 16 + 16 + 32) + 3 * 64 * 32, 3 * 32
    assert report["parameters"] == matrices + vectors
    assert report["tensors"] == {
        "F16": {"count": 8, "bytes": 2 * matrices},
        "F32": {"count": 3, "bytes": 4 * vectors},
    }
    assert report["supported"] is True and report["obstacles"] == [] and report["memory"]["adapter"] == "Blue GPU"
    assert report["memory"]["ctx_size"] == 512 and report["memory"]["weights"] == 2 * matrices + 4 * vectors
    assert report["memory"]["kv"] == 512 * 2 * 16 * 2, "positions, K and V, one head of 16, f16"
    assert report["memory"]["available"] == 1 << 30 and report["memory"]["fits"] is True


@pytest.mark.usefixtures("adapter")
def test_options_change_what_it_takes(cli: Cli, model: Path) -> None:
    arguments = ("--json", "--ctx-size", "128", "--kv-type", "f32", "--memory-budget", "1M")
    memory = json.loads(cli("info", str(model), *arguments).stdout)["memory"]
    assert memory["kv"] == 128 * 2 * 16 * 4 and memory["available"] == 1 << 20 and memory["fits"] is False
    result = cli("info", str(model), "--memory-budget", "1M")
    assert result.exit_code == 2 and "does NOT fit Blue GPU: 1.0 MiB are free" in result.stdout
    assert "It does not run:\n- the model takes 64 MiB" in result.stdout


@pytest.mark.usefixtures("adapter")
def test_a_device_that_is_not_there(cli: Cli, model: Path) -> None:
    result = cli("info", str(model), "--device", "7")
    assert (result.exit_code, result.stderr) == (2, "error: no adapter fits: choose another\n")


def test_without_an_adapter_the_rest_is_told(cli: Cli, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def choose(selector: str | None) -> None:
        raise NoAdapterError("there is none")

    monkeypatch.setattr("wgpu_engine.gpu.adapters.choose_adapter", choose)
    memory = json.loads(cli("info", str(model), "--json").stdout)["memory"]
    assert memory["adapter"] is None and memory["available"] is None and memory["fits"] is None
    assert "no adapter to run it on" in cli("info", str(model)).stdout


@pytest.mark.usefixtures("adapter")
def test_people_get_tables_and_no_control_characters(cli: Cli, model: Path) -> None:
    result = cli("info", str(model))
    assert result.exit_code == 0 and "Tiny[2J [red]" in result.stdout and "\x1b" not in result.stdout
    assert "384 B" in result.stdout and "18.2 KiB" in result.stdout and "It fits Blue GPU" in result.stdout
    assert result.stdout.endswith("It runs.\n")


def test_shows_what_it_can_of_a_model_that_does_not_run(cli: Cli, tmp_path: Path) -> None:
    path = _write(tmp_path / "other.gguf", "novel")
    report = json.loads(cli("info", str(path), "--json").stdout)
    assert report["supported"] is False and report["memory"] is None
    assert len(report["obstacles"]) == 1 and "'novel' is not supported" in report["obstacles"][0]
    assert report["tensors"]["F32"]["count"] == 3
    result = cli("info", str(path))
    assert result.exit_code == 2 and "It does not run:\n- the architecture 'novel'" in result.stdout


@pytest.mark.usefixtures("adapter")
def test_a_folder(cli: Cli, tiny_folder: Callable[..., Path]) -> None:
    path = tiny_folder(dtype="BF16")
    report = json.loads(cli("info", str(path), "--json").stdout)
    assert report["supported"] is True and report["memory"]["fits"] is True
    assert (report["path"], report["name"], report["architecture"]) == (str(path), path.name, "llama")
    assert (report["context"], report["tensors"]["BF16"]["count"], report["tensors"]["F32"]["count"]) == (512, 9, 3)
    assert report["file_bytes"] > sum(each["bytes"] for each in report["tensors"].values())
    result = cli("info", str(path.parent))
    assert result.exit_code == 2 and "folder without config.json" in result.stderr


MODEL: dict[str, Any] = {"types": {"ffn": "Q4_0"}, "vocabulary": "gpt2"}


@pytest.mark.usefixtures("adapter")
def test_tokenizer_and_template_are_told(cli: Cli, tiny_llama: Callable[..., Path]) -> None:
    tools = "{% if tools %}{{ tools }}{% endif %}{{ messages }}"
    report = json.loads(cli("info", str(tiny_llama(**MODEL, chat_template=tools)), "--json").stdout)
    assert report["tokenizer"] == {"kind": "byte-level BPE", "pre": "gpt-2", "tokens": 266}
    assert report["chat_template"] == {"origin": "file", "tools": True}
    assert report["dispatches_per_token"] > 10 and report["unused_tensors"] == []
    result = cli("info", str(tiny_llama(**MODEL)))
    assert "byte-level BPE (gpt-2), 266 tokens" in result.stdout
    assert "the file's own, without tools" in result.stdout


@pytest.mark.usefixtures("adapter")
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"chat_template": "{% if %}"}, "the chat template is wrong on line 1"),
        ({"pre": "brand-new-bpe"}, "pre-tokenizer 'brand-new-bpe' is not known"),
        ({"tensors": {"blk.1.ffn_up.weight": None}}, "the tensor blk.1.ffn_up.weight is missing"),
        ({"metadata": {"rope.scaling.type": "spiral"}}, "RoPE scaling 'spiral'"),
    ],
)
def test_what_stands_in_the_way_is_named(
    cli: Cli, tiny_llama: Callable[..., Path], changes: dict[str, Any], said: str
) -> None:
    path = tiny_llama(**MODEL, **changes)
    report = json.loads(cli("info", str(path), "--json").stdout)
    assert len(report["obstacles"]) == 1 and said in report["obstacles"][0]
    assert report["memory"] is not None and report["tensors"]["Q4_0"]["count"] >= 5
    result = cli("info", str(path))
    assert result.exit_code == 2 and said in result.stdout and result.stderr == ""


@pytest.mark.usefixtures("adapter")
@pytest.mark.parametrize(
    ("kind", "said"), [("model", "holds a vocabulary without weights, and no model"), ("adapter", "an adapter (LoRA)")]
)
def test_what_is_no_model_is_called_by_its_name(cli: Cli, tmp_path: Path, kind: str, said: str) -> None:
    writer = GGUFWriter(tmp_path / "part.gguf", "llama")
    writer.add_token_list(["a", "b"])
    writer.add_type(kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    result = cli("info", str(tmp_path / "part.gguf"))
    assert result.exit_code == 2 and said in result.stdout and "incomplete" not in result.stdout


@pytest.mark.usefixtures("adapter")
def test_quantizing_nothing_is_said(cli: Cli, model: Path) -> None:
    said = "no weight became F16: all have that type"
    assert said in cli("info", str(model), "--quantize", "F16").stdout
    result = cli("info", str(model), "--quantize", "Q8_0")
    assert "no weight became" not in result.stdout and "Q8_0" in result.stdout
    mixture = cli("info", str(model), "--quantize", "q4_k_m")
    assert mixture.exit_code == 2 and "'q4_k_m' is no type to quantize to: choose Q4_K, or one of" in mixture.stderr


@pytest.mark.usefixtures("adapter")
def test_an_encoder(cli: Cli, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "folder", config_of("BertModel"))
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 40}')
    path = str(folder)
    result = cli("info", path)
    assert result.exit_code == 0 and "texts of up to 40 tokens" in result.stdout
    assert "KV cache" not in result.stdout and "chat template" not in result.stdout
    refused = cli("info", path, "--ctx-size", "64")
    assert refused.exit_code == 2 and "F32" in refused.stdout and "has no context: drop --ctx-size" in refused.stdout


@pytest.mark.usefixtures("adapter")
def test_more_positions_than_there_are_embeddings_of(cli: Cli, tmp_path: Path) -> None:
    path = str(write_folder(tmp_path / "folder", config_of("GPT2LMHeadModel")))
    result = cli("info", path, "--ctx-size", "100000")
    assert result.exit_code == 2 and "give a --ctx-size of at most" in result.stdout and "tensors" in result.stdout
    assert cli("info", path).exit_code == 0


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
