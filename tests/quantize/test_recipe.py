"""Which type each tensor gets, and the bytes that come of it."""

from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest
from numpy.typing import NDArray

from wgpu_engine.errors import ModelFileError, UnsupportedModelError
from wgpu_engine.files.model_file import ModelFile, open_model
from wgpu_engine.files.quants import QUANT_TYPES
from wgpu_engine.platform.drive import drive
from wgpu_engine.quantize.convert import QUANTIZERS, quantize
from wgpu_engine.quantize.recipe import recipe

Floats = NDArray[np.float32]
WriteModel = Callable[..., Path]


def weights(*shape: int) -> Floats:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def types(file: ModelFile) -> dict[str, str]:
    return {name: tensor.type.name for name, tensor in file.tensors.items()}


def test_what_is_quantized(write_model: WriteModel) -> None:
    given = {
        "token_embd.weight": weights(8, 256),
        "blk.0.attn_q.weight": weights(8, 256),
        "blk.0.ffn_up_exps.weight": weights(2, 8, 256).astype(np.float16),
        "blk.0.ffn_gate_inp.weight": weights(4, 256),
        "blk.0.attn_q_norm.weight": weights(4, 256).astype(np.float16),
        "blk.0.attn_q.bias": weights(256),
        "output_norm.weight": weights(256),
        "output.weight": weights(8, 256),
        "ids": np.arange(256, dtype=np.int32).reshape(1, 256),
    }
    with drive(open_model(write_model(given))) as file:
        made = recipe(file, QUANT_TYPES["Q4_K"])
        assert types(made.file) == {
            "token_embd.weight": "Q4_K",
            "blk.0.attn_q.weight": "Q4_K",
            "blk.0.ffn_up_exps.weight": "Q4_K",
            "blk.0.ffn_gate_inp.weight": "F32",
            "blk.0.attn_q_norm.weight": "F32",
            "blk.0.attn_q.bias": "F32",
            "output_norm.weight": "F32",
            "output.weight": "Q4_K",
            "ids": "I32",
        }
        assert (made.changed, made.requantized, made.notes) == (4, 0, [])
        experts = made.file.tensors["blk.0.ffn_up_exps.weight"]
        assert experts.shape == (2, 8, 256) and experts.nbytes == 16 * 144


@pytest.mark.parametrize("kind", QUANTIZERS)
def test_embedding_and_output_below_four_bits(write_model: WriteModel, kind: str) -> None:
    given = {
        "token_embd.weight": weights(8, 256),
        "blk.0.ffn_up.weight": weights(8, 256),
        "output.weight": weights(8, 64),
    }
    with drive(open_model(write_model(given))) as file:
        made = types(recipe(file, QUANT_TYPES[kind]).file)
        assert made["blk.0.ffn_up.weight"] == kind
        few = kind in ("Q2_K", "Q3_K", "TQ1_0", "TQ2_0", "Q1_0", "Q2_0")
        assert made["token_embd.weight"] == ("Q6_K" if few else kind)
        pure = recipe(file, QUANT_TYPES[kind], pure=True)
        assert types(pure.file)["token_embd.weight"] == kind
        # F32 changes nothing, which is noted too
        assert bool(pure.notes) == (kind == "F32" or bool(64 % QUANT_TYPES[kind].block))
        if few:
            assert made["output.weight"] == "Q8_0"


def test_rows_that_blocks_do_not_divide(write_model: WriteModel) -> None:
    given = {f"blk.{i}.ffn_up.weight": weights(4, width) for i, width in enumerate((256, 96, 64, 72))}
    with drive(open_model(write_model(given))) as file:
        made = recipe(file, QUANT_TYPES["Q4_K"])
        assert list(types(made.file).values()) == ["Q4_K", "Q5_0", "Q5_0", "F16"]
        assert made.notes == [
            "blk.1.ffn_up.weight and 1 more became Q5_0, since rows of 96 are not whole blocks of Q4_K, which have 256 "
            "weights",
            "blk.3.ffn_up.weight became F16, since rows of 72 are not whole blocks of Q4_K, which have 256 weights",
        ]


def test_weights_that_are_quantized_already(tiny_llama: Callable[..., Path]) -> None:
    with drive(open_model(tiny_llama(types={"attn_q": "F16", "": "Q8_0"}))) as file:
        kept = recipe(file, QUANT_TYPES["Q4_0"])
        assert (kept.changed, kept.requantized) == (2, 0)
        for name, tensor in kept.file.tensors.items():
            assert tensor.type.name == ("Q4_0" if "attn_q" in name else file.tensors[name].type.name)
        again = recipe(file, QUANT_TYPES["Q4_0"], requantize=True)
        assert (again.changed, again.requantized) == (16, 14)
        same = recipe(file, QUANT_TYPES["Q8_0"], requantize=True)
        assert same.file.tensors["blk.0.ffn_up.weight"] is file.tensors["blk.0.ffn_up.weight"]


@pytest.mark.parametrize("kind", ["Q4_K", "TQ1_0", "BF16"])
def test_any_range_of_a_tensor(write_model: WriteModel, kind: str, rng: np.random.Generator) -> None:
    """As the loader and the writer ask for parts of it."""
    values = weights(37, 512)
    with drive(open_model(write_model({"blk.0.ffn_up.weight": values}))) as file:
        tensor = recipe(file, QUANT_TYPES[kind]).file.tensors["blk.0.ffn_up.weight"]
        wanted = quantize(values, QUANT_TYPES[kind]).tobytes()
        assert tensor.nbytes == tensor.source.size == len(wanted)
        for _ in range(40):
            start, stop = sorted(rng.integers(0, len(wanted) + 1, 2).tolist())
            assert bytes(drive(tensor.source.read(start, stop - start))) == wanted[start:stop]
        for start, length in ((-1, 4), (0, len(wanted) + 1), (len(wanted), 1), (4, -1)):
            with pytest.raises(ModelFileError, match="truncated or damaged"):
                drive(tensor.source.read(start, length))


def test_names_the_tensor_that_can_not_be_quantized(write_model: WriteModel) -> None:
    broken, large = weights(4, 256), weights(4, 256)
    broken[2, 100], large[1, 7] = np.nan, 1e9
    with drive(open_model(write_model({"blk.0.ffn_up.weight": broken, "blk.1.ffn_up.weight": large}))) as file:
        tensors = recipe(file, QUANT_TYPES["Q4_K"]).file.tensors
        with pytest.raises(ModelFileError, match=r"blk\.0\.ffn_up\.weight of .* holds NaN or infinite values"):
            drive(tensors["blk.0.ffn_up.weight"].source.read(0, 4 * 144))
        with pytest.raises(UnsupportedModelError, match=r"blk\.1\.ffn_up\.weight of .* too large for Q4_K"):
            drive(tensors["blk.1.ffn_up.weight"].source.read(0, 4 * 144))


def test_from_a_quantized_type(tiny_llama: Callable[..., Path]) -> None:
    with drive(open_model(tiny_llama(types={"": "Q5_1"}))) as file:
        tensor = file.tensors["blk.1.ffn_down.weight"]
        raw = np.frombuffer(drive(tensor.source.read(tensor.offset, tensor.nbytes)), np.uint8).reshape(tensor.rows, -1)
        values = gguf.quants.dequantize(raw, gguf.GGMLQuantizationType.Q5_1)
        made = recipe(file, QUANT_TYPES["Q4_0"], requantize=True).file.tensors["blk.1.ffn_down.weight"]
        assert bytes(drive(made.source.read(0, made.nbytes))) == quantize(values, QUANT_TYPES["Q4_0"]).tobytes()
