"""Mixtral, Qwen 2 and Qwen 3 with experts: a router sends each token to the few experts that it finds likeliest.

modeling_mixtral.py, modeling_qwen2_moe.py, modeling_qwen3_moe.py and their configurations.
"""

from collections.abc import Callable, Sequence

import numpy as np

from .activations import ACTIVATIONS, gated
from .attention import softmax
from .checkpoint import Checkpoint, Doubles
from .llama import decode


def logits(model: Checkpoint, ids: Sequence[int]) -> Doubles:
    if model.config["model_type"] == "mixtral":
        window = model.config.get("sliding_window")
        return decode(model, ids, [window] * model.layers, lambda name, x: _mixtral(model, name, x))
    if model.config["model_type"] == "qwen2_moe":
        return decode(model, ids, [None] * model.layers, lambda name, x: _qwen2(model, name, x))
    window = model.config.get("sliding_window") if model.config.get("use_sliding_window") else None
    return decode(model, ids, [window] * model.layers, lambda name, x: _qwen3(model, name, x))


def routes(model: Checkpoint, name: str, x: Doubles, normalised: bool) -> Doubles:
    """How much of each expert's answer each token gets, [tokens, experts]: zero but for the likeliest few."""
    chances = softmax(model.linear(name, x))
    chosen = np.argsort(-chances, axis=-1, kind="stable")[:, : model.config["num_experts_per_tok"]]
    shares = np.zeros_like(chances)
    np.put_along_axis(shares, chosen, np.take_along_axis(chances, chosen, axis=-1), axis=-1)
    return shares / shares.sum(axis=-1, keepdims=True) if normalised else shares


def _mix(shares: Doubles, x: Doubles, expert: Callable[[int, Doubles], Doubles]) -> Doubles:
    return sum((shares[:, i : i + 1] * expert(i, x) for i in range(shares.shape[1])), np.zeros_like(x))


def _mixtral(model: Checkpoint, layer: str, x: Doubles) -> Doubles:
    name, act = f"{layer}.block_sparse_moe", ACTIVATIONS[model.config["hidden_act"]]

    def expert(i: int, x: Doubles) -> Doubles:
        w1, w2, w3 = (f"{name}.experts.{i}.w{j}" for j in (1, 2, 3))
        return model.linear(w2, act(model.linear(w1, x)) * model.linear(w3, x))

    return _mix(routes(model, f"{name}.gate", x, normalised=True), x, expert)


def _qwen2(model: Checkpoint, layer: str, x: Doubles) -> Doubles:
    """As Qwen 3 has it, and an expert for all tokens beside those, times the sigmoid of a gate."""
    shared = gated(model, f"{layer}.mlp.shared_expert", x)
    return _qwen3(model, layer, x) + shared / (1 + np.exp(-model.linear(f"{layer}.mlp.shared_expert_gate", x)))


def _qwen3(model: Checkpoint, layer: str, x: Doubles) -> Doubles:
    config, i = model.config, int(layer.rsplit(".", 1)[1])
    if i in config.get("mlp_only_layers", ()) or (i + 1) % config.get("decoder_sparse_step", 1) != 0:
        return gated(model, f"{layer}.mlp", x)
    shares = routes(model, f"{layer}.mlp.gate", x, normalised=config.get("norm_topk_prob", False))
    return _mix(shares, x, lambda j, x: gated(model, f"{layer}.mlp.experts.{j}", x))
