"""A folder of a small llama in each of the formats, sound or with a change."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.files.quantized_folder import FORMATS, Folder, Format, quantized_folder
from wgpu_engine.files.gguf import TensorInfo
from wgpu_engine.files.model_file import ModelFile
from wgpu_engine.platform.drive import drive

Change = Callable[[dict[str, Any], dict[str, Any]], None]
"""of a folder's tensors and of its quantization_config"""
BY_NAME = {each.name: each for each in FORMATS}
Q = "model.layers.0.self_attn.q_proj."
WIDTH, FEED_FORWARD, HEADS = 160, 416, 5
"""columns that are no multiple of 128, and rows that are none of 128 or 64"""
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_act": "silu",
    "hidden_size": WIDTH,
    "intermediate_size": FEED_FORWARD,
    "num_attention_heads": HEADS,
    "num_hidden_layers": 1,
    "num_key_value_heads": 1,
    "vocab_size": 40,
}


def write(path: Path, how: Format, rng: np.random.Generator) -> Folder:
    layer = "model.layers.0."
    shapes = {
        "model.embed_tokens.weight": (40, WIDTH),
        f"{layer}input_layernorm.weight": (WIDTH,),
        f"{layer}self_attn.q_proj.weight": (WIDTH, WIDTH),
        f"{layer}self_attn.k_proj.weight": (32, WIDTH),
        f"{layer}self_attn.v_proj.weight": (32, WIDTH),
        f"{layer}self_attn.o_proj.weight": (WIDTH, WIDTH),
        f"{layer}post_attention_layernorm.weight": (WIDTH,),
        f"{layer}mlp.gate_proj.weight": (FEED_FORWARD, WIDTH),
        f"{layer}mlp.up_proj.weight": (FEED_FORWARD, WIDTH),
        f"{layer}mlp.down_proj.weight": (WIDTH, FEED_FORWARD),
        "model.norm.weight": (WIDTH,),
        "lm_head.weight": (40, WIDTH),
    }
    tensors = {name: rng.normal(0, 0.1, shape) for name, shape in shapes.items()}
    return quantized_folder(path, CONFIG, tensors, how, rng)


def changed(path: Path, name: str, change: Change) -> Path:
    """A folder of a format, with a change."""
    how = BY_NAME[name]
    folder = write(path, how, np.random.default_rng(1))
    settings = json.loads(json.dumps(how.config))
    change(folder.stored, settings)
    folder.write({**CONFIG, "quantization_config": settings})
    return folder.path


def data_of(tensor: TensorInfo) -> bytes:
    return bytes(drive(tensor.source.read(tensor.offset, tensor.nbytes)))


def read_all(model: ModelFile) -> None:
    for tensor in model.tensors.values():
        data_of(tensor)
