"""Settings that most decoders in Hugging Face folders have, translated to GGUF's."""

from wgpu_engine.errors import ModelFileError, UnsupportedModelError
from wgpu_engine.files.gguf_window import Value, show
from wgpu_engine.files.hf_config import HFConfig
from wgpu_engine.files.hf_rope import rope_settings

LAYER_TYPES: dict[str | int, bool] = {"sliding_attention": True, "full_attention": False}
"""whether layers have a window, by what configurations call them"""
_LONGEST_HEAD = 1 << 12
_MOST_LAYERS = 1 << 12


def decoder_settings(
    config: HFConfig, context: int, *, head_dim: int | None = None, base: float = 10000.0
) -> dict[str, Value]:
    """The settings of a decoder with RoPE, RMS norms and a gated feed-forward.

    `context`, `head_dim` and the `base` of RoPE are what the model's class assumes where they aren't said.
    """
    width, heads = config.count("hidden_size"), config.count("num_attention_heads")
    head_dim = config.count("head_dim", head_dim or max(1, width // heads))
    if head_dim > _LONGEST_HEAD:
        raise ModelFileError(f"{config.name} says that heads have {head_dim} values: download it again")
    return {
        "context_length": config.count("max_position_embeddings", context),
        "block_count": layer_count(config),
        "embedding_length": width,
        "feed_forward_length": config.count("intermediate_size"),
        "attention.head_count": heads,
        "attention.head_count_kv": config.count("num_key_value_heads", heads),
        "attention.key_length": head_dim,
        "attention.value_length": head_dim,
        "attention.layer_norm_rms_epsilon": config.number("rms_norm_eps", 1e-6),
        **rope_settings(config, head_dim, base),
    }


def layer_count(config: HFConfig) -> int:
    return config.count("num_hidden_layers", largest=_MOST_LAYERS)


def refuse_activations_but(config: HFConfig, *known: str) -> None:
    found = config.text("hidden_act", known[0])
    if found not in known:
        raise UnsupportedModelError(
            f"the activation {show(found)} of {config.name} is not supported with its architecture: use a model with "
            f"{known[0]}"
        )


def window_settings(config: HFConfig, default: int | None, first: int = 0) -> dict[str, Value]:
    """The settings of sliding windows, of `default` positions where the configuration says nothing; null is none.

    Unless it says which, all layers from `first` on have one.
    """
    if "sliding_window" in config.values and config.values["sliding_window"] is None:
        return {}
    if default is None and "sliding_window" not in config.values:
        return {}
    layers = layer_count(config)
    slides = config.flag_list("layer_types", layers, LAYER_TYPES)
    return {
        "attention.sliding_window": config.count("sliding_window", default),
        "attention.sliding_window_pattern": slides or [i >= first for i in range(layers)],
    }
