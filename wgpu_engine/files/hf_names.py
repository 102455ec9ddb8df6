"""Which architectures of Hugging Face folders can be loaded: names of tensors and settings, translated to GGUF's.

To add one, add a table of its tensors and an entry of FAMILIES; nothing else in this room needs a change. What the
models' own code (`wgpu_engine/models`) sees is then the same as from a GGUF file. GGUF's names: gguf-py,
tensor_mapping.py and constants.py.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from wgpu_engine.errors import ModelFileError, UnsupportedModelError
from wgpu_engine.files.gguf import TensorInfo
from wgpu_engine.files.gguf_window import Value, show
from wgpu_engine.files.hf_bert import BERT_NAMES, bert_settings
from wgpu_engine.files.hf_config import HFConfig
from wgpu_engine.files.hf_gpt import (
    GPT2_NAMES,
    GPT_NEOX_NAMES,
    PHI_NAMES,
    gpt2_arranged,
    gpt2_settings,
    gpt_neox_arranged,
    gpt_neox_settings,
    phi_settings,
)
from wgpu_engine.files.hf_rope import local_rope_base, rope_settings

_LAYER_TYPES: dict[str | int, bool] = {"sliding_attention": True, "full_attention": False}
_LONGEST_HEAD = 1 << 12
_MOST_LAYERS = 1 << 12
_NUMBER = re.compile(r"(?<=\.)(?:0|[1-9][0-9]{0,5})(?=\.)")


@dataclass(frozen=True)
class Family:
    """What architectures of the same layout share."""

    architecture: str
    """`general.architecture` in GGUF"""
    names: Mapping[str, str]
    """GGUF's name of each tensor: `#` is a number, the last `*` is `weight` or `bias`; empty for what isn't needed"""
    settings: Callable[[HFConfig], dict[str, Value]]
    """GGUF's settings, without the architecture's prefix; refuses what would be computed wrongly"""
    tied: bool = False
    """whether the output head is the embedding where the configuration doesn't say"""
    arranged: Callable[[HFConfig, TensorInfo], TensorInfo] = lambda config, tensor: tensor
    """a tensor by GGUF's name as GGUF has it, where its values lie otherwise in the file"""

    def translate(self, name: str) -> str | None:
        """GGUF's name of a tensor: empty where it isn't needed, None where the architecture has no such tensor."""
        if "#" in name or "*" in name:
            return None
        pattern, numbers = _NUMBER.sub("#", name), iter(_NUMBER.findall(name))
        found = self.names.get(pattern)
        if found is None:
            stem, _, end = pattern.rpartition(".")
            found = self.names.get(f"{stem}.*") if end in ("weight", "bias") else None
            found = found and found.replace("*", end)
        return found and re.sub("#", lambda _: next(numbers), found)


def family_of(config: HFConfig) -> Family:
    """The family of a model's configuration.

    Raises:
        UnsupportedModelError: an architecture that isn't among FAMILIES.
    """
    named = config.texts("architectures") or [config.text("model_type", "")]
    if named[0] not in FAMILIES:
        raise UnsupportedModelError(
            f"the architecture {show(named[0])} of {config.name} is not supported yet; supported from a folder: "
            f"{', '.join(sorted(FAMILIES))}"
        )
    return FAMILIES[named[0]]


_LLAMA_NAMES = {
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


_QWEN3_NAMES = {
    **_LLAMA_NAMES,
    "model.layers.#.self_attn.q_norm.weight": "blk.#.attn_q_norm.weight",
    "model.layers.#.self_attn.k_norm.weight": "blk.#.attn_k_norm.weight",
}


_PHI3_NAMES = {
    **_LLAMA_NAMES,
    "model.layers.#.self_attn.qkv_proj.weight": "blk.#.attn_qkv.weight",
    "model.layers.#.mlp.gate_up_proj.weight": "blk.#.ffn_up.weight",
}


_BITNET_NAMES = {
    **{name: gguf for name, gguf in _LLAMA_NAMES.items() if not name.endswith("*")},
    **{name[:-1] + "weight": gguf[:-1] + "weight" for name, gguf in _LLAMA_NAMES.items() if name.endswith("*")},
    "model.layers.#.self_attn.attn_sub_norm.weight": "blk.#.attn_sub_norm.weight",
    "model.layers.#.mlp.ffn_sub_norm.weight": "blk.#.ffn_sub_norm.weight",
}


_LFM2_NAMES = {
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


_GEMMA_NAMES = {
    **{name.replace(".*", ".weight"): to.replace(".*", ".weight") for name, to in _QWEN3_NAMES.items()},
    "model.layers.#.post_attention_layernorm.weight": "blk.#.post_attention_norm.weight",
    "model.layers.#.pre_feedforward_layernorm.weight": "blk.#.ffn_norm.weight",
    "model.layers.#.post_feedforward_layernorm.weight": "blk.#.post_ffw_norm.weight",
}


_OLMO2_NAMES = {
    name: to
    for name, to in _GEMMA_NAMES.items()
    if "input_layernorm" not in name and "pre_feedforward_layernorm" not in name
}


_MIXTRAL_NAMES = {
    **_LLAMA_NAMES,
    "model.layers.#.block_sparse_moe.gate.weight": "blk.#.ffn_gate_inp.weight",
    "model.layers.#.block_sparse_moe.experts.#.w1.weight": "blk.#.ffn_gate.#.weight",
    "model.layers.#.block_sparse_moe.experts.#.w2.weight": "blk.#.ffn_down.#.weight",
    "model.layers.#.block_sparse_moe.experts.#.w3.weight": "blk.#.ffn_up.#.weight",
}


_QWEN3_MOE_NAMES = {
    **_QWEN3_NAMES,
    "model.layers.#.mlp.gate.weight": "blk.#.ffn_gate_inp.weight",
    "model.layers.#.mlp.experts.#.gate_proj.weight": "blk.#.ffn_gate.#.weight",
    "model.layers.#.mlp.experts.#.up_proj.weight": "blk.#.ffn_up.#.weight",
    "model.layers.#.mlp.experts.#.down_proj.weight": "blk.#.ffn_down.#.weight",
}


def _decoder(config: HFConfig, context: int, *, head_dim: int | None = None, base: float = 10000.0) -> dict[str, Value]:
    """The settings of a decoder with RoPE, RMS norms and a gated feed-forward.

    `context`, `head_dim` and the `base` of RoPE are what the model's class assumes where they aren't said.
    """
    width, heads = config.count("hidden_size"), config.count("num_attention_heads")
    head_dim = config.count("head_dim", head_dim or max(1, width // heads))
    if head_dim > _LONGEST_HEAD:
        raise ModelFileError(f"{config.name} says that heads have {head_dim} values: download it again")
    return {
        "context_length": config.count("max_position_embeddings", context),
        "block_count": _layers(config),
        "embedding_length": width,
        "feed_forward_length": config.count("intermediate_size"),
        "attention.head_count": heads,
        "attention.head_count_kv": config.count("num_key_value_heads", heads),
        "attention.key_length": head_dim,
        "attention.value_length": head_dim,
        "attention.layer_norm_rms_epsilon": config.number("rms_norm_eps", 1e-6),
        **rope_settings(config, head_dim, base),
    }


def _layers(config: HFConfig) -> int:
    return config.count("num_hidden_layers", largest=_MOST_LAYERS)


def _refuse_activations_but(config: HFConfig, *known: str) -> None:
    found = config.text("hidden_act", known[0])
    if found not in known:
        raise UnsupportedModelError(
            f"the activation {show(found)} of {config.name} is not supported with its architecture: use a model with "
            f"{known[0]}"
        )


def _windows(config: HFConfig, default: int | None, first: int = 0) -> dict[str, Value]:
    """The settings of sliding windows, of `default` positions where the configuration says nothing; null is none.

    Unless it says which, all layers from `first` on have one.
    """
    if "sliding_window" in config.values and config.values["sliding_window"] is None:
        return {}
    if default is None and "sliding_window" not in config.values:
        return {}
    layers = _layers(config)
    slides = config.flag_list("layer_types", layers, _LAYER_TYPES)
    return {
        "attention.sliding_window": config.count("sliding_window", default),
        "attention.sliding_window_pattern": slides or [i >= first for i in range(layers)],
    }


def _llama(config: HFConfig) -> dict[str, Value]:
    _refuse_activations_but(config, "silu", "swish")
    return _decoder(config, 2048)


def _mistral(config: HFConfig) -> dict[str, Value]:
    _refuse_activations_but(config, "silu", "swish")
    return {**_decoder(config, 131072), **_windows(config, 4096)}


def _mixtral(config: HFConfig) -> dict[str, Value]:
    return {
        **_llama(config),
        **_windows(config, None),
        "context_length": config.count("max_position_embeddings", 131072),
        "expert_count": config.count("num_local_experts", 8),
        "expert_used_count": config.count("num_experts_per_tok", 2),
    }


def _qwen2(config: HFConfig) -> dict[str, Value]:
    _refuse_activations_but(config, "silu", "swish")
    settings = _decoder(config, 32768)
    if not config.flag("use_sliding_window", False):
        return settings
    return {**settings, **_windows(config, 4096, config.count("max_window_layers", 28, smallest=0))}


def _qwen3_moe(config: HFConfig) -> dict[str, Value]:
    """Which layers have experts, their tensors say; `num_local_experts` is what transformers 5 writes."""
    _refuse_activations_but(config, "silu", "swish")
    return {
        **_decoder(config, 32768),
        **(_windows(config, 4096) if config.flag("use_sliding_window", False) else {}),
        "expert_count": config.count("num_local_experts", config.count("num_experts", 128)),
        "expert_used_count": config.count("num_experts_per_tok", 8),
        "expert_feed_forward_length": config.count("moe_intermediate_size", 768),
        "expert_weights_norm": config.flag("norm_topk_prob", False),
    }


def _phi3(config: HFConfig) -> dict[str, Value]:
    _refuse_activations_but(config, "silu", "swish")
    return {**_decoder(config, 4096), **_windows(config, None)}


def _smollm3(config: HFConfig) -> dict[str, Value]:
    """Layers without positions are those that have windows, where there are windows."""
    _refuse_activations_but(config, "silu", "swish")
    settings, layers = _decoder(config, 32768), _layers(config)
    # 1 stands for a layer with positions, in spite of the name
    rotated = config.flag_list("no_rope_layers", layers, {1: True, 0: False})
    if rotated is None:
        interval = config.count("no_rope_layer_interval", 4)
        rotated = [(i + 1) % interval != 0 for i in range(layers)]
    settings["rope.layers"] = rotated
    if config.flag("use_sliding_window", False):
        settings |= _windows(config, None)
        if config.values.get("layer_types") is None and "attention.sliding_window" in settings:
            settings["attention.sliding_window_pattern"] = [not each for each in rotated]
    return settings


def _bitnet(config: HFConfig) -> dict[str, Value]:
    _refuse_activations_but(config, "relu2", "silu")
    usual = {
        **config.values,
        "rms_norm_eps": config.number("rms_norm_eps", 1e-5),
        "rope_theta": config.number("rope_theta", 500000.0),
    }
    settings = _decoder(HFConfig(config.name, usual), 2048)
    return settings | {"hidden_activation": config.text("hidden_act", "relu2")}


def _lfm2(config: HFConfig) -> dict[str, Value]:
    """Keys as transformers has them, or as the models were first published with."""
    values = config.values
    if config.flag("tie_embedding", True) != config.flag("tie_word_embeddings", True):
        raise UnsupportedModelError(f"{config.name} says both that the output head is tied and that it isn't")
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
    settings = _decoder(HFConfig(config.name, usual), 128000)
    heads = settings["attention.head_count_kv"]
    settings["attention.head_count_kv"] = [heads if attends else 0 for attends in _lfm2_attends(config)]
    return settings | {"shortconv.l_cache": config.count("conv_L_cache", 3)}


def _lfm2_attends(config: HFConfig) -> list[bool]:
    """Whether each layer has attention, or else a convolution."""
    layers, kinds = _layers(config), config.texts("layer_types")
    numbers = config.values.get("full_attn_idxs")
    if not kinds and isinstance(numbers, list | None):
        kinds = ["full_attention" if numbers is None or i in numbers else "conv" for i in range(layers)]
    if len(kinds) != layers or not set(kinds) <= {"full_attention", "conv"}:
        raise UnsupportedModelError(
            f"{config.name} doesn't say of each of its {layers} layers whether it is conv or full_attention"
        )
    return [kind == "full_attention" for kind in kinds]


def _gemma(config: HFConfig, usual_period: int, base: float) -> dict[str, Value]:
    activation = config.text("hidden_activation", "gelu_pytorch_tanh")
    if activation not in ("gelu_pytorch_tanh", "gelu_tanh"):
        raise UnsupportedModelError(
            f"the activation {show(activation)} of {config.name} is not supported with its architecture: use a model "
            "with gelu_pytorch_tanh"
        )
    if config.flag("use_bidirectional_attention", False):
        raise UnsupportedModelError(f"{config.name} describes an encoder, not a language model: use another model")
    layers = _layers(config)
    # older configurations say every how many layers one is global, or leave that to the model
    period = config.count("sliding_window_pattern", usual_period)
    slides = [(i + 1) % period != 0 for i in range(layers)]
    return {
        **_decoder(config, 8192, head_dim=256, base=base),
        "attention.sliding_window": config.count("sliding_window", 4096),
        "attention.sliding_window_pattern": config.flag_list("layer_types", layers, _LAYER_TYPES) or slides,
        "attention.scale": config.number("query_pre_attn_scalar", 256) ** -0.5,
        # conversion to GGUF adds it to the tensors
        "norm.gain_offset": 1.0,
    }


def _gemma2(config: HFConfig) -> dict[str, Value]:
    return {**_gemma(config, 2, 10000.0), **_caps(config, 50.0, 30.0)}


def _gemma3(config: HFConfig) -> dict[str, Value]:
    return {**_gemma(config, 6, 1e6), **_caps(config, 0.0, 0.0), "rope.freq_base_swa": local_rope_base(config)}


def _caps(config: HFConfig, scores: float, logits: float) -> dict[str, Value]:
    """The caps on scores and logits; null is none, which is written as 0."""
    assumed = {"attn_logit_softcapping": scores, "final_logit_softcapping": logits}
    return {
        key: 0.0 if config.values.get(key, cap or None) is None else config.number(key, cap)
        for key, cap in assumed.items()
    }


def _olmo2(config: HFConfig) -> dict[str, Value]:
    _refuse_activations_but(config, "silu", "swish")
    return _decoder(config, 2048)


def _granite(config: HFConfig) -> dict[str, Value]:
    return {
        **_llama(config),
        "attention.scale": config.number("attention_multiplier", 1.0),
        "embedding_scale": config.number("embedding_multiplier", 1.0),
        "residual_scale": config.number("residual_multiplier", 1.0),
        "logit_scale": config.number("logits_scaling", 1.0),
    }


FAMILIES = {
    "BertModel": Family("bert", BERT_NAMES, bert_settings, tied=True),
    "BitNetForCausalLM": Family("bitnet", _BITNET_NAMES, _bitnet),
    "Gemma2ForCausalLM": Family("gemma2", _GEMMA_NAMES, _gemma2, tied=True),
    "Gemma3ForCausalLM": Family("gemma3", _GEMMA_NAMES, _gemma3, tied=True),
    "GPT2LMHeadModel": Family("gpt2", GPT2_NAMES, gpt2_settings, tied=True, arranged=gpt2_arranged),
    "GPTNeoXForCausalLM": Family("gptneox", GPT_NEOX_NAMES, gpt_neox_settings, arranged=gpt_neox_arranged),
    "GraniteForCausalLM": Family("granite", _LLAMA_NAMES, _granite),
    "Lfm2ForCausalLM": Family("lfm2", _LFM2_NAMES, _lfm2, tied=True),
    "LlamaForCausalLM": Family("llama", _LLAMA_NAMES, _llama),
    "MistralForCausalLM": Family("llama", _LLAMA_NAMES, _mistral),
    "MixtralForCausalLM": Family("llama", _MIXTRAL_NAMES, _mixtral),
    "Olmo2ForCausalLM": Family("olmo2", _OLMO2_NAMES, _olmo2),
    "Phi3ForCausalLM": Family("phi3", _PHI3_NAMES, _phi3),
    "PhiForCausalLM": Family("phi2", PHI_NAMES, phi_settings),
    "Qwen2ForCausalLM": Family("qwen2", _LLAMA_NAMES, _qwen2),
    "Qwen3ForCausalLM": Family("qwen3", _QWEN3_NAMES, _qwen2),
    "Qwen3MoeForCausalLM": Family("qwen3moe", _QWEN3_MOE_NAMES, _qwen3_moe),
    "SmolLM3ForCausalLM": Family("smollm3", _LLAMA_NAMES, _smollm3, tied=True),
}
"""by the class that `architectures` in a config.json names"""
