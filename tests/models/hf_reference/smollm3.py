"""SmolLM 3: Llama, in which some layers don't know positions (modeling_smollm3.py and its configuration)."""

from collections.abc import Sequence

from .activations import gated
from .checkpoint import Checkpoint, Doubles
from .llama import attention
from .rope import rope_of


def logits(model: Checkpoint, ids: Sequence[int]) -> Doubles:
    config, eps = model.config, model.config["rms_norm_eps"]
    rope = rope_of(model, len(ids))
    # in spite of the key's name, 1 stands for a layer with positions
    turned = config.get("no_rope_layers")
    if turned is None:
        turned = [(i + 1) % config.get("no_rope_layer_interval", 4) != 0 for i in range(model.layers)]
    window = config.get("sliding_window") if config.get("use_sliding_window") else None
    kinds = config.get("layer_types") or ["full_attention" if each else "sliding_attention" for each in turned]
    x = model.embed(ids)
    for i in range(model.layers):
        layer = f"model.layers.{i}"
        h = model.rms_norm(f"{layer}.input_layernorm", x, eps)
        span = window if kinds[i] == "sliding_attention" else None
        x = x + attention(model, f"{layer}.self_attn", h, rope if turned[i] else None, span)
        x = x + gated(model, f"{layer}.mlp", model.rms_norm(f"{layer}.post_attention_layernorm", x, eps))
    return model.head(model.rms_norm("model.norm", x, eps))
