"""GPT-NeoX and Pythia: queries, keys and values side by side in each head (modeling_gpt_neox.py)."""

from collections.abc import Sequence

from .activations import ACTIVATIONS
from .attention import attend, split
from .checkpoint import Checkpoint, Doubles
from .rope import Rope, rope_of


def logits(model: Checkpoint, ids: Sequence[int]) -> Doubles:
    config, eps = model.config, model.config["layer_norm_eps"]
    act = ACTIVATIONS[config["hidden_act"]]
    rope = rope_of(model, len(ids))
    x = model.embed(ids, "gpt_neox.embed_in")
    for i in range(model.layers):
        layer = f"gpt_neox.layers.{i}"
        mixed = _attention(model, f"{layer}.attention", model.layer_norm(f"{layer}.input_layernorm", x, eps), rope)
        source = x if config.get("use_parallel_residual", True) else x + mixed
        h = model.layer_norm(f"{layer}.post_attention_layernorm", source, eps)
        x = x + mixed + model.linear(f"{layer}.mlp.dense_4h_to_h", act(model.linear(f"{layer}.mlp.dense_h_to_4h", h)))
    x = model.layer_norm("gpt_neox.final_layer_norm", x, eps)
    return model.head(x, "embed_out", "gpt_neox.embed_in")


def _attention(model: Checkpoint, name: str, x: Doubles, rope: Rope) -> Doubles:
    fused = split(model.linear(f"{name}.query_key_value", x), 3 * model.head_dim)
    q, k, v = (fused[..., j * model.head_dim : (j + 1) * model.head_dim] for j in range(3))
    return model.linear(f"{name}.dense", attend(rope.turn(q), rope.turn(k), v))
