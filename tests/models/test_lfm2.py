"""LFM2 against NumPy in float64."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.models.gguf_reference import read_gguf_reference
from tests.models.hf_reference import run
from tests.models.likeness import both_precisions, cosines, relative
from wgpu_engine import LLM
from wgpu_engine.errors import ModelFileError

Doubles = NDArray[np.float64]

VARIANTS: dict[str, dict[str, Any]] = {
    "convolutions and attention": {},
    "biases": {"biases": True},
    "attention first": {"layers": "ac"},
    "convolutions alone": {"layers": "cc"},
    "attention alone": {"layers": "aa"},
    "kernels of one": {"kernel": 1},
    "kernels of two": {"kernel": 2},
    "long kernels": {"kernel": 64},
    "rows of 100": {"layers": "ca", "width": 100},
    "BF16": {"types": {"": "BF16"}},
    "quantized": {"types": {"ffn": "Q4_0", "attn": "Q8_0", "proj": "Q5_1", "token_embd": "Q4_1"}},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_variants(tiny_lfm2: Callable[..., Path], variant: str, rng: np.random.Generator) -> None:
    path = tiny_lfm2(**VARIANTS[variant])
    model = read_gguf_reference(path)
    ids = rng.integers(0, 256, 70).tolist()
    with LLM(path, precision="exact", kv_type="f32", ctx_size=128) as llm:
        found = llm.logits(ids)
        assert llm.statistics().dispatches_per_token <= 8 * model.layers + 4
    wanted = run(model, ids)
    assert relative(found, wanted) < 2e-5


def test_fast(tiny_lfm2: Callable[..., Path], rng: np.random.Generator) -> None:
    """What a convolution gives in int8 blocks meets weights in blocks."""
    path = tiny_lfm2(types={"shortconv.conv": "F32", "": "Q8_0"}, biases=True)
    ids = rng.integers(0, 256, 40).tolist()
    assert cosines(*both_precisions(path, ids)).min() >= 0.99


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"metadata": {"attention.head_count_kv": [0, 0, 1]}}, "each of 4 layers"),
        ({"metadata": {"attention.head_count_kv": [0, 0, 4097, 0]}}, "from 0 to 4096"),
        ({"metadata": {"attention.head_count_kv": [0, 0, 3, 0]}}, "can't be"),
        ({"metadata": {"shortconv.l_cache": 65}}, "from 1 to 64"),
        ({"metadata": {"shortconv.l_cache": 4}}, "shape"),
        ({"tensors": {"blk.1.shortconv.conv.weight": None}}, "missing"),
        ({"tensors": {"blk.2.attn_q_norm.weight": None}}, "missing"),
        ({"tensors": {"token_embd_norm.weight": None}}, "token_embd_norm.weight is missing"),
        ({"tensors": {"blk.0.shortconv.conv.bias": np.zeros(3, np.float32)}}, "shape"),
    ],
)
def test_files_that_cannot_be(tiny_lfm2: Callable[..., Path], changes: dict[str, Any], word: str) -> None:
    with pytest.raises(ModelFileError, match=word):
        LLM(tiny_lfm2(**changes), ctx_size=32)
