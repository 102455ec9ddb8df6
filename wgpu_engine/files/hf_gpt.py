"""GPT-2, GPT-NeoX and Phi in Hugging Face folders: names of tensors, settings, and where their values lie otherwise.

Names: transformers, modeling_gpt2.py, modeling_gpt_neox.py and modeling_phi.py.
"""

from wgpu_engine.errors import UnsupportedModelError
from wgpu_engine.files.gguf import TensorInfo
from wgpu_engine.files.gguf_window import Value, show
from wgpu_engine.files.hf_config import HFConfig
from wgpu_engine.files.hf_rope import rope_settings
from wgpu_engine.files.rearranged import transposed, with_rows

MOST_LAYERS = 1 << 12
MOST_HEADS = 1 << 12
ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_fast": "gelu_tanh",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "relu2": "relu2",
    "silu": "silu",
    "swish": "silu",
}
"""what ours are called, by the names in configurations"""

_GPT2 = {
    "wte.weight": "token_embd.weight",
    "wpe.weight": "position_embd.weight",
    "h.#.ln_1.*": "blk.#.attn_norm.*",
    "h.#.attn.c_attn.*": "blk.#.attn_qkv.*",
    "h.#.attn.c_proj.*": "blk.#.attn_output.*",
    # masks, which old files hold
    "h.#.attn.bias": "",
    "h.#.attn.masked_bias": "",
    "h.#.ln_2.*": "blk.#.ffn_norm.*",
    "h.#.mlp.c_fc.*": "blk.#.ffn_up.*",
    "h.#.mlp.c_proj.*": "blk.#.ffn_down.*",
    "ln_f.*": "output_norm.*",
}
GPT2_NAMES = {
    # the first models were published without the prefix
    **_GPT2,
    **{f"transformer.{name}": to for name, to in _GPT2.items()},
    "lm_head.weight": "output.weight",
}

GPT_NEOX_NAMES = {
    "gpt_neox.embed_in.weight": "token_embd.weight",
    "gpt_neox.layers.#.input_layernorm.*": "blk.#.attn_norm.*",
    "gpt_neox.layers.#.attention.query_key_value.*": "blk.#.attn_qkv.*",
    "gpt_neox.layers.#.attention.dense.*": "blk.#.attn_output.*",
    "gpt_neox.layers.#.attention.bias": "",
    "gpt_neox.layers.#.attention.masked_bias": "",
    "gpt_neox.layers.#.attention.rotary_emb.inv_freq": "",
    "gpt_neox.layers.#.post_attention_layernorm.*": "blk.#.ffn_norm.*",
    "gpt_neox.layers.#.mlp.dense_h_to_4h.*": "blk.#.ffn_up.*",
    "gpt_neox.layers.#.mlp.dense_4h_to_h.*": "blk.#.ffn_down.*",
    "gpt_neox.final_layer_norm.*": "output_norm.*",
    "embed_out.weight": "output.weight",
}

PHI_NAMES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.layers.#.input_layernorm.*": "blk.#.attn_norm.*",
    "model.layers.#.self_attn.q_proj.*": "blk.#.attn_q.*",
    "model.layers.#.self_attn.k_proj.*": "blk.#.attn_k.*",
    "model.layers.#.self_attn.v_proj.*": "blk.#.attn_v.*",
    "model.layers.#.self_attn.dense.*": "blk.#.attn_output.*",
    "model.layers.#.self_attn.rotary_emb.inv_freq": "",
    "model.layers.#.mlp.fc1.*": "blk.#.ffn_up.*",
    "model.layers.#.mlp.fc2.*": "blk.#.ffn_down.*",
    "model.final_layernorm.*": "output_norm.*",
    "lm_head.*": "output.*",
}


def activation(config: HFConfig, key: str, default: str) -> str:
    """The activation function that a configuration names, as `ops/matmul.py` calls it.

    Raises:
        UnsupportedModelError: one that this version can't compute.
    """
    found = config.text(key, default)
    if found not in ACTIVATIONS:
        raise UnsupportedModelError(
            f"the activation {show(found)} of {config.name} is not supported: use a model with one of "
            f"{', '.join(sorted(ACTIVATIONS))}"
        )
    return ACTIVATIONS[found]


def gpt2_settings(config: HFConfig) -> dict[str, Value]:
    """GGUF's settings, and two that it lacks: the activation function, and scores divided by the layer's number."""
    width = config.count("n_embd", 768)
    return {
        "context_length": config.count("n_positions", 1024),
        "block_count": config.count("n_layer", 12, largest=MOST_LAYERS),
        "embedding_length": width,
        "feed_forward_length": config.count("n_inner", 4 * width),
        "attention.head_count": config.count("n_head", 12, largest=MOST_HEADS),
        "attention.layer_norm_epsilon": config.number("layer_norm_epsilon", 1e-5),
        "activation": activation(config, "activation_function", "gelu_new"),
        **({} if config.flag("scale_attn_weights", True) else {"attention.scale": 1.0}),
        "attention.scale_by_layer": config.flag("scale_attn_by_inverse_layer_idx", False),
    }


def gpt_neox_settings(config: HFConfig) -> dict[str, Value]:
    settings = _decoder(config, config.number("rotary_pct", 0.25), config.number("rotary_emb_base", 10000.0))
    settings["activation"] = activation(config, "hidden_act", "gelu")
    settings["use_parallel_residual"] = config.flag("use_parallel_residual", True)
    return settings


def phi_settings(config: HFConfig) -> dict[str, Value]:
    if config.flag("qk_layernorm", False):
        raise UnsupportedModelError(
            f"{config.name} asks for layer norms of queries and keys, which is not supported with its architecture: "
            "use a model whose qk_layernorm is false"
        )
    settings = _decoder(config, 0.5, 10000.0)
    heads = config.count("num_attention_heads", largest=MOST_HEADS)
    settings["attention.head_count_kv"] = config.count("num_key_value_heads", heads, largest=MOST_HEADS)
    settings["activation"] = activation(config, "hidden_act", "gelu_new")
    return settings


def _decoder(config: HFConfig, part: float, base: float) -> dict[str, Value]:
    """The settings of a decoder with RoPE over a part of each head, and layer norms; `part` where it isn't said."""
    width, heads = config.count("hidden_size"), config.count("num_attention_heads", largest=MOST_HEADS)
    said = {"partial_rotary_factor": part, "rope_theta": base}
    usual = HFConfig(config.name, {**config.values, **{key: config.number(key, value) for key, value in said.items()}})
    return {
        "context_length": config.count("max_position_embeddings", 2048),
        "block_count": config.count("num_hidden_layers", largest=MOST_LAYERS),
        "embedding_length": width,
        "feed_forward_length": config.count("intermediate_size"),
        "attention.head_count": heads,
        "attention.layer_norm_epsilon": config.number("layer_norm_eps", 1e-5),
        **rope_settings(usual, width // heads),
    }


def gpt2_arranged(config: HFConfig, tensor: TensorInfo) -> TensorInfo:
    """Matrices of blocks lie transposed, [in, out]."""
    lies_otherwise = tensor.name.startswith("blk.") and len(tensor.shape) == 2
    return transposed(tensor) if lies_otherwise else tensor


def gpt_neox_arranged(config: HFConfig, tensor: TensorInfo) -> TensorInfo:
    """Query, key and value of each head lie side by side."""
    heads = config.count("num_attention_heads", largest=MOST_HEADS)
    if ".attn_qkv." not in tensor.name or tensor.shape[0] % (3 * heads):
        return tensor
    size = tensor.shape[0] // (3 * heads)
    return with_rows(tensor, [((3 * head + part) * size, size) for part in range(3) for head in range(heads)])
