"""Phi 1, 1.5 and 2: attention and feed-forward side by side behind one layer norm (modeling_phi.py)."""

from collections.abc import Sequence

from .activations import ACTIVATIONS
from .attention import attend, split
from .checkpoint import Checkpoint, Doubles
from .rope import Rope, rope_of


def logits(model: Checkpoint, ids: Sequence[int]) -> Doubles:
    config, eps = model.config, model.config["layer_norm_eps"]
    act = ACTIVATIONS[config["hidden_act"]]
    rope = rope_of(model, len(ids))
    x = model.embed(ids)
    for i in range(model.layers):
        layer = f"model.layers.{i}"
        h = model.layer_norm(f"{layer}.input_layernorm", x, eps)
        mixed = _attention(model, f"{layer}.self_attn", h, rope)
        x = x + mixed + model.linear(f"{layer}.mlp.fc2", act(model.linear(f"{layer}.mlp.fc1", h)))
    return model.head(model.layer_norm("model.final_layernorm", x, eps))


def _attention(model: Checkpoint, name: str, x: Doubles, rope: Rope) -> Doubles:
    q, k, v = (split(model.linear(f"{name}.{each}_proj", x), model.head_dim) for each in "qkv")
    if model.config.get("qk_layernorm"):
        eps = model.config["layer_norm_eps"]
        q, k = model.layer_norm(f"{name}.q_layernorm", q, eps), model.layer_norm(f"{name}.k_layernorm", k, eps)
    return model.linear(f"{name}.dense", attend(rope.turn(q), rope.turn(k), v))
