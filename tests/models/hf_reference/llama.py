"""Llama, Mistral, Qwen 2 and Qwen 3: norms before attention and before a gated feed-forward.

modeling_llama.py, modeling_mistral.py, modeling_qwen2.py, modeling_qwen3.py and their configurations.
"""

from collections.abc import Callable, Sequence

from .activations import gated
from .attention import self_attention
from .checkpoint import Checkpoint, Doubles
from .rope import Rope, rope_of


def logits(model: Checkpoint, ids: Sequence[int]) -> Doubles:
    return decode(model, ids, windows(model), lambda name, x: gated(model, f"{name}.mlp", x))


def decode(
    model: Checkpoint, ids: Sequence[int], spans: Sequence[int | None], feed_forward: Callable[[str, Doubles], Doubles]
) -> Doubles:
    """The decoder with a window or none in each layer, and any feed-forward of a layer's name and its input."""
    eps = model.config["rms_norm_eps"]
    rope = rope_of(model, len(ids))
    x = model.embed(ids)
    for i, span in enumerate(spans):
        layer = f"model.layers.{i}"
        x = x + attention(model, f"{layer}.self_attn", model.rms_norm(f"{layer}.input_layernorm", x, eps), rope, span)
        x = x + feed_forward(layer, model.rms_norm(f"{layer}.post_attention_layernorm", x, eps))
    return model.head(model.rms_norm("model.norm", x, eps))


def attention(model: Checkpoint, name: str, x: Doubles, rope: Rope | None, window: int | None) -> Doubles:
    return model.linear(f"{name}.o_proj", self_attention(model, name, x, rope, window=window))


def windows(model: Checkpoint) -> list[int | None]:
    """How many positions each layer of these models sees; None: all."""
    config, window = model.config, model.config.get("sliding_window")
    kinds = config.get("layer_types")
    if config["model_type"] == "mistral":
        return [window] * model.layers
    if not config.get("use_sliding_window", False):
        return [None] * model.layers
    first = config.get("max_window_layers", 28)
    sliding = [i >= first if kinds is None else kinds[i] == "sliding_attention" for i in range(model.layers)]
    return [window if each else None for each in sliding]
