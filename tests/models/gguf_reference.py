"""A llama, LFM2 or BitNet in a GGUF file, dequantized, as the reference takes it: named and ordered as before."""

import re
from collections.abc import Mapping
from pathlib import Path

import gguf
import numpy as np
from gguf.quants import dequantize

from tests.models.hf_reference import Checkpoint
from tests.models.hf_reference.checkpoint import Doubles
from wgpu_engine.files.gguf import TensorInfo, read_gguf
from wgpu_engine.ops.known_answers.blocks import decoded
from wgpu_engine.platform.drive import drive
from wgpu_engine.platform.file_source import FileSource

_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "token_embd_norm": "model.embedding_norm",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_sub_norm": "self_attn.attn_sub_norm",
    "ffn_sub_norm": "mlp.ffn_sub_norm",
}


_NAMES_OF_LFM2 = {
    **_NAMES,
    "attn_norm": "operator_norm",
    "attn_q_norm": "self_attn.q_layernorm",
    "attn_k_norm": "self_attn.k_layernorm",
    "attn_output": "self_attn.out_proj",
    "shortconv.in_proj": "conv.in_proj",
    "shortconv.conv": "conv.conv",
    "shortconv.out_proj": "conv.out_proj",
    "ffn_norm": "ffn_norm",
    "ffn_gate": "feed_forward.w1",
    "ffn_up": "feed_forward.w3",
    "ffn_down": "feed_forward.w2",
}


_CLASSES = {
    "bitnet": "BitNetForCausalLM",
    "bitnet-25": "BitNetForCausalLM",
    "bitnet-b1.58": "BitNetForCausalLM",
    "lfm2": "Lfm2ForCausalLM",
    "llama": "LlamaForCausalLM",
}


def read_gguf_reference(path: Path) -> Checkpoint:
    with FileSource(path) as source:
        file = drive(read_gguf(source))
        tensors = {name: values_of(tensor) for name, tensor in file.tensors.items()}
    for name in [name for name in tensors if name.endswith(".scale")]:
        weight, scale = tensors[f"{name.removesuffix('scale')}weight"], tensors.pop(name)
        weight *= scale.reshape(-1, *(1,) * (weight.ndim - 1))
    architecture = file.metadata["general.architecture"]
    settings = {key.removeprefix(f"{architecture}."): value for key, value in file.metadata.items()}
    heads = settings["attention.head_count"]
    kv_heads = settings.get("attention.head_count_kv", heads)
    head_dim = settings.get("attention.key_length", settings["embedding_length"] // heads)
    rope_dim = settings.get("rope.dimension_count", head_dim)
    rope = {
        "rope_type": "linear",
        "rope_theta": settings.get("rope.freq_base", 10000.0),
        "factor": settings.get("rope.scaling.factor", 1.0),
        "partial_rotary_factor": rope_dim / head_dim,
    }
    factors = tensors.pop("rope_freqs.weight", None)
    if factors is not None:
        rope |= {"rope_type": "longrope", "short_factor": factors, "long_factor": factors, "attention_factor": 1.0}
    config = {
        "architectures": [_CLASSES[architecture]],
        "model_type": architecture,
        "head_dim": head_dim,
        "max_position_embeddings": settings["context_length"],
        "num_attention_heads": heads,
        "num_hidden_layers": settings["block_count"],
        "num_key_value_heads": max(kv_heads) if isinstance(kv_heads, list) else kv_heads,
        "rms_norm_eps": settings["attention.layer_norm_rms_epsilon"],
        "rope_parameters": rope,
    }
    if architecture == "lfm2":
        kinds = ["full_attention" if each else "conv" for each in kv_heads]
        config |= {"layer_types": kinds, "norm_eps": config["rms_norm_eps"]}
        return Checkpoint(
            config, {_renamed(_NAMES_OF_LFM2, name): _unsqueezed(name, tensors[name]) for name in tensors}
        )
    if architecture.startswith("bitnet"):
        config["hidden_act"] = settings.get("hidden_activation", "silu" if architecture == "bitnet" else "relu2")
        return Checkpoint(config, {_renamed(_NAMES, name): values for name, values in tensors.items()})
    halves = {name: _halves(name, values, head_dim, rope_dim) for name, values in tensors.items()}
    return Checkpoint(config, {_renamed(_NAMES, name): values for name, values in halves.items()})


def values_of(tensor: TensorInfo) -> Doubles:
    """A tensor as gguf-py dequantizes it, or as our known answers do where gguf-py can't."""
    data = bytes(drive(tensor.source.read(tensor.offset, tensor.nbytes)))
    if tensor.type.name in ("Q1_0", "Q2_0"):
        values = np.array(decoded(tensor.type, data))
    else:
        raw = np.frombuffer(data, np.uint8).reshape(tensor.rows, -1)
        values = dequantize(raw, gguf.GGMLQuantizationType[tensor.type.name]).astype(np.float64)
    return values.reshape(tensor.shape)


def _renamed(names: Mapping[str, str], name: str) -> str:
    """The name before conversion."""
    layer, stem, end = re.fullmatch(r"(?:blk\.(\d+)\.)?(.+)\.(weight|bias)", name).groups()
    return f"model.layers.{layer}.{names[stem]}.{end}" if layer else f"{names[stem]}.{end}"


def _halves(name: str, values: Doubles, head_dim: int, rope_dim: int) -> Doubles:
    """Queries and keys of a llama in the order before conversion: pairs half a head apart, not neighbours."""
    if "attn_q." not in name and "attn_k." not in name:
        return values
    by_head = values.reshape(-1, head_dim, *values.shape[1:])
    turned, rest = by_head[:, :rope_dim], by_head[:, rope_dim:]
    return np.concatenate([turned[:, 0::2], turned[:, 1::2], rest], axis=1).reshape(values.shape)


def _unsqueezed(name: str, values: Doubles) -> Doubles:
    """Kernels of convolutions have an axis more before conversion."""
    return values[:, None, :] if name.endswith("shortconv.conv.weight") else values
