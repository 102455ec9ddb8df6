"""Granite: Llama with four factors (modeling_granite.py)."""

from collections.abc import Sequence

from .activations import gated
from .attention import self_attention
from .checkpoint import Checkpoint, Doubles
from .rope import rope_of


def logits(model: Checkpoint, ids: Sequence[int]) -> Doubles:
    config = model.config
    eps, share = config["rms_norm_eps"], config["residual_multiplier"]
    rope = rope_of(model, len(ids))
    x = model.embed(ids) * config["embedding_multiplier"]
    for i in range(model.layers):
        layer = f"model.layers.{i}"
        h = model.rms_norm(f"{layer}.input_layernorm", x, eps)
        h = self_attention(model, f"{layer}.self_attn", h, rope, scale=config["attention_multiplier"])
        x = x + share * model.linear(f"{layer}.self_attn.o_proj", h)
        h = model.rms_norm(f"{layer}.post_attention_layernorm", x, eps)
        x = x + share * gated(model, f"{layer}.mlp", h)
    return model.head(model.rms_norm("model.norm", x, eps)) / config["logits_scaling"]
