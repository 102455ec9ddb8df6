"""BitNet with ternary weights and scales, against NumPy in float64."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.models.gguf_reference import read_gguf_reference
from tests.models.hf_reference import run
from tests.models.likeness import both_precisions, cosines, relative
from wgpu_engine import LLM
from wgpu_engine.errors import EngineError, ModelFileError, UnsupportedModelError

Write = Callable[..., Path]

WIDTH = 256
SCALED = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
VARIANTS: dict[str, dict[str, Any]] = {
    "TQ2_0": {"types": {"token_embd": "F16", "output": "F16", "": "TQ2_0"}},
    "TQ1_0": {"types": {"token_embd": "BF16", "output": "BF16", "": "TQ1_0"}},
    "F32": {},
    "BF16": {"types": {"": "BF16"}},
    "a type a tensor": {"types": {"attn_v": "TQ1_0", "ffn_up": "TQ1_0", "token_embd": "Q4_1", "": "TQ2_0"}},
    "tied": {"tied": True, "types": {"token_embd": "Q8_0", "": "TQ2_0"}},
    "gates by SiLU": {"architecture": "bitnet"},
    "gates that the file names": {"architecture": "bitnet", "metadata": {"hidden_activation": "relu2"}},
    "an older name": {"architecture": "bitnet-25"},
    "heads of 24": {"heads": 4, "kv_heads": 2, "head_dim": 24, "width": 96},
}


@pytest.fixture(scope="session")
def bitnet(tiny_llama: Write) -> Write:
    """Writes a random BitNet with weights of -1, 0 and 1: `bitnet(scaled=True, …)`, with what else LlamaFile takes."""

    def write(*, scaled: bool = True, width: int = WIDTH, tensors: Any = (), **changes: Any) -> Path:
        rng = np.random.default_rng(7)
        shape = {"architecture": "bitnet-b1.58", "width": width, "feed_forward": WIDTH, "heads": 4, "head_dim": 64}
        shape |= {"kv_heads": 2} | changes
        q, kv = (shape[key] * shape["head_dim"] for key in ("heads", "kv_heads"))
        sizes = {"attn_q": (q, width), "attn_k": (kv, width), "attn_v": (kv, width), "attn_output": (width, q)}
        sizes |= {"ffn_gate": (WIDTH, width), "ffn_up": (WIDTH, width), "ffn_down": (width, WIDTH)}
        found: dict[str, Any] = {}
        for i in range(2):
            for name, width_of in (("attn_sub_norm", q), ("ffn_sub_norm", WIDTH)):
                found[f"blk.{i}.{name}.weight"] = rng.normal(1, 0.3, width_of).astype(np.float32)
            for name, size in sizes.items():
                found[f"blk.{i}.{name}.weight"] = rng.integers(-1, 2, size).astype(np.float32)
                if scaled:
                    found[f"blk.{i}.{name}.scale"] = np.array([rng.uniform(0.03, 0.09)], np.float32)
        return tiny_llama(**shape, tensors=found | dict(tensors))

    return write


@pytest.mark.parametrize("variant", VARIANTS)
def test_variants(bitnet: Write, variant: str, rng: np.random.Generator) -> None:
    path = bitnet(**VARIANTS[variant])
    ids = rng.integers(0, 256, 40).tolist()
    with LLM(path, precision="exact", kv_type="f32", ctx_size=64) as llm:
        found = llm.logits(ids)
        if variant in ("TQ2_0", "F32"):
            assert llm.statistics().dispatches_per_token <= 8 * 2 + 4
    wanted = run(read_gguf_reference(path), ids)
    assert relative(found, wanted) < 2e-5


def test_scales_count(bitnet: Write, rng: np.random.Generator) -> None:
    """What is normed loses its scale again, but not values, nor what is added to the residual stream."""
    ids = rng.integers(0, 256, 20).tolist()
    plain, scaled = (run(read_gguf_reference(bitnet(scaled=on)), ids) for on in (False, True))
    assert np.abs(scaled - plain).max() > 0.1 * np.abs(plain).max()


def test_fast(bitnet: Write, rng: np.random.Generator) -> None:
    path = bitnet(**VARIANTS["TQ2_0"])
    ids = rng.integers(0, 256, 40).tolist()
    assert cosines(*both_precisions(path, ids)).min() >= 0.99


@pytest.mark.parametrize(
    ("changes", "error", "word"),
    [
        ({"metadata": {"hidden_activation": "gelu"}}, UnsupportedModelError, "activation 'gelu'"),
        ({"tensors": {"blk.1.ffn_sub_norm.weight": None}}, ModelFileError, "ffn_sub_norm.weight is missing"),
        ({"tensors": {"blk.0.attn_q.scale": np.ones(4, np.float32)}}, UnsupportedModelError, "only one scale"),
        ({"tensors": {"token_embd.scale": np.ones(1, np.float32)}}, UnsupportedModelError, "the embedding"),
        ({"heads": 3, "kv_heads": 2}, ModelFileError, "can't be"),
    ],
)
def test_files_that_cannot_be(bitnet: Write, changes: dict[str, Any], error: type[EngineError], word: str) -> None:
    with pytest.raises(error, match=word):
        LLM(bitnet(**changes), ctx_size=32)


def test_scales_of_any_architecture(tiny_llama: Write, rng: np.random.Generator) -> None:
    """Also where gate and up, or Q, K and V, lie in weights of their own, and where there are biases."""
    scales = {
        f"blk.{i}.{name}.scale": np.array([rng.uniform(0.5, 1.5)], np.float32) for i in range(2) for name in SCALED
    }
    scales["output.scale"] = np.array([1.25], np.float32)
    without = {f"blk.{i}.{name}.bias": None for i in range(2) for name in ("attn_output", "ffn_down")}
    path = tiny_llama(tensors=scales | without, types={"ffn_up": "Q8_0", "attn_k": "F16"}, biases=True)
    ids = rng.integers(0, 256, 20).tolist()
    with LLM(path, precision="exact", kv_type="f32", ctx_size=64) as llm:
        found = llm.logits(ids)
    wanted = run(read_gguf_reference(path), ids)
    assert relative(found, wanted) < 2e-5


def test_a_scale_and_a_bias_of_what_is_added(tiny_llama: Write) -> None:
    with pytest.raises(UnsupportedModelError, match=r"blk\.0\.attn_output has both"):
        LLM(tiny_llama(tensors={"blk.0.attn_output.scale": np.ones(1, np.float32)}, biases=True), ctx_size=32).logits(
            [1]
        )
