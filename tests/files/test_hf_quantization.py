"""Quantized folders: what their weights become, read in any pieces."""

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.files.quantized_folder import FORMATS, Format, safetensors
from tests.files.quantized_llama import BY_NAME, WIDTH, Q, changed, data_of, write
from tests.ops.own_types import own_values
from wgpu_engine.errors import ModelFileError
from wgpu_engine.files.gguf import TensorInfo
from wgpu_engine.files.opening import open_any
from wgpu_engine.files.survey import survey
from wgpu_engine.platform.drive import drive


def values_of(tensor: TensorInfo) -> np.ndarray[Any, Any]:
    raw = np.frombuffer(data_of(tensor), np.uint8).reshape(tensor.rows, -1)
    if tensor.type.ggml_id is None:
        return own_values(tensor.type, raw)[:, : tensor.columns]
    return raw.view({"F32": "<f4", "F16": "<f2"}[tensor.type.name]).astype(np.float32)


@pytest.mark.parametrize("how", FORMATS, ids=str)
def test_weights_mean_what_they_should(how: Format, tmp_path: Path, rng: np.random.Generator) -> None:
    folder = write(tmp_path, how, rng)
    with drive(open_any(folder.path)) as model:
        places = {"q_proj": "blk.0.attn_q", "o_proj": "blk.0.attn_output", "k_proj": "blk.0.attn_k"}
        places |= {"up_proj": "blk.0.ffn_up", "down_proj": "blk.0.ffn_down"}
        types = set()
        for part, name in places.items():
            (wanted,) = (values for stem, values in folder.values.items() if part in stem)
            tensor = model.tensors[f"{name}.weight"]
            types.add(tensor.type.name)
            assert tensor.shape == wanted.shape
            assert np.array_equal(values_of(tensor), wanted.astype(np.float32)), name
        assert types == how.types
        for name in ("token_embd", "output", "output_norm", "blk.0.attn_norm"):
            assert model.tensors[f"{name}.weight"].type.name == "F32"
        assert len(model.tensors) == 12
        assert len(model.notes) == (how.types == {"F16"})
    with drive(survey(folder.path)) as found:
        assert found.notes == model.notes
        assert {tensor.type.name for tensor in found.tensors.values()} == {"F32", *how.types}


@pytest.mark.parametrize("how", FORMATS, ids=str)
def test_any_piece_is_part_of_the_whole(
    how: Format, tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wgpu_engine.files.packed_rows._BATCH", int(rng.integers(1, 20 * WIDTH)))
    with drive(open_any(write(tmp_path, how, rng).path)) as model:
        tensor = model.tensors["blk.0.ffn_down.weight"]
        whole, size = data_of(tensor), tensor.source.size
        assert (tensor.offset, size) == (0, len(whole)), "no more than the weight"
        for _ in range(20):
            start, end = sorted(map(int, rng.integers(0, size + 1, 2)))
            assert bytes(drive(tensor.source.read(start, end - start))) == whole[start:end]
        for start, length in ((-1, 2), (0, size + 1), (size, 1), (0, -1)):
            with pytest.raises(ModelFileError, match="download the model again"):
                drive(tensor.source.read(start, length))
    with pytest.raises(ModelFileError, match="open it again"):
        data_of(tensor)


def test_what_is_not_needed(tmp_path: Path) -> None:
    def change(tensors: dict[str, Any], settings: dict[str, Any]) -> None:
        one = ("F32", np.ones(1, np.float32))
        for name in ("self_attn.k_scale", "self_attn.v_scale", "self_attn.k_proj.output_scale"):
            tensors[f"model.layers.0.{name}"] = one

    with drive(open_any(changed(tmp_path, "compressed FP8", change))) as model:
        assert len(model.tensors) == 12


def test_an_order_that_is_none(tmp_path: Path) -> None:
    def change(tensors: dict[str, Any], settings: dict[str, Any]) -> None:
        tensors[f"{Q}weight_g_idx"] = ("I32", np.full(WIDTH, -1, np.int32))

    with drive(open_any(changed(tmp_path, "W4A16", change))) as model:
        assert model.tensors["blk.0.attn_q.weight"].type.name == "INT4_G128"


def test_biases_and_modules_that_are_left_out(tmp_path: Path) -> None:
    def change(tensors: dict[str, Any], settings: dict[str, Any]) -> None:
        for part in ("qweight", "qzeros", "scales", "g_idx"):
            del tensors[Q + part]
        tensors[f"{Q}weight"] = ("BF16", np.ones((WIDTH, WIDTH), np.float32))
        tensors["model.layers.0.self_attn.k_proj.bias"] = ("F16", np.ones(32, np.float16))

    with drive(open_any(changed(tmp_path, "GPTQ", change))) as model:
        assert model.tensors["blk.0.attn_q.weight"].type.name == "BF16"
        assert model.tensors["blk.0.attn_k.weight"].type.name == "INT4_G128"
        assert model.tensors["blk.0.attn_k.bias"].type.name == "F16"


def test_memory_stays_small(tmp_path: Path) -> None:
    """Reading a piece of a large weight takes what the piece needs."""
    rows, columns = 4096, 2048
    how = BY_NAME["GPTQ"]
    folder = write(tmp_path, how, np.random.default_rng(1))
    parts = {
        "qweight": ("I32", np.zeros((columns // 8, rows), np.int32)),
        "qzeros": ("I32", np.zeros((columns // 128, rows // 8), np.int32)),
        "scales": ("F16", np.ones((columns // 128, rows), np.float16)),
        "g_idx": ("I32", (np.arange(columns) // 128).astype(np.int32)),
    }
    (folder.path / "model.safetensors").write_bytes(
        safetensors(folder.stored | {f"model.layers.0.mlp.up_proj.{part}": each for part, each in parts.items()})
    )
    with drive(open_any(folder.path)) as model:
        tensor = model.tensors["blk.0.ffn_up.weight"]
        assert tensor.nbytes > 4 << 20
        data_of(model.tensors["blk.0.attn_q.weight"])
        tracemalloc.start()
        drive(tensor.source.read(1 << 20, 1 << 18))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 6 << 20
