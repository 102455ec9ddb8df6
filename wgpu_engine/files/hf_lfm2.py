"""LFM2 in Hugging Face folders: names of tensors and settings.

Names: transformers, modeling_lfm2.py.
"""

from wgpu_engine.errors import UnsupportedModelError
from wgpu_engine.files.gguf_window import Value
from wgpu_engine.files.hf_config import HFConfig
from wgpu_engine.files.hf_decoder import decoder_settings, layer_count

LFM2_NAMES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.layers.#.operator_norm.weight": "blk.#.attn_norm.weight",
    "model.layers.#.self_attn.q_proj.weight": "blk.#.attn_q.weight",
    "model.layers.#.self_attn.k_proj.weight": "blk.#.attn_k.weight",
    "model.layers.#.self_attn.v_proj.weight": "blk.#.attn_v.weight",
    "model.layers.#.self_attn.q_layernorm.weight": "blk.#.attn_q_norm.weight",
    "model.layers.#.self_attn.k_layernorm.weight": "blk.#.attn_k_norm.weight",
    "model.layers.#.self_attn.out_proj.weight": "blk.#.attn_output.weight",
    "model.layers.#.conv.in_proj.*": "blk.#.shortconv.in_proj.*",
    "model.layers.#.conv.conv.*": "blk.#.shortconv.conv.*",
    "model.layers.#.conv.out_proj.*": "blk.#.shortconv.out_proj.*",
    "model.layers.#.ffn_norm.weight": "blk.#.ffn_norm.weight",
    "model.layers.#.feed_forward.w1.weight": "blk.#.ffn_gate.weight",
    "model.layers.#.feed_forward.w2.weight": "blk.#.ffn_down.weight",
    "model.layers.#.feed_forward.w3.weight": "blk.#.ffn_up.weight",
    "model.embedding_norm.weight": "token_embd_norm.weight",
    "lm_head.weight": "output.weight",
}


def lfm2_settings(config: HFConfig) -> dict[str, Value]:
    """Keys as transformers has them, or as the models were first published with."""
    values = config.values
    if config.flag("tie_embedding", True) != config.flag("tie_word_embeddings", True):
        raise UnsupportedModelError(
            f"{config.name} says both that the output head is tied and that it isn't: set tie_embedding and "
            "tie_word_embeddings to the same, or download it again"
        )
    feed_forward = config.count("block_ff_dim", config.count("intermediate_size", 12288))
    if config.flag("block_auto_adjust_ff_dim", True):
        feed_forward = 2 * feed_forward // 3
        if values.get("block_ffn_dim_multiplier", 1.0) is not None:
            feed_forward = int(config.number("block_ffn_dim_multiplier", 1.0) * feed_forward)
            feed_forward += -feed_forward % config.count("block_multiple_of", 256)
    usual = {
        **values,
        "rms_norm_eps": config.number("norm_eps", 1e-5),
        "intermediate_size": max(1, feed_forward),
        "rope_theta": config.number("theta", config.number("rope_theta", 1e6)),
    }
    settings = decoder_settings(HFConfig(config.name, usual), 128000)
    heads = settings["attention.head_count_kv"]
    settings["attention.head_count_kv"] = [heads if attends else 0 for attends in _lfm2_attends(config)]
    return settings | {"shortconv.l_cache": config.count("conv_L_cache", 3)}


def _lfm2_attends(config: HFConfig) -> list[bool]:
    """Whether each layer has attention, or else a convolution."""
    layers, kinds = layer_count(config), config.texts("layer_types")
    numbers = config.values.get("full_attn_idxs")
    if not kinds and isinstance(numbers, list | None):
        kinds = ["full_attention" if numbers is None or i in numbers else "conv" for i in range(layers)]
    if len(kinds) != layers or not set(kinds) <= {"full_attention", "conv"}:
        raise UnsupportedModelError(
            f"{config.name} doesn't say of each of its {layers} layers whether it is conv or full_attention: correct "
            "its layer_types, or download it again"
        )
    return [kind == "full_attention" for kind in kinds]
