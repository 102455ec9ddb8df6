"""BitNet in Hugging Face folders: names of tensors and settings.

Names: transformers, modeling_bitnet.py.
"""

from wgpu_engine.files.gguf_window import Value
from wgpu_engine.files.hf_config import HFConfig
from wgpu_engine.files.hf_decoder import decoder_settings, refuse_activations_but
from wgpu_engine.files.hf_llama import LLAMA_NAMES

BITNET_NAMES = {
    **{name: gguf for name, gguf in LLAMA_NAMES.items() if not name.endswith("*")},
    **{name[:-1] + "weight": gguf[:-1] + "weight" for name, gguf in LLAMA_NAMES.items() if name.endswith("*")},
    "model.layers.#.self_attn.attn_sub_norm.weight": "blk.#.attn_sub_norm.weight",
    "model.layers.#.mlp.ffn_sub_norm.weight": "blk.#.ffn_sub_norm.weight",
}


def bitnet_settings(config: HFConfig) -> dict[str, Value]:
    refuse_activations_but(config, "relu2", "silu")
    usual = {
        **config.values,
        "rms_norm_eps": config.number("rms_norm_eps", 1e-5),
        "rope_theta": config.number("rope_theta", 500000.0),
    }
    settings = decoder_settings(HFConfig(config.name, usual), 2048)
    return settings | {"hidden_activation": config.text("hidden_act", "relu2")}
