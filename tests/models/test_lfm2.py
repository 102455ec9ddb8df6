"""LFM2 against NumPy in float64."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

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


def lfm2(weights: Any, ids: Sequence[int]) -> Doubles:
    """Logits [tokens, vocab] of a `Reference`'s weights."""
    tensors = weights._weights
    x = tensors["token_embd.weight"][np.asarray(ids)]
    for i in range(weights.layers):
        layer = f"blk.{i}."
        h = weights._norm(x, f"{layer}attn_norm")
        if f"{layer}attn_q.weight" in tensors:
            x = x + weights._project(attention(weights, h, layer), f"{layer}attn_output")
        else:
            b, c, u = np.split(weights._project(h, f"{layer}shortconv.in_proj"), 3, axis=1)
            taps = tensors[f"{layer}shortconv.conv.weight"]
            kernel = taps.shape[1]
            padded = np.concatenate([np.zeros((kernel - 1, b.shape[1])), b * u])
            sums = sum(taps[:, j] * padded[j : j + len(x)] for j in range(kernel))
            y = c * (sums + tensors.get(f"{layer}shortconv.conv.bias", 0.0))
            x = x + weights._project(y, f"{layer}shortconv.out_proj")
        h = weights._norm(x, f"{layer}ffn_norm")
        gate, up = weights._project(h, f"{layer}ffn_gate"), weights._project(h, f"{layer}ffn_up")
        x = x + weights._project(gate / (1 + np.exp(-gate)) * up, f"{layer}ffn_down")
    return weights._norm(x, "token_embd_norm") @ tensors["token_embd.weight"].T


def attention(weights: Any, h: Doubles, layer: str) -> Doubles:
    """With a norm of each query and key, pairs that rotate half a head apart, and one key head."""
    q, k, v = (weights._project(h, f"{layer}attn_{name}").reshape(len(h), -1, 32).swapaxes(0, 1) for name in "qkv")
    q, k = (turned(weights, weights._norm(each, f"{layer}attn_{name}_norm")) for name, each in (("q", q), ("k", k)))
    scores = q @ k.swapaxes(1, 2) / np.sqrt(32)
    scores[:, np.triu(np.ones((len(h), len(h)), bool), 1)] = -np.inf
    shares = np.exp(scores - scores.max(axis=2, keepdims=True))
    return (shares / shares.sum(axis=2, keepdims=True) @ v).swapaxes(0, 1).reshape(len(h), -1)


def turned(weights: Any, x: Doubles) -> Doubles:
    turns = np.exp(1j * np.arange(x.shape[1])[:, None] * weights.frequencies)
    pairs = (x[..., :16] + 1j * x[..., 16:]) * turns
    return np.concatenate([pairs.real, pairs.imag], axis=2)


@pytest.mark.parametrize("variant", VARIANTS)
def test_variants(
    tiny_lfm2: Callable[..., Path], reference: Callable[..., Any], variant: str, rng: np.random.Generator
) -> None:
    path = tiny_lfm2(**VARIANTS[variant])
    weights = reference(path)
    ids = rng.integers(0, 256, 70).tolist()
    with LLM(path, precision="exact", kv_type="f32", ctx_size=128) as llm:
        found = llm.logits(ids)
        assert llm.statistics().dispatches_per_token <= 8 * weights.layers + 4
    wanted = lfm2(weights, ids)
    assert np.abs(found - wanted).max() < 2e-5 * np.abs(wanted).max()


def test_fast(tiny_lfm2: Callable[..., Path], rng: np.random.Generator) -> None:
    """What a convolution gives in int8 blocks meets weights in blocks."""
    path = tiny_lfm2(types={"shortconv.conv": "F32", "": "Q8_0"}, biases=True)
    ids = rng.integers(0, 256, 40).tolist()
    found = {}
    for precision in ("exact", "fast"):
        with LLM(path, precision=precision, ctx_size=64) as llm:
            found[precision] = llm.logits(ids).astype(np.float64)
    exact, fast = found["exact"], found["fast"]
    cosine = (exact * fast).sum(axis=1) / np.linalg.norm(exact, axis=1) / np.linalg.norm(fast, axis=1)
    assert cosine.min() >= 0.99 and (exact != fast).any()


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
