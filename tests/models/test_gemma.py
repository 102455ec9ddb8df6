"""The Gemma family: what a step costs, both precisions, files that lack something. Logits are compared elsewhere."""

from pathlib import Path

import gguf
import numpy as np
import pytest

from tests.models.gguf_conversion import convert
from tests.models.hf_models import config_of, write_folder
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
    path = requantized(convert(write_folder(tmp_path / "folder", config), tmp_path / "floats.gguf"))
    found = []
    for precision in ("exact", "fast"):
        with LLM(path, precision=precision, kv_type="f32", ctx_size=64) as llm:
            found.append(llm.logits(IDS))
    exact, fast = (np.asarray(each, np.float64) for each in found)
    cosines = (exact * fast).sum(axis=1) / np.linalg.norm(exact, axis=1) / np.linalg.norm(fast, axis=1)
    assert cosines.min() >= 0.99 and not np.array_equal(exact, fast)


def requantized(path: Path) -> Path:
    """The same file with its matrices in Q8_0."""
    reader = gguf.GGUFReader(path)
    architecture = reader.fields["general.architecture"].contents()
    writer = gguf.GGUFWriter(path.with_name("q8.gguf"), architecture)
    for key, field in reader.fields.items():
        if not key.startswith("GGUF.") and key != "general.architecture":
            sub_type = field.types[1] if len(field.types) > 1 else None
            writer.add_key_value(key, field.contents(), field.types[0], sub_type)
    for tensor in reader.tensors:
        values = np.asarray(tensor.data)
        if values.ndim == 2:
            data = gguf.quants.quantize(values, gguf.GGMLQuantizationType.Q8_0)
            writer.add_tensor(tensor.name, data, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
        else:
            writer.add_tensor(tensor.name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path.with_name("q8.gguf")


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
