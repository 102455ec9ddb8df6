"""A llama in a GGUF file, dequantized, as the reference takes it: named and ordered as before conversion to GGUF."""

import re
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
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def read_llama(path: Path) -> Checkpoint:
    with FileSource(path) as source:
        file = drive(read_gguf(source))
        tensors = {name: values_of(tensor) for name, tensor in file.tensors.items()}
    settings = {key.removeprefix("llama."): value for key, value in file.metadata.items()}
    heads = settings["attention.head_count"]
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
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "head_dim": head_dim,
        "max_position_embeddings": settings["context_length"],
        "num_attention_heads": heads,
        "num_hidden_layers": settings["block_count"],
        "num_key_value_heads": settings.get("attention.head_count_kv", heads),
        "rms_norm_eps": settings["attention.layer_norm_rms_epsilon"],
        "rope_parameters": rope,
    }
    return Checkpoint(config, dict(_renamed(name, values, head_dim, rope_dim) for name, values in tensors.items()))


def values_of(tensor: TensorInfo) -> Doubles:
    """A tensor as gguf-py dequantizes it, or as our known answers do where gguf-py can't."""
    data = bytes(drive(tensor.source.read(tensor.offset, tensor.nbytes)))
    if tensor.type.name in ("Q1_0", "Q2_0"):
        values = np.array(decoded(tensor.type, data))
    else:
        raw = np.frombuffer(data, np.uint8).reshape(tensor.rows, -1)
        values = dequantize(raw, gguf.GGMLQuantizationType[tensor.type.name]).astype(np.float64)
    return values.reshape(tensor.shape)


def _renamed(name: str, values: Doubles, head_dim: int, rope_dim: int) -> tuple[str, Doubles]:
    """The name before conversion, and of queries and keys the order: pairs half a head apart, not neighbours."""
    stem, end = name.rsplit(".", 1)
    layer, _, short = stem.rpartition(".")
    if short in ("attn_q", "attn_k"):
        by_head = values.reshape(-1, head_dim, *values.shape[1:])
        turned, rest = by_head[:, :rope_dim], by_head[:, rope_dim:]
        halves = [turned[:, 0::2], turned[:, 1::2], rest]
        values = np.concatenate(halves, axis=1).reshape(values.shape)
    prefix = re.sub(r"^blk", "model.layers", layer) + "." if layer else ""
    return f"{prefix}{_NAMES[short]}.{end}", values
