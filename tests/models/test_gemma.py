"""The Gemma family: what a step costs, both precisions, files that lack something. Logits are compared elsewhere."""

from pathlib import Path

import pytest

from tests.models.gguf_conversion import convert
from tests.models.hf_models import config_of, write_folder
from tests.models.likeness import both_precisions, cosines
from wgpu_engine import LLM
from wgpu_engine.errors import ModelFileError, UnsupportedModelError

NAMES = ("Gemma2ForCausalLM", "Gemma3ForCausalLM", "Olmo2ForCausalLM")
IDS = [(7 + 31 * i) % 500 for i in range(41)]


@pytest.mark.parametrize("name", NAMES)
def test_dispatches_of_a_layer(name: str, tmp_path: Path) -> None:
    counts = []
    for layers in (2, 4):
        config = config_of(name, num_hidden_layers=layers, layer_types=None)
        with LLM(write_folder(tmp_path / str(layers), config), ctx_size=64) as llm:
            counts.append(llm.statistics().dispatches_per_token)
    assert (counts[1] - counts[0]) / 2 <= 8


@pytest.mark.parametrize("name", NAMES)
def test_fast_is_near_exact(name: str, tmp_path: Path) -> None:
    """With the weights quantized, so that activations are as well."""
    config = config_of(name, hidden_size=128, intermediate_size=256, head_dim=32, layer_types=None)
    path = convert(write_folder(tmp_path / "folder", config), tmp_path / "model.gguf", "Q8_0")
    assert cosines(*both_precisions(path, IDS, kv_type="f32")).min() >= 0.99


@pytest.mark.parametrize(
    ("name", "tensor"),
    [
        ("Gemma2ForCausalLM", "input_layernorm"),
        ("Gemma2ForCausalLM", "post_feedforward_layernorm"),
        ("Gemma3ForCausalLM", "self_attn.k_norm"),
        ("Olmo2ForCausalLM", "self_attn.q_norm"),
    ],
)
def test_a_missing_norm_is_noticed(name: str, tensor: str, tmp_path: Path) -> None:
    folder = write_folder(tmp_path, config_of(name))
    without(folder / "model.safetensors", tensor)
    with pytest.raises(ModelFileError, match="is missing"):
        LLM(folder, ctx_size=64)


def without(path: Path, part: str) -> None:
    """Renames tensors with this in their name to what nothing needs."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    spare = b"self_attn.rotary_emb.inv_freq"
    header = data[8 : 8 + size].replace(f"{part}.weight".encode(), spare)
    path.write_bytes(len(header).to_bytes(8, "little") + header + data[8 + size :])


def test_keys_whose_squares_cannot_be_summed(tmp_path: Path) -> None:
    config = config_of("Olmo2ForCausalLM", head_dim=8, num_key_value_heads=2)
    with pytest.raises(UnsupportedModelError, match="multiple of 32"):
        LLM(write_folder(tmp_path, config), ctx_size=64)
