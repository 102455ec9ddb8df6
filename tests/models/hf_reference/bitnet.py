"""BitNet b1.58: Llama with norms before the last matrix of attention and of the feed-forward (modeling_bitnet.py)."""

from collections.abc import Sequence

from .activations import ACTIVATIONS
from .attention import self_attention
from .checkpoint import Checkpoint, Doubles
from .rope import rope_of


def logits(model: Checkpoint, ids: Sequence[int]) -> Doubles:
    eps, act = model.config["rms_norm_eps"], ACTIVATIONS[model.config["hidden_act"]]
    rope = rope_of(model, len(ids))
    x = model.embed(ids)
    for i in range(model.layers):
        layer = f"model.layers.{i}"
        attention, mlp = f"{layer}.self_attn", f"{layer}.mlp"
        h = self_attention(model, attention, model.rms_norm(f"{layer}.input_layernorm", x, eps), rope)
        x = x + model.linear(f"{attention}.o_proj", model.rms_norm(f"{attention}.attn_sub_norm", h, eps))
        h = model.rms_norm(f"{layer}.post_attention_layernorm", x, eps)
        h = act(model.linear(f"{mlp}.gate_proj", h)) * model.linear(f"{mlp}.up_proj", h)
        x = x + model.linear(f"{mlp}.down_proj", model.rms_norm(f"{mlp}.ffn_sub_norm", h, eps))
    return model.head(model.rms_norm("model.norm", x, eps))
