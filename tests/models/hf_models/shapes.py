"""The tensors that a configuration asks for: names and shapes as published."""

from collections.abc import Callable, Mapping
from typing import Any

Shapes = dict[str, tuple[int, ...]]
Config = Mapping[str, Any]


def shapes(config: Config) -> Shapes:
    """Every tensor of a model's folder."""
    return _ARCHITECTURES[config["architectures"][0]](config)


def _sizes(config: Config) -> tuple[int, int, int, int]:
    """Width, width of all queries, of all keys, and of the feed-forward."""
    width, heads = config["hidden_size"], config["num_attention_heads"]
    head_dim = config.get("head_dim") or width // heads
    return width, heads * head_dim, (config.get("num_key_value_heads") or heads) * head_dim, config["intermediate_size"]


def _linear(name: str, out: int, into: int, bias: bool = False) -> Shapes:
    return {f"{name}.weight": (out, into), **({f"{name}.bias": (out,)} if bias else {})}


def _norm(name: str, width: int, bias: bool = False) -> Shapes:
    return {f"{name}.weight": (width,), **({f"{name}.bias": (width,)} if bias else {})}


def _ends(config: Config, norm: str = "model.norm", bias: bool = False, head_bias: bool = False) -> Shapes:
    width, vocab = config["hidden_size"], config["vocab_size"]
    tied = config.get("tie_embedding", config.get("tie_word_embeddings"))
    head = {} if tied else _linear("lm_head", vocab, width, head_bias)
    return {"model.embed_tokens.weight": (vocab, width), **_norm(norm, width, bias), **head}


def _attention(name: str, config: Config, output: str = "o_proj") -> Shapes:
    width, q, kv, _ = _sizes(config)
    bias = config.get("attention_bias", False)
    qkv_bias = bias or config["model_type"] in ("qwen2", "qwen2_moe")
    sizes = {"q_proj": q, "k_proj": kv, "v_proj": kv}
    projections = {
        k: v for each, out in sizes.items() for k, v in _linear(f"{name}.{each}", out, width, qkv_bias).items()
    }
    return {**projections, **_linear(f"{name}.{output}", width, q, bias)}


def _gated(name: str, width: int, inner: int, bias: bool = False) -> Shapes:
    up = {**_linear(f"{name}.gate_proj", inner, width, bias), **_linear(f"{name}.up_proj", inner, width, bias)}
    return {**up, **_linear(f"{name}.down_proj", width, inner, bias)}


def _layers(config: Config, layer: Callable[[int, str], Shapes], prefix: str = "model.layers") -> Shapes:
    count = config["num_hidden_layers"]
    return {name: shape for i in range(count) for name, shape in layer(i, f"{prefix}.{i}").items()}


def _llama(config: Config, feed_forward: Callable[[int, str], Shapes] | None = None) -> Shapes:
    """Llama, and those that differ from it in norms or in the feed-forward."""
    width, q, kv, inner = _sizes(config)
    kind, head_dim = config["model_type"], q // config["num_attention_heads"]
    olmo, gemma = kind == "olmo2", kind in ("gemma2", "gemma3_text")

    def layer(i: int, name: str) -> Shapes:
        tensors = _attention(f"{name}.self_attn", config)
        tensors |= (
            feed_forward(i, name)
            if feed_forward
            else _gated(f"{name}.mlp", width, inner, config.get("mlp_bias", False))
        )
        norms = ["post_attention_layernorm"] + ["input_layernorm"] * (not olmo)
        norms += ["post_feedforward_layernorm"] * (olmo or gemma) + ["pre_feedforward_layernorm"] * gemma
        for each in norms:
            tensors |= _norm(f"{name}.{each}", width)
        if kind in ("qwen3", "qwen3_moe", "gemma3_text"):
            tensors |= _norm(f"{name}.self_attn.q_norm", head_dim) | _norm(f"{name}.self_attn.k_norm", head_dim)
        if olmo:
            tensors |= _norm(f"{name}.self_attn.q_norm", q) | _norm(f"{name}.self_attn.k_norm", kv)
        if kind == "bitnet":
            tensors |= _norm(f"{name}.self_attn.attn_sub_norm", q) | _norm(f"{name}.mlp.ffn_sub_norm", inner)
        return tensors

    return _ends(config) | _layers(config, layer)


def _mixtral(config: Config) -> Shapes:
    width, _, _, inner = _sizes(config)

    def experts(_: int, name: str) -> Shapes:
        block = f"{name}.block_sparse_moe"
        tensors = _linear(f"{block}.gate", config["num_local_experts"], width)
        for i in range(config["num_local_experts"]):
            tensors |= _linear(f"{block}.experts.{i}.w1", inner, width) | _linear(
                f"{block}.experts.{i}.w3", inner, width
            )
            tensors |= _linear(f"{block}.experts.{i}.w2", width, inner)
        return tensors

    return _llama(config, experts)


def _qwen_moe(config: Config) -> Shapes:
    width, _, _, inner = _sizes(config)

    def feed_forward(i: int, name: str) -> Shapes:
        if i in config["mlp_only_layers"] or (i + 1) % config["decoder_sparse_step"]:
            return _gated(f"{name}.mlp", width, inner)
        tensors = _linear(f"{name}.mlp.gate", config["num_experts"], width)
        for j in range(config["num_experts"]):
            tensors |= _gated(f"{name}.mlp.experts.{j}", width, config["moe_intermediate_size"])
        if config["model_type"] == "qwen2_moe":
            tensors |= _gated(f"{name}.mlp.shared_expert", width, config["shared_expert_intermediate_size"])
            tensors |= _linear(f"{name}.mlp.shared_expert_gate", 1, width)
        return tensors

    return _llama(config, feed_forward)


def _phi(config: Config) -> Shapes:
    width, q, kv, inner = _sizes(config)

    def layer(_: int, name: str) -> Shapes:
        attention = f"{name}.self_attn"
        tensors = _norm(f"{name}.input_layernorm", width, bias=True) | _linear(f"{attention}.q_proj", q, width, True)
        tensors |= _linear(f"{attention}.k_proj", kv, width, True) | _linear(f"{attention}.v_proj", kv, width, True)
        tensors |= _linear(f"{attention}.dense", width, q, True)
        tensors |= _linear(f"{name}.mlp.fc1", inner, width, True) | _linear(f"{name}.mlp.fc2", width, inner, True)
        if config["qk_layernorm"]:
            head_dim = q // config["num_attention_heads"]
            tensors |= _norm(f"{attention}.q_layernorm", head_dim, True) | _norm(
                f"{attention}.k_layernorm", head_dim, True
            )
        return tensors

    return _ends(config, "model.final_layernorm", bias=True, head_bias=True) | _layers(config, layer)


def _phi3(config: Config) -> Shapes:
    width, q, kv, inner = _sizes(config)

    def layer(_: int, name: str) -> Shapes:
        tensors = _norm(f"{name}.input_layernorm", width) | _norm(f"{name}.post_attention_layernorm", width)
        tensors |= _linear(f"{name}.self_attn.qkv_proj", q + 2 * kv, width)
        tensors |= _linear(f"{name}.self_attn.o_proj", width, q)
        tensors |= _linear(f"{name}.mlp.gate_up_proj", 2 * inner, width)
        return tensors | _linear(f"{name}.mlp.down_proj", width, inner)

    return _ends(config) | _layers(config, layer)


def _gpt2(config: Config) -> Shapes:
    width = config["n_embd"]
    inner = config["n_inner"] or 4 * width
    tensors: Shapes = {
        "transformer.wte.weight": (config["vocab_size"], width),
        "transformer.wpe.weight": (config["n_positions"], width),
        **_norm("transformer.ln_f", width, bias=True),
    }
    for i in range(config["n_layer"]):
        name = f"transformer.h.{i}"
        tensors |= _norm(f"{name}.ln_1", width, True) | _norm(f"{name}.ln_2", width, True)
        # these matrices are stored [in, out]
        for each, into, out in (
            ("attn.c_attn", width, 3 * width),
            ("attn.c_proj", width, width),
            ("mlp.c_fc", width, inner),
            ("mlp.c_proj", inner, width),
        ):
            tensors |= {f"{name}.{each}.weight": (into, out), f"{name}.{each}.bias": (out,)}
    return tensors


def _gpt_neox(config: Config) -> Shapes:
    width, inner, vocab = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    bias = config.get("attention_bias", True)

    def layer(_: int, name: str) -> Shapes:
        tensors = _norm(f"{name}.input_layernorm", width, True) | _norm(f"{name}.post_attention_layernorm", width, True)
        tensors |= _linear(f"{name}.attention.query_key_value", 3 * width, width, bias)
        tensors |= _linear(f"{name}.attention.dense", width, width, bias)
        tensors |= _linear(f"{name}.mlp.dense_h_to_4h", inner, width, True)
        return tensors | _linear(f"{name}.mlp.dense_4h_to_h", width, inner, True)

    ends = {"gpt_neox.embed_in.weight": (vocab, width), **_norm("gpt_neox.final_layer_norm", width, bias=True)}
    head = {} if config["tie_word_embeddings"] else {"embed_out.weight": (vocab, width)}
    return ends | head | _layers(config, layer, "gpt_neox.layers")


def _lfm2(config: Config) -> Shapes:
    width, q, _, inner = _sizes(config)
    inner = config.get("block_ff_dim", inner)
    if config["block_auto_adjust_ff_dim"]:
        step = config["block_multiple_of"]
        inner = -(-int(config["block_ffn_dim_multiplier"] * int(2 * inner / 3)) // step) * step
    head_dim, bias = q // config["num_attention_heads"], config["conv_bias"]

    def layer(i: int, name: str) -> Shapes:
        tensors = _norm(f"{name}.operator_norm", width) | _norm(f"{name}.ffn_norm", width)
        for each, out, into in (("w1", inner, width), ("w2", width, inner), ("w3", inner, width)):
            tensors |= _linear(f"{name}.feed_forward.{each}", out, into)
        if config["layer_types"][i] == "full_attention" if config["layer_types"] else i in config["full_attn_idxs"]:
            attention = f"{name}.self_attn"
            tensors |= _norm(f"{attention}.q_layernorm", head_dim) | _norm(f"{attention}.k_layernorm", head_dim)
            return tensors | _attention(attention, config, "out_proj")
        tensors[f"{name}.conv.conv.weight"] = (width, 1, config["conv_L_cache"])
        if bias:
            tensors[f"{name}.conv.conv.bias"] = (width,)
        tensors |= _linear(f"{name}.conv.in_proj", 3 * width, width, bias)
        return tensors | _linear(f"{name}.conv.out_proj", width, width, bias)

    return _ends(config, "model.embedding_norm") | _layers(config, layer)


def _bert(config: Config) -> Shapes:
    width, inner = config["hidden_size"], config["intermediate_size"]

    def layer(_: int, name: str) -> Shapes:
        tensors: Shapes = {}
        for each, out, into in (
            ("attention.self.query", width, width),
            ("attention.self.key", width, width),
            ("attention.self.value", width, width),
            ("attention.output.dense", width, width),
            ("intermediate.dense", inner, width),
            ("output.dense", width, inner),
        ):
            tensors |= _linear(f"{name}.{each}", out, into, True)
        tensors |= _norm(f"{name}.attention.output.LayerNorm", width, True)
        return tensors | _norm(f"{name}.output.LayerNorm", width, True)

    rows = {"word": "vocab_size", "position": "max_position_embeddings", "token_type": "type_vocab_size"}
    tables = {f"embeddings.{name}_embeddings.weight": (config[key], width) for name, key in rows.items()}
    return tables | _norm("embeddings.LayerNorm", width, True) | _layers(config, layer, "encoder.layer")


_ARCHITECTURES: dict[str, Callable[[Config], Shapes]] = {
    "BertModel": _bert,
    "BitNetForCausalLM": _llama,
    "GPT2LMHeadModel": _gpt2,
    "GPTNeoXForCausalLM": _gpt_neox,
    "Gemma2ForCausalLM": _llama,
    "Gemma3ForCausalLM": _llama,
    "GraniteForCausalLM": _llama,
    "Lfm2ForCausalLM": _lfm2,
    "LlamaForCausalLM": _llama,
    "MistralForCausalLM": _llama,
    "MixtralForCausalLM": _mixtral,
    "Olmo2ForCausalLM": _llama,
    "Phi3ForCausalLM": _phi3,
    "PhiForCausalLM": _phi,
    "Qwen2ForCausalLM": _llama,
    "Qwen3ForCausalLM": _llama,
    "Qwen2MoeForCausalLM": _qwen_moe,
    "Qwen3MoeForCausalLM": _qwen_moe,
    "SmolLM3ForCausalLM": _llama,
}
