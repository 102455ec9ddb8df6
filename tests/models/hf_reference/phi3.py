"""Phi 3 and 4: Llama with fused projections (modeling_phi3.py)."""

from collections.abc import Sequence

import numpy as np

from .activations import ACTIVATIONS
from .attention import attend, split
from .checkpoint import Checkpoint, Doubles
from .rope import Rope, rope_of


def logits(model: Checkpoint, ids: Sequence[int]) -> Doubles:
    eps = model.config["rms_norm_eps"]
    rope = rope_of(model, len(ids))
    x = model.embed(ids)
    for i in range(model.layers):
        layer = f"model.layers.{i}"
        x = x + _attention(model, f"{layer}.self_attn", model.rms_norm(f"{layer}.input_layernorm", x, eps), rope)
        x = x + _feed_forward(model, f"{layer}.mlp", model.rms_norm(f"{layer}.post_attention_layernorm", x, eps))
    return model.head(model.rms_norm("model.norm", x, eps))


def _attention(model: Checkpoint, name: str, x: Doubles, rope: Rope) -> Doubles:
    width, kv_width = model.heads * model.head_dim, model.kv_heads * model.head_dim
    parts = np.split(model.linear(f"{name}.qkv_proj", x), [width, width + kv_width], axis=-1)
    q, k, v = (split(each, model.head_dim) for each in parts)
    mixed = attend(rope.turn(q), rope.turn(k), v, window=model.config.get("sliding_window"))
    return model.linear(f"{name}.o_proj", mixed)


def _feed_forward(model: Checkpoint, name: str, x: Doubles) -> Doubles:
    gate, up = np.split(model.linear(f"{name}.gate_up_proj", x), 2, axis=-1)
    return model.linear(f"{name}.down_proj", ACTIVATIONS[model.config["hidden_act"]](gate) * up)
