"""The llama family beside a forward pass in NumPy, over every type and every turn that its files take."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.models.gguf_reference import read_gguf_reference
from tests.models.hf_reference import run
from tests.models.likeness import cosines, relative
from wgpu_engine import LLM

Array = NDArray[Any]

TYPES = (
    *("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K_M", "Q4_K_M", "Q5_K_M", "Q6_K"),
    *("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ4_NL", "IQ4_XS"),
    *("TQ1_0", "TQ2_0", "Q1_0", "Q2_0"),
)

VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "tied head": {"tied": True},
    "biases": {"biases": True},
    "byte-level vocabulary": {"vocabulary": "gpt2"},
    "a type a tensor": {
        "types": {
            "attn_q": "Q4_0",
            "attn_k": "Q8_0",
            "attn_v": "F16",
            "ffn_gate": "Q5_1",
            "ffn_up": "Q4_1",
            "": "BF16",
        },
        "biases": True,
    },
    "Llama 3's RoPE": {"rope_factors": [1.0] * 6 + [1.5, 2.5, 4.0, 6.0] + [8.0] * 6},
    "linear RoPE": {"metadata": {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}},
    "RoPE over half a head": {"metadata": {"rope.dimension_count": 16}},
    "another RoPE base": {"metadata": {"rope.freq_base": 500000.0}},
    "a key head a head": {"heads": 3, "kv_heads": 3},
    "three heads a key head": {"heads": 6, "kv_heads": 2, "head_dim": 16},
    "one key head for eight": {"heads": 8, "kv_heads": 1, "head_dim": 8},
    "long heads": {"heads": 2, "kv_heads": 1, "head_dim": 128},
    "heads of 24, rows of 72": {"heads": 3, "kv_heads": 1, "head_dim": 24, "width": 72, "feed_forward": 88},
    "one layer": {"layers": 1},
    "Q8_0 rows of 96": {"width": 96, "feed_forward": 160, "types": {"": "Q8_0"}},
}


def logits(path: Path, ids: list[int], rows: int | None = None, **options: Any) -> Array:
    """`rows` tokens a step: plans of one row have the smallest kernels, which compile soonest."""
    with LLM(path, **options) as llm:
        llm._engine.prefill_rows = rows or llm._engine.prefill_rows
        return llm.logits(ids)


@pytest.mark.conformance
@pytest.mark.parametrize("type_name", TYPES)
def test_files_of_every_type(conformance: Path, type_name: str) -> None:
    """`exact` is the mathematics of the file's weights; llama.cpp and `fast`, which round activations, are near."""
    folder = conformance / "quants"
    path = folder / f"rand-llama-256.{type_name}.gguf"
    with np.load(folder / "rand-llama-256.llamacpp-logits.npz") as data:
        ids, peer = data["ids"].tolist(), data[type_name]
    exact = logits(path, ids, 1, precision="exact", kv_type="f32", ctx_size=32)
    assert relative(exact, run(read_gguf_reference(path), ids)) < 1e-5
    assert cosines(exact, peer).min() >= 0.99
    assert cosines(logits(path, ids, 1, precision="fast", ctx_size=32), exact).min() >= 0.99


@pytest.mark.parametrize("variant", VARIANTS)
def test_variants_of_the_family(tiny_llama: Callable[..., Path], variant: str, rng: np.random.Generator) -> None:
    path = tiny_llama(**VARIANTS[variant])
    ids = rng.integers(0, 256, 40).tolist()
    wanted = run(read_gguf_reference(path), ids)
    assert relative(logits(path, ids, precision="exact", kv_type="f32", ctx_size=64), wanted) < 1e-5


@pytest.mark.parametrize("variant", ["plain", "heads of 24, rows of 72", "long heads"])
def test_keys_and_values_in_halves(tiny_llama: Callable[..., Path], variant: str, rng: np.random.Generator) -> None:
    path = tiny_llama(**VARIANTS[variant])
    ids = rng.integers(0, 256, 40).tolist()
    found = logits(path, ids, precision="exact", kv_type="f16", ctx_size=64)
    assert 0 < relative(found, run(read_gguf_reference(path), ids)) < 1e-2


def test_positions_far_out(tiny_llama: Callable[..., Path], rng: np.random.Generator) -> None:
    """Angles of thousands of turns, and attention over many partitions."""
    path = tiny_llama(context=4096, metadata={"rope.freq_base": 100.0})
    ids = rng.integers(0, 256, 1500).tolist()
    found = logits(path, ids, precision="exact", kv_type="f32")
    assert relative(found[-100:], run(read_gguf_reference(path), ids)[-100:]) < 1e-4


def test_fast_on_quantized_weights(tiny_llama: Callable[..., Path], rng: np.random.Generator) -> None:
    """Activations in int8 meet weights in blocks; float weights beside them keep float activations."""
    path = tiny_llama(types={"attn_v": "F16", "": "Q4_1"}, biases=True)
    ids = rng.integers(0, 256, 40).tolist()
    exact = logits(path, ids, precision="exact", ctx_size=64)
    fast = logits(path, ids, precision="fast", ctx_size=64)
    assert cosines(fast, exact).min() >= 0.99
    assert (fast != exact).any()


def test_tensors_that_nothing_reads_are_named(tiny_llama: Callable[..., Path]) -> None:
    extra = {f"blk.{i}.novel.weight": np.zeros(4, np.float32) for i in range(2)}
    with LLM(tiny_llama(tensors=extra), ctx_size=32) as llm:
        assert llm.warnings == [
            "2 tensors, such as blk.0.novel.weight, are no part of such a model and left out: if its answers look "
            "wrong, get another version of it"
        ]
