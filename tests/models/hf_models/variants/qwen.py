"""Qwen and Mixtral, with experts and without."""

from .variant import NO_WINDOW, UNUSED_WINDOW, YARN, Variant

QWEN = (
    Variant(
        "Qwen2ForCausalLM",
        "windows in the upper layers",
        {"use_sliding_window": True, "max_window_layers": 1},
        UNUSED_WINDOW,
        gguf=UNUSED_WINDOW,
    ),
    Variant(
        "Qwen2ForCausalLM",
        "windows where layer_types says",
        {"use_sliding_window": True, "layer_types": ["sliding_attention", "full_attention"]},
        UNUSED_WINDOW,
        gguf=UNUSED_WINDOW,
        slow=True,
    ),
    Variant("Qwen2ForCausalLM", "biases, tied, BF16", {"tie_word_embeddings": True}, lacking=".bias", dtype="BF16"),
    Variant(
        "Qwen2ForCausalLM",
        "YaRN as it was written",
        {"rope_scaling": {"type": "yarn", **YARN}},
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
        UNUSED_WINDOW,
        gguf=UNUSED_WINDOW,
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
        UNUSED_WINDOW,
        gguf=UNUSED_WINDOW,
        slow=True,
    ),
    Variant("Qwen2MoeForCausalLM", "an expert for all tokens", lacking="shared_expert.down_proj"),
    Variant("Qwen2MoeForCausalLM", "a share of the expert for all", lacking="shared_expert_gate"),
    Variant(
        "Qwen2MoeForCausalLM",
        "shares that add up to one, BF16",
        {"norm_topk_prob": True, "num_experts_per_tok": 4, "shared_expert_intermediate_size": 192},
        {"norm_topk_prob": False},
        gguf={"norm_topk_prob": False},
        dtype="BF16",
        slow=True,
    ),
    Variant("MixtralForCausalLM", "experts without a token", {"num_local_experts": 16}, tokens=5),
    Variant("MixtralForCausalLM", "a window of 16", {"sliding_window": 16}, NO_WINDOW, gguf=NO_WINDOW, slow=True),
    Variant("MixtralForCausalLM", "one expert a token, BF16", {"num_experts_per_tok": 1}, dtype="BF16", slow=True),
)
