"""Phi 1 to 3."""

from .variant import LONGROPE, NO_WINDOW, PLAIN, Variant, factors_between, rope_of

PHI = (
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
        rope_of("longrope", **LONGROPE) | {"original_max_position_embeddings": 64},
        PLAIN,
    ),
    Variant(
        "Phi3ForCausalLM",
        "LongRoPE beyond the original context",
        {"rope_scaling": {"type": "su", **LONGROPE}, "original_max_position_embeddings": 32},
        {"rope_scaling": {"type": "longrope", **LONGROPE, "long_factor": LONGROPE["short_factor"]}},
    ),
    Variant(
        "Phi3ForCausalLM",
        "LongRoPE over 0.75 of a head, tied",
        {
            "rope_scaling": {
                "type": "longrope",
                "short_factor": [1.0] * 6,
                "long_factor": factors_between(1.2, 8.0, 6),
            },
            "original_max_position_embeddings": 32,
            "partial_rotary_factor": 0.75,
            "tie_word_embeddings": True,
        },
        {"original_max_position_embeddings": 512},
        slow=True,
    ),
    Variant("Phi3ForCausalLM", "a window of 16", {"sliding_window": 16}, NO_WINDOW),
    Variant(
        "Phi3ForCausalLM",
        "heads of 96, BF16",
        {"hidden_size": 192, "num_attention_heads": 2, "num_key_value_heads": 2},
        dtype="BF16",
        slow=True,
    ),
)
