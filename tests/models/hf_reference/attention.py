"""Attention over a whole sequence at once."""

from typing import Any

import numpy as np

from .checkpoint import Checkpoint, Doubles
from .rope import Rope


def split(x: Doubles, head_dim: int) -> Doubles:
    """[tokens, heads * head_dim] -> [tokens, heads, head_dim]."""
    return x.reshape(len(x), -1, head_dim)


def softmax(x: Doubles) -> Doubles:
    """Over the last axis."""
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def attend(
    q: Doubles,
    k: Doubles,
    v: Doubles,
    scale: float | None = None,
    window: int | None = None,
    cap: float | None = None,
    causal: bool = True,
    sinks: Doubles | None = None,
) -> Doubles:
    """[tokens, heads, head_dim] and keys and values of fewer heads, each for a group of neighbours -> [tokens, width].

    A position sees itself and what is before it, of a window the last `window` positions. `sinks` [heads] are scores
    that stand for no position, as modeling_gpt_oss.py has them.
    """
    tokens, heads, head_dim = q.shape
    group = heads // k.shape[1]
    q, k, v = (each.swapaxes(0, 1) for each in (q, k.repeat(group, axis=1), v.repeat(group, axis=1)))
    scores = q @ k.swapaxes(1, 2) * (head_dim**-0.5 if scale is None else scale)
    if cap is not None:
        scores = cap * np.tanh(scores / cap)
    distance = np.arange(tokens)[:, None] - np.arange(tokens)[None, :]
    if causal:
        scores[:, distance < 0] = -np.inf
    if window is not None:
        scores[:, distance >= window] = -np.inf
    if sinks is not None:
        ends = np.broadcast_to(sinks[:, None, None], (heads, tokens, 1))
        scores = np.concatenate([scores, ends], axis=2)
        v = np.concatenate([v, np.zeros((heads, 1, head_dim))], axis=1)
    return (softmax(scores) @ v).swapaxes(0, 1).reshape(tokens, -1)


def self_attention(
    model: Checkpoint, name: str, x: Doubles, rope: Rope | None, norm_offset: float = 0.0, **options: Any
) -> Doubles:
    """As Llama has it and many after it, before the output's projection: three projections, RoPE, attention.

    Where there are `q_norm` and `k_norm`, they are RMS norms of each head.
    """
    q, k, v = (split(model.linear(f"{name}.{each}_proj", x), model.head_dim) for each in "qkv")
    if f"{name}.q_norm.weight" in model.tensors:
        eps = model.config["rms_norm_eps"]
        q = model.rms_norm(f"{name}.q_norm", q, eps, norm_offset)
        k = model.rms_norm(f"{name}.k_norm", k, eps, norm_offset)
    if rope is not None:
        q, k = rope.turn(q), rope.turn(k)
    return attend(q, k, v, **options)
