"""Llama and Mistral."""

from .variant import LONGROPE, NO_WINDOW, PLAIN, YARN, Variant, rope_of

_NO_MSCALE = "the converter writes no mscale, truncate or attention factor that all read alike"


LLAMA = (
    Variant("LlamaForCausalLM", "linear RoPE", rope_of("linear", factor=4.0), PLAIN),
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
        rope_of("dynamic", factor=4.0) | {"max_position_embeddings": 64},
        rope_of("linear", factor=4.0),
    ),
    Variant(
        "LlamaForCausalLM",
        "dynamic RoPE in all of a context beyond its own",
        rope_of("dynamic", factor=4.0) | {"max_position_embeddings": 32},
        PLAIN,
        gguf="the converter doesn't write it",
        tokens=64,
        slow=True,
    ),
    Variant("LlamaForCausalLM", "YaRN", rope_of("yarn", **YARN), rope_of("linear", factor=4.0)),
    Variant(
        "LlamaForCausalLM",
        "YaRN's amplitude",
        rope_of("yarn", **YARN),
        rope_of("yarn", **YARN, attention_factor=1.0),
        slow=True,
    ),
    Variant(
        "LlamaForCausalLM",
        "YaRN with mscale",
        rope_of("yarn", **YARN, mscale=1.4, mscale_all_dim=0.5),
        rope_of("yarn", **YARN),
        gguf=_NO_MSCALE,
    ),
    Variant(
        "LlamaForCausalLM",
        "YaRN with its amplitude given",
        rope_of("yarn", **YARN, attention_factor=1.5),
        rope_of("yarn", **YARN),
        gguf=_NO_MSCALE,
        slow=True,
    ),
    Variant(
        "LlamaForCausalLM",
        "YaRN with other bounds",
        rope_of("yarn", **YARN, beta_fast=4.0, beta_slow=0.5),
        rope_of("yarn", **YARN),
        slow=True,
    ),
    Variant(
        "LlamaForCausalLM",
        "YaRN with bounds between pairs",
        rope_of("yarn", **YARN, truncate=False),
        rope_of("yarn", **YARN),
        gguf=_NO_MSCALE,
        slow=True,
    ),
    Variant(
        "LlamaForCausalLM",
        "YaRN over heads of 128 and a long base",
        rope_of("yarn", 1e6, factor=8.0, original_max_position_embeddings=64) | {"head_dim": 128},
        rope_of("default", 1e6),
        slow=True,
    ),
    Variant(
        "LlamaForCausalLM",
        "LongRoPE within the original context",
        rope_of("longrope", original_max_position_embeddings=64, **LONGROPE),
        PLAIN,
        gguf="the converter writes LongRoPE's factors for Phi 3 alone",
    ),
    Variant(
        "LlamaForCausalLM",
        "LongRoPE beyond the original context",
        rope_of("longrope", original_max_position_embeddings=32, **LONGROPE),
        rope_of("longrope", original_max_position_embeddings=64, **LONGROPE),
        gguf="the converter writes LongRoPE's factors for Phi 3 alone",
        slow=True,
    ),
    Variant(
        "LlamaForCausalLM",
        "Llama 3's RoPE over heads of 64",
        rope_of("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64)
        | {"head_dim": 64},
        PLAIN,
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


MISTRAL = (
    Variant("MistralForCausalLM", "a window of 7", {"sliding_window": 7}, NO_WINDOW, gguf=NO_WINDOW),
    Variant(
        "MistralForCausalLM",
        "several windows of 32",
        {"sliding_window": 32, "head_dim": 32},
        NO_WINDOW,
        gguf=NO_WINDOW,
        tokens=150,
        slow=True,
    ),
    Variant(
        "MistralForCausalLM",
        "many windows of 20",
        {"sliding_window": 20},
        NO_WINDOW,
        gguf=NO_WINDOW,
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
    Variant("MistralForCausalLM", "a window of one", {"sliding_window": 1}, NO_WINDOW, gguf=NO_WINDOW, slow=True),
    Variant("MistralForCausalLM", "no window, heads of 128", {"head_dim": 128}, dtype="BF16", slow=True),
)
