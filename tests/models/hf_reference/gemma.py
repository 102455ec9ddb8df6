"""Gemma 2 and 3: norms on both sides, gains beside 1, windows in some layers, caps on scores and logits.

modeling_gemma2.py, modeling_gemma3.py and their configurations.
"""

import math
from collections.abc import Sequence

import numpy as np

from .activations import gated
from .attention import self_attention
from .checkpoint import Checkpoint, Doubles
from .rope import rope_of


def logits(model: Checkpoint, ids: Sequence[int]) -> Doubles:
    config = model.config
    eps, cap = config["rms_norm_eps"], config.get("final_logit_softcapping")
    x = model.embed(ids) * math.sqrt(config["hidden_size"])

    def norm(name: str, x: Doubles) -> Doubles:
        return model.rms_norm(name, x, eps, offset=1.0)

    for i, kind in enumerate(kinds(model)):
        layer = f"model.layers.{i}"
        mixed = self_attention(
            model,
            f"{layer}.self_attn",
            norm(f"{layer}.input_layernorm", x),
            rope_of(model, len(ids), kind),
            norm_offset=1.0,
            scale=config["query_pre_attn_scalar"] ** -0.5,
            window=config["sliding_window"] if kind == "sliding_attention" else None,
            cap=config.get("attn_logit_softcapping"),
        )
        x = x + norm(f"{layer}.post_attention_layernorm", model.linear(f"{layer}.self_attn.o_proj", mixed))
        h = norm(f"{layer}.pre_feedforward_layernorm", x)
        h = gated(model, f"{layer}.mlp", h, config.get("hidden_activation", "gelu_pytorch_tanh"))
        x = x + norm(f"{layer}.post_feedforward_layernorm", h)
    found = model.head(norm("model.norm", x))
    return found if cap is None else cap * np.tanh(found / cap)


def kinds(model: Checkpoint) -> list[str]:
    """The kind of each layer; older configurations say every how many are global, or leave that to the model."""
    if model.config.get("layer_types"):
        return list(model.config["layer_types"])
    usual = 2 if model.config["model_type"] == "gemma2" else 6
    period = model.config.get("sliding_window_pattern", usual)
    return ["sliding_attention" if (i + 1) % period else "full_attention" for i in range(model.layers)]
