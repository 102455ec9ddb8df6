"""Llama, Mistral, Qwen, Phi 3, SmolLM3 and Granite in Hugging Face folders: names of tensors and settings.

Names: transformers, modeling_llama.py and what its kin have.
"""

from wgpu_engine.files.gguf_window import Value
from wgpu_engine.files.hf_config import HFConfig
from wgpu_engine.files.hf_decoder import decoder_settings, layer_count, refuse_activations_but, window_settings

LLAMA_NAMES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.layers.#.input_layernorm.weight": "blk.#.attn_norm.weight",
    "model.layers.#.self_attn.q_proj.*": "blk.#.attn_q.*",
    "model.layers.#.self_attn.k_proj.*": "blk.#.attn_k.*",
    "model.layers.#.self_attn.v_proj.*": "blk.#.attn_v.*",
    "model.layers.#.self_attn.o_proj.*": "blk.#.attn_output.*",
    "model.layers.#.self_attn.rotary_emb.inv_freq": "",
    "model.layers.#.post_attention_layernorm.weight": "blk.#.ffn_norm.weight",
    "model.layers.#.mlp.gate_proj.*": "blk.#.ffn_gate.*",
    "model.layers.#.mlp.up_proj.*": "blk.#.ffn_up.*",
    "model.layers.#.mlp.down_proj.*": "blk.#.ffn_down.*",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}

QWEN3_NAMES = {
    **LLAMA_NAMES,
    "model.layers.#.self_attn.q_norm.weight": "blk.#.attn_q_norm.weight",
    "model.layers.#.self_attn.k_norm.weight": "blk.#.attn_k_norm.weight",
}

PHI3_NAMES = {
    **LLAMA_NAMES,
    "model.layers.#.self_attn.qkv_proj.weight": "blk.#.attn_qkv.weight",
    "model.layers.#.mlp.gate_up_proj.weight": "blk.#.ffn_up.weight",
}

MIXTRAL_NAMES = {
    **LLAMA_NAMES,
    "model.layers.#.block_sparse_moe.gate.weight": "blk.#.ffn_gate_inp.weight",
    "model.layers.#.block_sparse_moe.experts.#.w1.weight": "blk.#.ffn_gate.#.weight",
    "model.layers.#.block_sparse_moe.experts.#.w2.weight": "blk.#.ffn_down.#.weight",
    "model.layers.#.block_sparse_moe.experts.#.w3.weight": "blk.#.ffn_up.#.weight",
}

_QWEN_EXPERTS = {
    "model.layers.#.mlp.gate.weight": "blk.#.ffn_gate_inp.weight",
    "model.layers.#.mlp.experts.#.gate_proj.weight": "blk.#.ffn_gate.#.weight",
    "model.layers.#.mlp.experts.#.up_proj.weight": "blk.#.ffn_up.#.weight",
    "model.layers.#.mlp.experts.#.down_proj.weight": "blk.#.ffn_down.#.weight",
}
QWEN3_MOE_NAMES = {**QWEN3_NAMES, **_QWEN_EXPERTS}
QWEN2_MOE_NAMES = {
    **LLAMA_NAMES,
    **_QWEN_EXPERTS,
    "model.layers.#.mlp.shared_expert_gate.weight": "blk.#.ffn_gate_inp_shexp.weight",
    "model.layers.#.mlp.shared_expert.gate_proj.weight": "blk.#.ffn_gate_shexp.weight",
    "model.layers.#.mlp.shared_expert.up_proj.weight": "blk.#.ffn_up_shexp.weight",
    "model.layers.#.mlp.shared_expert.down_proj.weight": "blk.#.ffn_down_shexp.weight",
}


def llama_settings(config: HFConfig) -> dict[str, Value]:
    refuse_activations_but(config, "silu", "swish")
    return decoder_settings(config, 2048)


def mistral_settings(config: HFConfig) -> dict[str, Value]:
    refuse_activations_but(config, "silu", "swish")
    return {**decoder_settings(config, 131072), **window_settings(config, 4096)}


def mixtral_settings(config: HFConfig) -> dict[str, Value]:
    return {
        **llama_settings(config),
        **window_settings(config, None),
        "context_length": config.count("max_position_embeddings", 131072),
        "expert_count": config.count("num_local_experts", 8),
        "expert_used_count": config.count("num_experts_per_tok", 2),
    }


def qwen2_settings(config: HFConfig) -> dict[str, Value]:
    refuse_activations_but(config, "silu", "swish")
    settings = decoder_settings(config, 32768)
    if not config.flag("use_sliding_window", False):
        return settings
    return {**settings, **window_settings(config, 4096, config.count("max_window_layers", 28, smallest=0))}


def qwen2_moe_settings(config: HFConfig) -> dict[str, Value]:
    return {
        **qwen2_settings(config),
        "expert_count": config.count("num_experts", 60),
        "expert_used_count": config.count("num_experts_per_tok", 4),
        "expert_feed_forward_length": config.count("moe_intermediate_size", 1408),
        "expert_shared_feed_forward_length": config.count("shared_expert_intermediate_size", 5632),
        "expert_weights_norm": config.flag("norm_topk_prob", False),
    }


def qwen3_moe_settings(config: HFConfig) -> dict[str, Value]:
    """Which layers have experts, their tensors say; `num_local_experts` is what transformers 5 writes."""
    refuse_activations_but(config, "silu", "swish")
    return {
        **decoder_settings(config, 32768),
        **(window_settings(config, 4096) if config.flag("use_sliding_window", False) else {}),
        "expert_count": config.count("num_local_experts", config.count("num_experts", 128)),
        "expert_used_count": config.count("num_experts_per_tok", 8),
        "expert_feed_forward_length": config.count("moe_intermediate_size", 768),
        "expert_weights_norm": config.flag("norm_topk_prob", False),
    }


def phi3_settings(config: HFConfig) -> dict[str, Value]:
    refuse_activations_but(config, "silu", "swish")
    return {**decoder_settings(config, 4096), **window_settings(config, None)}


def smollm3_settings(config: HFConfig) -> dict[str, Value]:
    """Layers without positions are those that have windows, where there are windows."""
    refuse_activations_but(config, "silu", "swish")
    settings, layers = decoder_settings(config, 32768), layer_count(config)
    # 1 stands for a layer with positions, in spite of the name
    rotated = config.flag_list("no_rope_layers", layers, {1: True, 0: False})
    if rotated is None:
        interval = config.count("no_rope_layer_interval", 4)
        rotated = [(i + 1) % interval != 0 for i in range(layers)]
    settings["rope.layers"] = rotated
    if config.flag("use_sliding_window", False):
        settings |= window_settings(config, None)
        if config.values.get("layer_types") is None and "attention.sliding_window" in settings:
            settings["attention.sliding_window_pattern"] = [not each for each in rotated]
    return settings


def granite_settings(config: HFConfig) -> dict[str, Value]:
    return {
        **llama_settings(config),
        "attention.scale": config.number("attention_multiplier", 1.0),
        "embedding_scale": config.number("embedding_multiplier", 1.0),
        "residual_scale": config.number("residual_multiplier", 1.0),
        "logit_scale": config.number("logits_scaling", 1.0),
    }
