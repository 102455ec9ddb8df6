"""GPT-2: learnt positions, and matrices stored [in, out] (modeling_gpt2.py)."""

from collections.abc import Sequence

import numpy as np

from .activations import ACTIVATIONS
from .attention import attend, split
from .checkpoint import Checkpoint, Doubles


def logits(model: Checkpoint, ids: Sequence[int]) -> Doubles:
    config, eps = model.config, model.config["layer_norm_epsilon"]
    act = ACTIVATIONS[config["activation_function"]]
    x = model.embed(ids, "transformer.wte") + model.embed(range(len(ids)), "transformer.wpe")
    for i in range(config["n_layer"]):
        layer = f"transformer.h.{i}"
        h = model.layer_norm(f"{layer}.ln_1", x, eps)
        parts = np.split(_product(model, f"{layer}.attn.c_attn", h), 3, axis=-1)
        mixed = attend(*(split(each, config["n_embd"] // config["n_head"]) for each in parts), scale=_scale(model, i))
        x = x + _product(model, f"{layer}.attn.c_proj", mixed)
        h = act(_product(model, f"{layer}.mlp.c_fc", model.layer_norm(f"{layer}.ln_2", x, eps)))
        x = x + _product(model, f"{layer}.mlp.c_proj", h)
    return model.head(model.layer_norm("transformer.ln_f", x, eps), embedding="transformer.wte")


def _product(model: Checkpoint, name: str, x: Doubles) -> Doubles:
    return x @ model.tensors[f"{name}.weight"] + model.tensors[f"{name}.bias"]


def _scale(model: Checkpoint, layer: int) -> float:
    config = model.config
    scale = (config["n_embd"] // config["n_head"]) ** -0.5 if config.get("scale_attn_weights", True) else 1.0
    return scale / (layer + 1) if config.get("scale_attn_by_inverse_layer_idx") else scale
