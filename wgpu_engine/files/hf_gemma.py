"""Gemma and OLMo 2 in Hugging Face folders: names of tensors and settings.

Names: transformers, modeling_gemma2.py, modeling_gemma3.py and modeling_olmo2.py.
"""

from wgpu_engine.errors import UnsupportedModelError
from wgpu_engine.files.gguf_window import Value, show
from wgpu_engine.files.hf_config import HFConfig
from wgpu_engine.files.hf_decoder import LAYER_TYPES, decoder_settings, layer_count, refuse_activations_but
from wgpu_engine.files.hf_llama import QWEN3_NAMES
from wgpu_engine.files.hf_rope import local_rope_base

GEMMA_NAMES = {
    **{name.replace(".*", ".weight"): to.replace(".*", ".weight") for name, to in QWEN3_NAMES.items()},
    "model.layers.#.post_attention_layernorm.weight": "blk.#.post_attention_norm.weight",
    "model.layers.#.pre_feedforward_layernorm.weight": "blk.#.ffn_norm.weight",
    "model.layers.#.post_feedforward_layernorm.weight": "blk.#.post_ffw_norm.weight",
}

OLMO2_NAMES = {
    name: to
    for name, to in GEMMA_NAMES.items()
    if "input_layernorm" not in name and "pre_feedforward_layernorm" not in name
}


def _gemma(config: HFConfig, usual_period: int, base: float) -> dict[str, Value]:
    activation = config.text("hidden_activation", "gelu_pytorch_tanh")
    if activation not in ("gelu_pytorch_tanh", "gelu_tanh"):
        raise UnsupportedModelError(
            f"the activation {show(activation)} of {config.name} is not supported with its architecture: use a model "
            "with gelu_pytorch_tanh"
        )
    if config.flag("use_bidirectional_attention", False):
        raise UnsupportedModelError(f"{config.name} describes an encoder, not a language model: use another model")
    layers = layer_count(config)
    # older configurations say every how many layers one is global, or leave that to the model
    period = config.count("sliding_window_pattern", usual_period)
    slides = [(i + 1) % period != 0 for i in range(layers)]
    return {
        **decoder_settings(config, 8192, head_dim=256, base=base),
        "attention.sliding_window": config.count("sliding_window", 4096),
        "attention.sliding_window_pattern": config.flag_list("layer_types", layers, LAYER_TYPES) or slides,
        "attention.scale": config.number("query_pre_attn_scalar", 256) ** -0.5,
        # conversion to GGUF adds it to the tensors
        "norm.gain_offset": 1.0,
    }


def gemma2_settings(config: HFConfig) -> dict[str, Value]:
    return {**_gemma(config, 2, 10000.0), **_caps(config, 50.0, 30.0)}


def gemma3_settings(config: HFConfig) -> dict[str, Value]:
    return {**_gemma(config, 6, 1e6), **_caps(config, 0.0, 0.0), "rope.freq_base_swa": local_rope_base(config)}


def _caps(config: HFConfig, scores: float, logits: float) -> dict[str, Value]:
    """The caps on scores and logits; null is none, which is written as 0."""
    assumed = {"attn_logit_softcapping": scores, "final_logit_softcapping": logits}
    return {
        key: 0.0 if config.values.get(key, cap or None) is None else config.number(key, cap)
        for key, cap in assumed.items()
    }


def olmo2_settings(config: HFConfig) -> dict[str, Value]:
    refuse_activations_but(config, "silu", "swish")
    return decoder_settings(config, 2048)
