"""The features of each architecture, switched on in a model of its own: what the harness goes through."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from .configs import config_of

Changes = Mapping[str, Any]


@dataclass(frozen=True)
class Variant:
    """A random model with a feature, and how to take the feature away."""

    architecture: str
    """the class that config.json names"""
    feature: str
    changes: Changes = field(default_factory=dict)
    """keys of the small configuration to replace; None is null, `...` leaves a key out"""
    without: Changes = field(default_factory=dict)
    """keys to replace in the reference alone, so that it lacks the feature: the logits have to tell"""
    lacking: str = ""
    """in the same way, tensors that become zeros: those with this in their name"""
    gguf: Changes | str = field(default_factory=dict)
    """keys that GGUF, as llama.cpp's converter writes it, takes for something else; or why it can't say all"""
    refused: str = ""
    """what the engine says that it doesn't support, if so"""
    tokens: int = 41
    dtype: Literal["F32", "BF16"] = "F32"
    slow: bool = False

    def __str__(self) -> str:
        return f"{self.architecture.removesuffix('ForCausalLM').removesuffix('LMHeadModel')}: {self.feature}"

    @property
    def ids(self) -> list[int]:
        return [(7 + 31 * i + i * i) % self.config["vocab_size"] for i in range(self.tokens)]

    @property
    def config(self) -> dict[str, Any]:
        return config_of(self.architecture, **self.changes)


def _rope(kind: str, base: float = 10000.0, **settings: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": kind, "rope_theta": base, **settings}}


def _factors(first: float, last: float, pairs: int) -> list[float]:
    return [first + (last - first) * i / (pairs - 1) for i in range(pairs)]


_PLAIN = _rope("default")
_YARN = {"factor": 4.0, "original_max_position_embeddings": 32}
_LONGROPE = {"short_factor": _factors(1.0, 3.0, 8), "long_factor": _factors(1.5, 9.0, 8)}
_NO_MSCALE = "the converter writes no mscale, truncate or attention factor that all read alike"
_NO_WINDOW = {"sliding_window": None}
_UNUSED_WINDOW = {"use_sliding_window": False}

_LLAMA = (
    Variant("LlamaForCausalLM", "linear RoPE", _rope("linear", factor=4.0), _PLAIN),
    Variant(
        "LlamaForCausalLM",
        "linear RoPE as it was written",
        {"rope_scaling": {"type": "linear", "factor": 4.0}},
        {"rope_scaling": None},
        slow=True,
    ),
    Variant(
        "LlamaForCausalLM",
        "dynamic RoPE within its context",
        _rope("dynamic", factor=4.0) | {"max_position_embeddings": 64},
        _rope("linear", factor=4.0),
    ),
    Variant(
        "LlamaForCausalLM",
        "dynamic RoPE in all of a context beyond its own",
        _rope("dynamic", factor=4.0) | {"max_position_embeddings": 32},
        _PLAIN,
        gguf="the converter doesn't write it",
        tokens=64,
        slow=True,
    ),
    Variant("LlamaForCausalLM", "YaRN", _rope("yarn", **_YARN), _rope("linear", factor=4.0)),
    Variant(
        "LlamaForCausalLM",
        "YaRN's amplitude",
        _rope("yarn", **_YARN),
        _rope("yarn", **_YARN, attention_factor=1.0),
        slow=True,
    ),
    Variant(
        "LlamaForCausalLM",
        "YaRN with mscale",
        _rope("yarn", **_YARN, mscale=1.4, mscale_all_dim=0.5),
        _rope("yarn", **_YARN),
        gguf=_NO_MSCALE,
    ),
    Variant(
        "LlamaForCausalLM",
        "YaRN with its amplitude given",
        _rope("yarn", **_YARN, attention_factor=1.5),
        _rope("yarn", **_YARN),
        gguf=_NO_MSCALE,
        slow=True,
    ),
    Variant(
        "LlamaForCausalLM",
        "YaRN with other bounds",
        _rope("yarn", **_YARN, beta_fast=4.0, beta_slow=0.5),
        _rope("yarn", **_YARN),
        slow=True,
    ),
    Variant(
        "LlamaForCausalLM",
        "YaRN with bounds between pairs",
        _rope("yarn", **_YARN, truncate=False),
        _rope("yarn", **_YARN),
        gguf=_NO_MSCALE,
        slow=True,
    ),
    Variant(
        "LlamaForCausalLM",
        "YaRN over heads of 128 and a long base",
        _rope("yarn", 1e6, factor=8.0, original_max_position_embeddings=64) | {"head_dim": 128},
        _rope("default", 1e6),
        slow=True,
    ),
    Variant(
        "LlamaForCausalLM",
        "LongRoPE within the original context",
        _rope("longrope", original_max_position_embeddings=64, **_LONGROPE),
        _PLAIN,
        gguf="the converter writes LongRoPE's factors for Phi 3 alone",
    ),
    Variant(
        "LlamaForCausalLM",
        "LongRoPE beyond the original context",
        _rope("longrope", original_max_position_embeddings=32, **_LONGROPE),
        _rope("longrope", original_max_position_embeddings=64, **_LONGROPE),
        gguf="the converter writes LongRoPE's factors for Phi 3 alone",
        slow=True,
    ),
    Variant(
        "LlamaForCausalLM",
        "Llama 3's RoPE over heads of 64",
        _rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64)
        | {"head_dim": 64},
        _PLAIN,
    ),
    Variant(
        "LlamaForCausalLM",
        "Llama 3's RoPE as it was written",
        {
            "head_dim": None,
            "rope_scaling": {
                "rope_type": "llama3",
                "factor": 32.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64,
            },
        },
        {"rope_scaling": None},
        slow=True,
    ),
    Variant("LlamaForCausalLM", "biases", {"attention_bias": True, "mlp_bias": True}, lacking=".bias"),
    Variant("LlamaForCausalLM", "heads of 8, an odd vocabulary", {"head_dim": 8, "vocab_size": 503}),
    Variant("LlamaForCausalLM", "heads of 96", {"head_dim": 96, "num_attention_heads": 3, "num_key_value_heads": 1}),
    Variant("LlamaForCausalLM", "heads of 128", {"head_dim": 128}, dtype="BF16", slow=True),
    Variant("LlamaForCausalLM", "heads of 256, tied", {"head_dim": 256, "tie_word_embeddings": True}, slow=True),
    Variant("LlamaForCausalLM", "a key head a head", {"num_key_value_heads": 4}, slow=True),
    Variant(
        "LlamaForCausalLM", "one key head for eight", {"num_attention_heads": 8, "num_key_value_heads": 1}, slow=True
    ),
    Variant(
        "LlamaForCausalLM",
        "BF16, rows of 72",
        {"hidden_size": 72, "intermediate_size": 200, "num_attention_heads": 3, "num_key_value_heads": 1},
        dtype="BF16",
        slow=True,
    ),
)

_MISTRAL = (
    Variant("MistralForCausalLM", "a window of 7", {"sliding_window": 7}, _NO_WINDOW, gguf=_NO_WINDOW),
    Variant(
        "MistralForCausalLM",
        "several windows of 32",
        {"sliding_window": 32, "head_dim": 32},
        _NO_WINDOW,
        gguf=_NO_WINDOW,
        tokens=150,
        slow=True,
    ),
    Variant(
        "MistralForCausalLM",
        "many windows of 20",
        {"sliding_window": 20},
        _NO_WINDOW,
        gguf=_NO_WINDOW,
        tokens=400,
        slow=True,
    ),
    Variant(
        "MistralForCausalLM",
        "a window as long as the prompt",
        {"sliding_window": 41},
        {"sliding_window": 40},
        slow=True,
    ),
    Variant("MistralForCausalLM", "a window of one", {"sliding_window": 1}, _NO_WINDOW, gguf=_NO_WINDOW, slow=True),
    Variant("MistralForCausalLM", "no window, heads of 128", {"head_dim": 128}, dtype="BF16", slow=True),
)

_QWEN = (
    Variant(
        "Qwen2ForCausalLM",
        "windows in the upper layers",
        {"use_sliding_window": True, "max_window_layers": 1},
        _UNUSED_WINDOW,
        gguf=_UNUSED_WINDOW,
    ),
    Variant(
        "Qwen2ForCausalLM",
        "windows where layer_types says",
        {"use_sliding_window": True, "layer_types": ["sliding_attention", "full_attention"]},
        _UNUSED_WINDOW,
        gguf=_UNUSED_WINDOW,
        slow=True,
    ),
    Variant("Qwen2ForCausalLM", "biases, tied, BF16", {"tie_word_embeddings": True}, lacking=".bias", dtype="BF16"),
    Variant(
        "Qwen2ForCausalLM",
        "YaRN as it was written",
        {"rope_scaling": {"type": "yarn", **_YARN}},
        {"rope_scaling": None},
        slow=True,
    ),
    Variant("Qwen3ForCausalLM", "norms of heads", lacking="self_attn.q_norm", slow=True),
    Variant(
        "Qwen3ForCausalLM", "biases", {"attention_bias": True}, lacking=".bias", gguf="no biases of output", slow=True
    ),
    Variant("Qwen3ForCausalLM", "heads of 128, tied", {"head_dim": 128, "tie_word_embeddings": True}, dtype="BF16"),
    Variant(
        "Qwen3ForCausalLM",
        "windows in the upper layers",
        {"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 1},
        _UNUSED_WINDOW,
        gguf=_UNUSED_WINDOW,
        slow=True,
    ),
    Variant("Qwen3MoeForCausalLM", "shares that add up to one", {}, {"norm_topk_prob": False}),
    Variant(
        "Qwen3MoeForCausalLM",
        "shares as they are",
        {"norm_topk_prob": False, "num_experts_per_tok": 3},
        {"norm_topk_prob": True},
        gguf={"norm_topk_prob": True},
        slow=True,
    ),
    Variant(
        "Qwen3MoeForCausalLM",
        "a layer without experts",
        {"mlp_only_layers": [0]},
        gguf="llama.cpp has experts in all layers of this architecture",
    ),
    Variant(
        "Qwen3MoeForCausalLM",
        "experts in every other layer",
        {"decoder_sparse_step": 2},
        gguf="llama.cpp has experts in all layers of this architecture",
        slow=True,
    ),
    Variant("Qwen3MoeForCausalLM", "128 experts, most without a token", {"num_experts": 128}, tokens=11, slow=True),
    Variant("Qwen3MoeForCausalLM", "all of the experts", {"num_experts": 3, "num_experts_per_tok": 3}, slow=True),
    Variant(
        "Qwen3MoeForCausalLM",
        "windows",
        {"use_sliding_window": True, "sliding_window": 16},
        _UNUSED_WINDOW,
        gguf=_UNUSED_WINDOW,
        slow=True,
    ),
    Variant("MixtralForCausalLM", "experts without a token", {"num_local_experts": 16}, tokens=5),
    Variant("MixtralForCausalLM", "a window of 16", {"sliding_window": 16}, _NO_WINDOW, gguf=_NO_WINDOW, slow=True),
    Variant("MixtralForCausalLM", "one expert a token, BF16", {"num_experts_per_tok": 1}, dtype="BF16", slow=True),
)

_GEMMA_LINEAR = {
    "full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
}
_SIX_LAYERS = {"num_hidden_layers": 6, "layer_types": None, "rope_scaling": {"rope_type": "linear", "factor": 8.0}}
_ALL_SLIDING = {"layer_types": ["sliding_attention"] * 2}
_GEMMA = (
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

_PHI = (
    Variant("PhiForCausalLM", "half of a head turns", {}, {"partial_rotary_factor": 1.0}),
    Variant(
        "PhiForCausalLM",
        "half of a head turns where nothing says so",
        {"partial_rotary_factor": ..., "rope_theta": ...},
        {"partial_rotary_factor": 1.0},
        slow=True,
    ),
    Variant(
        "PhiForCausalLM",
        "0.4 of heads of 80",
        {"hidden_size": 160, "num_attention_heads": 2, "partial_rotary_factor": 0.4},
        {"partial_rotary_factor": 1.0},
        slow=True,
    ),
    Variant(
        "PhiForCausalLM",
        "norms of heads",
        {"qk_layernorm": True},
        {"qk_layernorm": False},
        gguf="no such tensors",
        refused="layer norms of queries and keys",
        slow=True,
    ),
    Variant("PhiForCausalLM", "biases", {"num_key_value_heads": 2}, lacking="proj.bias", slow=True),
    Variant(
        "Phi3ForCausalLM",
        "LongRoPE within the original context",
        _rope("longrope", **_LONGROPE) | {"original_max_position_embeddings": 64},
        _PLAIN,
    ),
    Variant(
        "Phi3ForCausalLM",
        "LongRoPE beyond the original context",
        {"rope_scaling": {"type": "su", **_LONGROPE}, "original_max_position_embeddings": 32},
        {"rope_scaling": {"type": "longrope", **_LONGROPE, "long_factor": _LONGROPE["short_factor"]}},
    ),
    Variant(
        "Phi3ForCausalLM",
        "LongRoPE over 0.75 of a head, tied",
        {
            "rope_scaling": {"type": "longrope", "short_factor": [1.0] * 6, "long_factor": _factors(1.2, 8.0, 6)},
            "original_max_position_embeddings": 32,
            "partial_rotary_factor": 0.75,
            "tie_word_embeddings": True,
        },
        {"original_max_position_embeddings": 512},
        slow=True,
    ),
    Variant("Phi3ForCausalLM", "a window of 16", {"sliding_window": 16}, _NO_WINDOW),
    Variant(
        "Phi3ForCausalLM",
        "heads of 96, BF16",
        {"hidden_size": 192, "num_attention_heads": 2, "num_key_value_heads": 2},
        dtype="BF16",
        slow=True,
    ),
)

_OTHERS = (
    Variant(
        "GPT2LMHeadModel",
        "scores divided by the layer",
        {"scale_attn_by_inverse_layer_idx": True},
        {"scale_attn_by_inverse_layer_idx": False},
        gguf={"scale_attn_by_inverse_layer_idx": False},
        slow=True,
    ),
    Variant("GPT2LMHeadModel", "positions", {"n_inner": 96, "vocab_size": 503}, lacking="wpe"),
    Variant("GPT2LMHeadModel", "heads of 64, BF16", {"n_embd": 128, "n_head": 2}, dtype="BF16", slow=True),
    Variant(
        "GPTNeoXForCausalLM", "one after the other", {"use_parallel_residual": False}, {"use_parallel_residual": True}
    ),
    Variant("GPTNeoXForCausalLM", "all of a head turns", {"rotary_pct": 1.0}, {"rotary_pct": 0.25}, slow=True),
    Variant("GPTNeoXForCausalLM", "biases", {"vocab_size": 503}, lacking=".bias", dtype="BF16", slow=True),
    Variant(
        "GPTNeoXForCausalLM",
        "no biases in attention",
        {"attention_bias": False},
        gguf="llama.cpp wants the biases",
        slow=True,
    ),
    Variant(
        "GPTNeoXForCausalLM",
        "a quarter of a head turns where nothing says so",
        {"rotary_pct": ..., "rotary_emb_base": ...},
        {"rotary_pct": 1.0},
        slow=True,
    ),
    Variant("GraniteForCausalLM", "its four factors", {}, {"attention_multiplier": 0.25}),
    Variant("GraniteForCausalLM", "the factor of sums", {}, {"residual_multiplier": 1.0}, slow=True),
    Variant(
        "GraniteForCausalLM",
        "the factor of embeddings, biases",
        {"attention_bias": True, "tie_word_embeddings": False},
        {"embedding_multiplier": 1.0},
        slow=True,
    ),
    Variant("Olmo2ForCausalLM", "a key head a head", {"num_key_value_heads": 4}, slow=True),
    Variant(
        "Olmo2ForCausalLM", "YaRN, BF16", _rope("yarn", 500000.0, **_YARN), _rope("default", 500000.0), dtype="BF16"
    ),
    Variant(
        "Lfm2ForCausalLM",
        "attention between convolutions",
        {"num_hidden_layers": 3, "layer_types": ["conv", "full_attention", "conv"]},
        {"rope_theta": 100.0},
    ),
    Variant(
        "Lfm2ForCausalLM",
        "keys as they were at first",
        {
            "block_ff_dim": 160,
            "full_attn_idxs": [0],
            "layer_types": None,
            "rope_theta": ...,
            "theta": 300.0,
            "tie_embedding": True,
            "tie_word_embeddings": ...,
        },
        {"theta": 1e6},
        slow=True,
    ),
    Variant(
        "Lfm2ForCausalLM",
        "a convolution of 4 with biases",
        {"conv_L_cache": 4, "conv_bias": True},
        lacking=".bias",
        gguf="no such tensors",
    ),
    Variant(
        "Lfm2ForCausalLM",
        "a feed-forward of the width given, BF16",
        {"block_auto_adjust_ff_dim": False},
        dtype="BF16",
        slow=True,
    ),
    Variant("SmolLM3ForCausalLM", "the fourth of four layers knows no positions", {}, {"no_rope_layers": [1] * 4}),
    Variant(
        "SmolLM3ForCausalLM",
        "layers without positions listed",
        {"no_rope_layers": [1, 1, 1, 0]},
        {"no_rope_layers": [0] * 4},
        slow=True,
    ),
    Variant(
        "SmolLM3ForCausalLM",
        "other layers without positions",
        {"num_hidden_layers": 2, "no_rope_layers": [0, 1]},
        {"no_rope_layers": [1, 1]},
        gguf="llama.cpp knows every fourth layer only",
    ),
    Variant(
        "SmolLM3ForCausalLM",
        "windows where positions aren't known, every other layer",
        {"use_sliding_window": True, "sliding_window": 16, "no_rope_layer_interval": 2},
        {"use_sliding_window": False},
        gguf="llama.cpp knows every fourth layer only",
        slow=True,
    ),
    Variant(
        "SmolLM3ForCausalLM",
        "YaRN, biases",
        _rope("yarn", 2e6, **_YARN) | {"attention_bias": True},
        _rope("default", 2e6),
        slow=True,
    ),
    Variant("BitNetForCausalLM", "squares of positive gates", {}, {"hidden_act": "silu"}),
    Variant(
        "BitNetForCausalLM",
        "norms inside, BF16",
        {"rope_theta": 500000.0},
        {"rope_theta": 10000.0},
        dtype="BF16",
        slow=True,
    ),
)

VARIANTS = (*_LLAMA, *_MISTRAL, *_QWEN, *_GEMMA, *_PHI, *_OTHERS)
