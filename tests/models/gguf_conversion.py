"""Writes a Hugging Face folder as GGUF, with the tensors and keys that llama.cpp's converter gives it.

Names come from gguf-py's own maps; what happens to the values of some tensors on the way is done here, for each
architecture as in llama.cpp's conversion/*.py. There is no vocabulary in the file.
"""

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray

from tests.models.hf_reference.checkpoint import Doubles, read_folder
from tests.models.hf_reference.rope import rope_settings

Config = Mapping[str, Any]
Tensors = Mapping[str, Doubles]

ARCHITECTURES = {
    "BitNetForCausalLM": gguf.MODEL_ARCH.BITNET,
    "BertModel": gguf.MODEL_ARCH.BERT,
    "GPT2LMHeadModel": gguf.MODEL_ARCH.GPT2,
    "GPTNeoXForCausalLM": gguf.MODEL_ARCH.GPTNEOX,
    "Gemma2ForCausalLM": gguf.MODEL_ARCH.GEMMA2,
    "Gemma3ForCausalLM": gguf.MODEL_ARCH.GEMMA3,
    "GraniteForCausalLM": gguf.MODEL_ARCH.GRANITE,
    "Lfm2ForCausalLM": gguf.MODEL_ARCH.LFM2,
    "LlamaForCausalLM": gguf.MODEL_ARCH.LLAMA,
    "MistralForCausalLM": gguf.MODEL_ARCH.LLAMA,
    "MixtralForCausalLM": gguf.MODEL_ARCH.LLAMA,
    "Olmo2ForCausalLM": gguf.MODEL_ARCH.OLMO2,
    "Phi3ForCausalLM": gguf.MODEL_ARCH.PHI3,
    "PhiForCausalLM": gguf.MODEL_ARCH.PHI2,
    "Qwen2ForCausalLM": gguf.MODEL_ARCH.QWEN2,
    "Qwen3ForCausalLM": gguf.MODEL_ARCH.QWEN3,
    "Qwen2MoeForCausalLM": gguf.MODEL_ARCH.QWEN2MOE,
    "Qwen3MoeForCausalLM": gguf.MODEL_ARCH.QWEN3MOE,
    "SmolLM3ForCausalLM": gguf.MODEL_ARCH.SMOLLM3,
}
"""by the class that config.json names"""
_PERMUTED = ("LlamaForCausalLM", "MistralForCausalLM", "MixtralForCausalLM", "GraniteForCausalLM", "SmolLM3ForCausalLM")
"""classes whose queries and keys are reordered so that neighbours rotate together"""
_EXPERT = re.compile(r"(model\.layers\.\d+\.)(block_sparse_moe|mlp)\.experts\.(\d+)\.(\w+)\.weight")
_SUB_NORM = re.compile(r"model\.layers\.(\d+)\.\w+\.((?:attn|ffn)_sub_norm\.weight)")
_LAYER_NAME = {
    "block_sparse_moe": "layers.{}.feed_forward.experts.{}.weight",
    "mlp": "model.layers.{}.mlp.experts.{}.weight",
}


def convert(folder: Path, path: Path, quant: str = "") -> Path:
    """Write the model of a folder to `path`: matrices as `quant` or in the folder's dtype, the rest as floats."""
    model = read_folder(folder)
    config = model.config
    architecture = ARCHITECTURES[config["architectures"][0]]
    layers = config.get("num_hidden_layers", config.get("n_layer"))
    names = gguf.get_tensor_name_map(architecture, layers)
    writer = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[architecture])
    _add_settings(writer, config)
    writer.add_tokenizer_model("none")
    kind = quant or {"bfloat16": "BF16"}.get(config.get("torch_dtype"), "F32")
    for name, values in _tensors(config, model.tensors):
        mapped = names.get_name(name, try_suffixes=(".weight", ".bias")) or name
        _add_tensor(writer, mapped, values.astype(np.float32), gguf.GGMLQuantizationType[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_tensor(
    writer: gguf.GGUFWriter, name: str, values: NDArray[np.float32], kind: gguf.GGMLQuantizationType
) -> None:
    # as there: vectors, routers, positions and kernels of short convolutions stay floats
    floats = ("ffn_gate_inp", "shortconv.conv", "position_embd", "token_types")
    if values.ndim < 2 or any(part in name for part in floats):
        kind = gguf.GGMLQuantizationType.F32
    writer.add_tensor(name, gguf.quants.quantize(np.ascontiguousarray(values), kind), raw_dtype=kind)


# --- values ---


def _tensors(config: Config, tensors: Tensors) -> Iterator[tuple[str, Doubles]]:
    """Names that gguf-py maps (or GGUF's own), and values as GGUF has them."""
    experts: dict[str, dict[int, Doubles]] = {}
    for name, values in tensors.items():
        if name == "lm_head.weight" and config.get("tie_word_embeddings"):
            continue
        expert = _EXPERT.fullmatch(name)
        if expert:
            layer = re.findall(r"\d+", expert[1])[0]
            stacked = _LAYER_NAME[expert[2]].format(layer, expert[4])
            experts.setdefault(stacked, {})[int(expert[3])] = values
        else:
            yield _unmapped(config, name), _changed(config, name, values)
    for name, parts in experts.items():
        yield name, np.stack([parts[i] for i in range(len(parts))])
    yield from _rope_tensors(config)


def _unmapped(config: Config, name: str) -> str:
    """GGUF's names of what gguf-py has no map for; llama.cpp itself knows no output matrix of BitNet's."""
    if config["model_type"] == "bitnet" and name == "lm_head.weight":
        return "output.weight"
    return _SUB_NORM.sub(lambda found: f"blk.{found[1]}.{found[2]}", name)


def _changed(config: Config, name: str, values: Doubles) -> Doubles:
    kind, heads = config["architectures"][0], config.get("num_attention_heads")
    if kind in _PERMUTED and re.search(r"self_attn\.[qk]_proj", name):
        return _neighbours(values, heads if "q_proj" in name else config["num_key_value_heads"])
    if kind in ("Gemma2ForCausalLM", "Gemma3ForCausalLM") and name.endswith("norm.weight"):
        return values + 1
    if kind == "GPT2LMHeadModel" and re.search(r"(c_attn|c_proj|c_fc)\.weight", name):
        return values.T
    if kind == "GPTNeoXForCausalLM" and "query_key_value" in name:
        rest = values.shape[1:]
        return values.reshape(heads, 3, -1, *rest).swapaxes(0, 1).reshape(-1, *rest)
    if kind == "Lfm2ForCausalLM" and name.endswith("conv.conv.weight"):
        return values[:, 0, :]
    return values


def _neighbours(values: Doubles, heads: int) -> Doubles:
    """Rows of each head, its two halves taken in turns."""
    return values.reshape(heads, 2, -1, *values.shape[1:]).swapaxes(1, 2).reshape(values.shape)


def _rope_tensors(config: Config) -> Iterator[tuple[str, Doubles]]:
    rope = rope_settings(config)
    if rope.get("rope_type") == "llama3":
        dim = _head_dim(config)
        factors = []
        for i in range(0, dim, 2):
            turns = rope["original_max_position_embeddings"] / (2 * math.pi * rope["rope_theta"] ** (i / dim))
            kept = (turns - rope["low_freq_factor"]) / (rope["high_freq_factor"] - rope["low_freq_factor"])
            kept = min(max(kept, 0.0), 1.0)
            factors.append(1 / (kept + (1 - kept) / rope["factor"]))
        yield "rope_freqs.weight", np.array(factors)
    if config["model_type"] == "phi3" and "long_factor" in rope:
        yield "rope_factors_long.weight", np.array(rope["long_factor"])
        yield "rope_factors_short.weight", np.array(rope["short_factor"])


# --- keys ---


def _head_dim(config: Config) -> int:
    return int(config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"])


def _add_settings(writer: gguf.GGUFWriter, config: Config) -> None:
    kind = config["model_type"]
    if kind == "gpt2":
        _add_gpt2(writer, config)
        return
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    if kind not in ("gpt_neox", "bert"):
        writer.add_head_count_kv(config.get("num_key_value_heads") or config["num_attention_heads"])
    for key, add in (
        ("rms_norm_eps", writer.add_layer_norm_rms_eps),
        ("norm_eps", writer.add_layer_norm_rms_eps),
        ("layer_norm_eps", writer.add_layer_norm_eps),
    ):
        if key in config:
            add(config[key])
    if config.get("head_dim") and kind != "granite":
        writer.add_key_length(config["head_dim"])
        writer.add_value_length(config["head_dim"])
    if kind in ("llama", "mistral", "mixtral", "granite", "smollm3"):
        writer.add_vocab_size(config["vocab_size"])
        writer.add_rope_dimension_count(_head_dim(config))
    # these converters write neither the base nor a scaling of RoPE
    if kind not in ("bert", "phi", "gpt_neox", "gemma2"):
        _add_rope(writer, config)
    own = {
        "bert": _add_bert,
        "bitnet": lambda writer, config: writer.add_string("bitnet.hidden_activation", config["hidden_act"]),
        "gemma2": _add_gemma,
        "gemma3_text": _add_gemma,
        "gpt_neox": _add_gpt_neox,
        "granite": _add_granite,
        "lfm2": _add_lfm2,
        "mixtral": _add_experts,
        "phi": _add_phi,
        "phi3": _add_phi3,
        "qwen2_moe": _add_experts,
        "qwen3_moe": _add_experts,
    }
    if kind in own:
        own[kind](writer, config)


def _add_rope(writer: gguf.GGUFWriter, config: Config) -> None:
    rope = rope_settings(config)
    writer.add_rope_freq_base(rope["rope_theta"])
    match rope["rope_type"]:
        case "linear":
            writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
            writer.add_rope_scaling_factor(rope["factor"])
        case "yarn":
            writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
            writer.add_rope_scaling_factor(rope["factor"])
            writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
            if "attention_factor" in rope:
                writer.add_rope_scaling_yarn_attn_factor(rope["attention_factor"])
            if "beta_fast" in rope:
                writer.add_rope_scaling_yarn_beta_fast(rope["beta_fast"])
            if "beta_slow" in rope:
                writer.add_rope_scaling_yarn_beta_slow(rope["beta_slow"])
        case "longrope" if config["model_type"] != "phi3":
            writer.add_rope_scaling_type(gguf.RopeScalingType.LONGROPE)


def _add_gpt2(writer: gguf.GGUFWriter, config: Config) -> None:
    writer.add_block_count(config["n_layer"])
    writer.add_context_length(config["n_positions"])
    writer.add_embedding_length(config["n_embd"])
    writer.add_feed_forward_length(config["n_inner"] or 4 * config["n_embd"])
    writer.add_head_count(config["n_head"])
    writer.add_layer_norm_eps(config["layer_norm_epsilon"])


def _add_gpt_neox(writer: gguf.GGUFWriter, config: Config) -> None:
    rope = rope_settings(config)
    writer.add_rope_dimension_count(int(rope["partial_rotary_factor"] * _head_dim(config)))
    writer.add_parallel_residual(config.get("use_parallel_residual", True))


def _add_phi(writer: gguf.GGUFWriter, config: Config) -> None:
    part = rope_settings(config)["partial_rotary_factor"]
    writer.add_rope_dimension_count(int(part * config["hidden_size"]) // config["num_attention_heads"])
    writer.add_add_bos_token(False)


def _add_phi3(writer: gguf.GGUFWriter, config: Config) -> None:
    rope = rope_settings(config)
    original, part = rope["original_max_position_embeddings"], rope["partial_rotary_factor"]
    writer.add_rope_dimension_count(int(part * config["hidden_size"]) // config["num_attention_heads"])
    writer.add_rope_scaling_orig_ctx_len(original)
    writer.add_sliding_window(config.get("sliding_window") or 0)
    if "long_factor" in rope:
        scale = config["max_position_embeddings"] / original
        writer.add_rope_scaling_attn_factors(math.sqrt(1 + math.log(scale) / math.log(original)) if scale > 1 else 1.0)


def _add_gemma(writer: gguf.GGUFWriter, config: Config) -> None:
    writer.add_sliding_window(config["sliding_window"])
    for key, add in (
        ("attn_logit_softcapping", writer.add_attn_logit_softcapping),
        ("final_logit_softcapping", writer.add_final_logit_softcapping),
    ):
        if config.get(key):
            add(config[key])
    if config["model_type"] == "gemma3_text":
        writer.add_rope_freq_base_swa(rope_settings(config, "sliding_attention")["rope_theta"])


def _add_granite(writer: gguf.GGUFWriter, config: Config) -> None:
    writer.add_attention_scale(config["attention_multiplier"])
    writer.add_embedding_scale(config["embedding_multiplier"])
    writer.add_residual_scale(config["residual_multiplier"])
    writer.add_logit_scale(config["logits_scaling"])


def _add_lfm2(writer: gguf.GGUFWriter, config: Config) -> None:
    heads = config["num_key_value_heads"]
    layers = config["layer_types"] or [
        "full_attention" if i in config["full_attn_idxs"] else "conv" for i in range(config["num_hidden_layers"])
    ]
    writer.add_head_count_kv([heads if kind == "full_attention" else 0 for kind in layers])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_shortconv_l_cache(config["conv_L_cache"])
    if config["block_auto_adjust_ff_dim"]:
        inner = config.get("block_ff_dim", config["intermediate_size"])
        inner = int(config["block_ffn_dim_multiplier"] * int(2 * inner / 3))
        step = config["block_multiple_of"]
        writer.add_feed_forward_length(-(-inner // step) * step)


def _add_experts(writer: gguf.GGUFWriter, config: Config) -> None:
    writer.add_expert_count(config.get("num_local_experts") or config["num_experts"])
    writer.add_expert_used_count(config["num_experts_per_tok"])
    if "moe_intermediate_size" in config:
        writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
    if "shared_expert_intermediate_size" in config:
        writer.add_expert_shared_feed_forward_length(config["shared_expert_intermediate_size"])


def _add_bert(writer: gguf.GGUFWriter, config: Config) -> None:
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.MEAN)
    writer.add_token_type_count(config["type_vocab_size"])
