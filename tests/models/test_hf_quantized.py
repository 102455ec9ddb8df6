"""Quantized folders as the hub has them, beside a forward pass in float64 on what their weights mean."""

from pathlib import Path

import numpy as np
import pytest

from tests.files.quantized_folder import FORMATS, Format, quantized_folder
from tests.models.hf_models import config_of, write_folder
from tests.models.hf_reference import Checkpoint, read_folder, run
from wgpu_engine import LLM
from wgpu_engine.ops.state import Row
from wgpu_engine.platform.drive import drive

IDS = [(7 + 31 * i) % 500 for i in range(19)]
SIZES = {
    "hidden_size": 192,
    "intermediate_size": 320,
    "num_attention_heads": 6,
    "vocab_size": 512,
    "moe_intermediate_size": 96,
}
"""rows that end within a block of 128, heads of 32"""
ARCHITECTURES = [
    ("BitNetForCausalLM", "ternary"),
    ("Phi3ForCausalLM", "AWQ"),
    ("Qwen3ForCausalLM", "FP8 in tiles"),
    ("Qwen2ForCausalLM", "GPTQ"),
    ("SmolLM3ForCausalLM", "W4A16"),
    ("Qwen3MoeForCausalLM", "FP8 in tiles"),
    ("Qwen3MoeForCausalLM", "GPTQ 64"),
    ("Qwen3MoeForCausalLM", "act-order"),
    ("Gemma3ForCausalLM", "W8A8"),
]
BY_NAME = {each.name: each for each in FORMATS}


def check(folder: Path, architecture: str, how: Format, rng: np.random.Generator, *also: str) -> list[str]:
    """The engine's logits are those of the reference; returns the warnings."""
    plain = read_folder(write_folder(folder / "plain", config_of(architecture, **SIZES)))
    made = quantized_folder(folder / "quantized", plain.config, plain.tensors, how, rng, also)
    wanted = run(Checkpoint(plain.config, made.values), IDS)
    with LLM(made.path, precision="exact", kv_type="f32", ctx_size=64) as llm:
        engine = llm._engine
        engine.reserve(0, len(IDS))
        rows = [Row(token, position, 0) for position, token in enumerate(IDS)]
        found = np.frombuffer(b"".join(drive(engine.logits(rows, len(IDS)))), np.float32).reshape(len(IDS), -1)
        warnings = llm.warnings
    assert np.abs(found - wanted).max() < 1e-4
    # quantizing changed something, but not all
    off = np.abs(wanted - run(plain, IDS)).max()
    assert 1e-3 < off < (8 if how.types == {"TERNARY"} else 4)
    return warnings


@pytest.mark.parametrize("how", FORMATS, ids=str)
def test_logits(how: Format, tmp_path: Path, rng: np.random.Generator) -> None:
    warnings = check(tmp_path, "LlamaForCausalLM", how, rng)
    if how.types == {"F16"}:
        (warning,) = warnings
        assert "q_proj.weight and 13 other tensors became F16" in warning
    else:
        assert not warnings


@pytest.mark.parametrize(("architecture", "name"), ARCHITECTURES)
def test_architectures(architecture: str, name: str, tmp_path: Path, rng: np.random.Generator) -> None:
    check(tmp_path, architecture, BY_NAME[name], rng)


@pytest.mark.parametrize("name", ["GPTQ", "FP8 with a scale"])
def test_a_quantized_head(name: str, tmp_path: Path, rng: np.random.Generator) -> None:
    check(tmp_path, "LlamaForCausalLM", BY_NAME[name], rng, "lm_head")
