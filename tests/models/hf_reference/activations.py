"""Activations by the names that config.json gives them."""

import math

import numpy as np

from .checkpoint import Checkpoint, Doubles

_erf = np.vectorize(math.erf, otypes=[np.float64])


def silu(x: Doubles) -> Doubles:
    return x / (1 + np.exp(-x))


def gelu(x: Doubles) -> Doubles:
    """Exactly: x times the chance that a normal variable is below it."""
    return x * (1 + _erf(x / math.sqrt(2))) / 2


def gelu_tanh(x: Doubles) -> Doubles:
    return x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2


def squared_relu(x: Doubles) -> Doubles:
    return np.maximum(x, 0) ** 2


ACTIVATIONS = {
    "silu": silu,
    "swish": silu,
    "gelu": gelu,
    "gelu_new": gelu_tanh,
    "gelu_pytorch_tanh": gelu_tanh,
    "relu2": squared_relu,
}


def gated(model: Checkpoint, name: str, x: Doubles, activation: str | None = None) -> Doubles:
    """A gated feed-forward of `gate_proj`, `up_proj` and `down_proj`."""
    act = ACTIVATIONS[activation or model.config.get("hidden_act", "silu")]
    return model.linear(
        f"{name}.down_proj", act(model.linear(f"{name}.gate_proj", x)) * model.linear(f"{name}.up_proj", x)
    )
