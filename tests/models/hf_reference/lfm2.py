"""LFM 2: short convolutions in some layers, attention in the others (modeling_lfm2.py and its configuration)."""

from collections.abc import Sequence

import numpy as np

from .activations import silu
from .attention import attend, split
from .checkpoint import Checkpoint, Doubles
from .rope import Rope, rope_of


def logits(model: Checkpoint, ids: Sequence[int]) -> Doubles:
    config, eps = model.config, model.config["norm_eps"]
    rope = rope_of(model, len(ids))
    kinds = config.get("layer_types")
    if kinds is None:
        kinds = ["full_attention" if i in config["full_attn_idxs"] else "conv" for i in range(model.layers)]
    x = model.embed(ids)
    for i, kind in enumerate(kinds):
        layer = f"model.layers.{i}"
        h = model.rms_norm(f"{layer}.operator_norm", x, eps)
        if kind == "full_attention":
            x = x + _attention(model, f"{layer}.self_attn", h, rope, eps)
        else:
            x = x + _convolution(model, f"{layer}.conv", h)
        h = model.rms_norm(f"{layer}.ffn_norm", x, eps)
        w1, w2, w3 = (f"{layer}.feed_forward.w{j}" for j in (1, 2, 3))
        x = x + model.linear(w2, silu(model.linear(w1, h)) * model.linear(w3, h))
    return model.head(model.rms_norm("model.embedding_norm", x, eps))


def _convolution(model: Checkpoint, name: str, x: Doubles) -> Doubles:
    """Each channel's last few values weighed, between two gates; the last weight is that of the present."""
    before, behind, value = np.split(model.linear(f"{name}.in_proj", x), 3, axis=-1)
    kernel = model.tensors[f"{name}.conv.weight"][:, 0, :]
    taps = kernel.shape[1]
    padded = np.concatenate([np.zeros((taps - 1, x.shape[1])), before * value])
    mixed = sum(padded[j : j + len(x)] * kernel[:, j] for j in range(taps))
    return model.linear(f"{name}.out_proj", behind * (mixed + model.tensors.get(f"{name}.conv.bias", 0.0)))


def _attention(model: Checkpoint, name: str, x: Doubles, rope: Rope, eps: float) -> Doubles:
    q, k, v = (split(model.linear(f"{name}.{each}_proj", x), model.head_dim) for each in "qkv")
    q, k = model.rms_norm(f"{name}.q_layernorm", q, eps), model.rms_norm(f"{name}.k_layernorm", k, eps)
    return model.linear(f"{name}.out_proj", attend(rope.turn(q), rope.turn(k), v))
