"""OLMo 2: norms only behind attention and feed-forward, of all heads' queries or keys at once (modeling_olmo2.py)."""

from collections.abc import Sequence

from .activations import gated
from .attention import attend, split
from .checkpoint import Checkpoint, Doubles
from .rope import Rope, rope_of


def logits(model: Checkpoint, ids: Sequence[int]) -> Doubles:
    eps = model.config["rms_norm_eps"]
    rope = rope_of(model, len(ids))
    x = model.embed(ids)
    for i in range(model.layers):
        layer = f"model.layers.{i}"
        h = _attention(model, f"{layer}.self_attn", x, rope, eps)
        x = x + model.rms_norm(f"{layer}.post_attention_layernorm", h, eps)
        x = x + model.rms_norm(f"{layer}.post_feedforward_layernorm", gated(model, f"{layer}.mlp", x), eps)
    return model.head(model.rms_norm("model.norm", x, eps))


def _attention(model: Checkpoint, name: str, x: Doubles, rope: Rope, eps: float) -> Doubles:
    q, k = (model.rms_norm(f"{name}.{each}_norm", model.linear(f"{name}.{each}_proj", x), eps) for each in "qk")
    q, k, v = (split(each, model.head_dim) for each in (q, k, model.linear(f"{name}.v_proj", x)))
    return model.linear(f"{name}.o_proj", attend(rope.turn(q), rope.turn(k), v))
