"""GPT-2 and GPT-NeoX, Granite, OLMo 2, LFM2, SmolLM3 and BitNet."""

from .variant import YARN, Variant, rope_of

OTHERS = (
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
        "Olmo2ForCausalLM", "YaRN, BF16", rope_of("yarn", 500000.0, **YARN), rope_of("default", 500000.0), dtype="BF16"
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
        rope_of("yarn", 2e6, **YARN) | {"attention_bias": True},
        rope_of("default", 2e6),
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
