"""The GPT family: what the architectures' comparison with references doesn't show."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.models.gguf_conversion import convert
from tests.models.hf_models import config_of, write_folder
from wgpu_engine import LLM
from wgpu_engine.errors import ModelFileError, RequestError, UnsupportedModelError

CLASSES = ("GPT2LMHeadModel", "GPTNeoXForCausalLM", "PhiForCausalLM")


def folder(tmp_path: Path, architecture: str, **changes: Any) -> Path:
    return write_folder(tmp_path / "folder", config_of(architecture, **changes))


@pytest.mark.parametrize(
    ("architecture", "changes", "most"),
    [
        ("GPT2LMHeadModel", {}, 8),
        ("GPTNeoXForCausalLM", {}, 8),
        ("GPTNeoXForCausalLM", {"use_parallel_residual": False}, 8),
        ("PhiForCausalLM", {}, 7),
    ],
)
def test_dispatches_of_a_layer(architecture: str, changes: dict[str, Any], most: int, tmp_path: Path) -> None:
    layers = "n_layer" if architecture.startswith("GPT2") else "num_hidden_layers"
    counts = []
    for number in (1, 3):
        path = write_folder(tmp_path / str(number), config_of(architecture, **changes, **{layers: number}))
        with LLM(path, ctx_size=64) as llm:
            counts.append(llm.statistics().dispatches_per_token)
    assert (counts[1] - counts[0]) / 2 <= most


def test_no_more_positions_than_there_are_embeddings(tmp_path: Path) -> None:
    path = folder(tmp_path, "GPT2LMHeadModel")
    with LLM(path) as llm:
        assert llm.ctx_size == 128
        assert len(llm.generate([1] * 120, max_tokens=20, temperature=0, ignore_eos=True).tokens) == 8
    with pytest.raises(RequestError, match="at most 128"):
        LLM(path, ctx_size=129)


@pytest.mark.parametrize("architecture", CLASSES)
def test_the_same_from_either_kind_of_file(architecture: str, tmp_path: Path) -> None:
    path = folder(tmp_path, architecture, vocab_size=503)
    found = []
    for each in (path, convert(path, tmp_path / "model.gguf")):
        with LLM(each, ctx_size=64) as llm:
            found.append(llm.generate([5, 6, 7], max_tokens=20, temperature=0, ignore_eos=True).tokens)
    assert found[0] == found[1]


def test_names_without_a_prefix_and_masks(tmp_path: Path) -> None:
    """As the first files of GPT-2 have them."""
    path = folder(tmp_path, "GPT2LMHeadModel")
    with LLM(path, ctx_size=64) as llm:
        wanted = llm.generate([5, 6, 7], max_tokens=5, temperature=0, ignore_eos=True).tokens
    file = path / "model.safetensors"
    data = file.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = data[8 : 8 + size].replace(b"transformer.", b"")
    header = header[:-1] + b', "h.0.attn.bias": {"dtype": "U8", "shape": [1, 1, 4, 4], "data_offsets": [%d, %d]}}' % (
        len(data) - 8 - size,
        len(data) + 8 - size,
    )
    file.write_bytes(len(header).to_bytes(8, "little") + header + data[8 + size :] + bytes(16))
    with LLM(path, ctx_size=64) as llm:
        assert llm.generate([5, 6, 7], max_tokens=5, temperature=0, ignore_eos=True).tokens == wanted


@pytest.mark.parametrize(
    ("architecture", "changes", "error", "match"),
    [
        ("GPT2LMHeadModel", {"activation_function": "mish"}, UnsupportedModelError, "the activation 'mish'"),
        ("GPT2LMHeadModel", {"n_head": 5}, ModelFileError, "5 heads"),
        ("GPTNeoXForCausalLM", {"num_attention_heads": 3}, ModelFileError, "3 heads"),
        ("GPTNeoXForCausalLM", {"rotary_pct": 0.1}, ModelFileError, "1 of them rotated"),
        ("PhiForCausalLM", {"num_key_value_heads": 3}, ModelFileError, "3 key heads"),
        ("GPT2LMHeadModel", {"n_layer": 1 << 20}, ModelFileError, "n_layer"),
    ],
)
def test_refusals(
    architecture: str, changes: dict[str, Any], error: type[Exception], match: str, tmp_path: Path
) -> None:
    path = folder(tmp_path, architecture)
    config = path / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | changes))
    with pytest.raises(error, match=match):
        LLM(path)
