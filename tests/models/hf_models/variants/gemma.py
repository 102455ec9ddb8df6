"""Gemma 2 and 3."""

from .variant import Variant

_GEMMA_LINEAR = {
    "full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
}


_SIX_LAYERS = {"num_hidden_layers": 6, "layer_types": None, "rope_scaling": {"rope_type": "linear", "factor": 8.0}}


_ALL_SLIDING = {"layer_types": ["sliding_attention"] * 2}


GEMMA = (
    Variant("Gemma2ForCausalLM", "a cap of scores", {}, {"attn_logit_softcapping": None}),
    Variant("Gemma2ForCausalLM", "a cap of logits", {}, {"final_logit_softcapping": None}, slow=True),
    Variant(
        "Gemma2ForCausalLM",
        "a scale of scores apart from heads",
        {"query_pre_attn_scalar": 9},
        {"query_pre_attn_scalar": 32},
        gguf={"query_pre_attn_scalar": 32},
    ),
    Variant(
        "Gemma2ForCausalLM",
        "windows in every other of three layers",
        {"num_hidden_layers": 3, "sliding_window": 7},
        {"layer_types": ["full_attention"] * 3},
        slow=True,
    ),
    Variant(
        "Gemma2ForCausalLM",
        "heads of 256",
        {"head_dim": 256, "query_pre_attn_scalar": 256},
        {"sliding_window": 99},
        dtype="BF16",
        slow=True,
    ),
    Variant("Gemma3ForCausalLM", "a global layer", {}, _ALL_SLIDING, gguf=_ALL_SLIDING),
    Variant(
        "Gemma3ForCausalLM",
        "two bases of RoPE",
        {},
        {"rope_local_base_freq": 1e6},
        gguf=_ALL_SLIDING,
        slow=True,
    ),
    Variant(
        "Gemma3ForCausalLM",
        "linear RoPE of the global layer",
        {"rope_parameters": _GEMMA_LINEAR},
        {"rope_parameters": _GEMMA_LINEAR | {"full_attention": {"rope_type": "default", "rope_theta": 1e6}}},
        gguf=_ALL_SLIDING,
    ),
    Variant(
        "Gemma3ForCausalLM",
        "many windows under a global layer",
        {"sliding_window": 20},
        _ALL_SLIDING,
        gguf=_ALL_SLIDING,
        tokens=300,
        slow=True,
    ),
    Variant(
        "Gemma3ForCausalLM", "the sixth of six layers is global", _SIX_LAYERS, {"sliding_window_pattern": 7}, slow=True
    ),
    Variant(
        "Gemma3ForCausalLM",
        "a scale of scores apart from heads, a cap of logits",
        {"query_pre_attn_scalar": 9, "final_logit_softcapping": 3.0},
        {"query_pre_attn_scalar": 32},
        gguf=_ALL_SLIDING | {"query_pre_attn_scalar": 32},
        slow=True,
    ),
    Variant(
        "Gemma3ForCausalLM",
        "heads of 256",
        {"head_dim": 256, "query_pre_attn_scalar": 256, "num_key_value_heads": 1},
        {"sliding_window": 99},
        gguf=_ALL_SLIDING,
        dtype="BF16",
        slow=True,
    ),
)
