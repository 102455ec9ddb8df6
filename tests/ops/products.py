"""What tests of matrix products share: cases, activations that know how far off a result may be, and weights.

In `exact` results must be within 1e-5 of the sum of all products' magnitudes. In `fast` they must be as near to what
int8 activations give, and no further from the true result than the rounding of activations allows.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from wgpu_engine.files.quants import QUANT_TYPES
from wgpu_engine.ops.matmul import codec_for

TYPES = list(QUANT_TYPES)
PRECISIONS = ("exact", "fast") * len(TYPES)
PAIRS = [
    (name, precision)
    for name in TYPES
    for precision in ("exact", "fast")
    if precision == "exact" or not QUANT_TYPES[name].is_float
]
"""with floats `fast` is the same as `exact`"""
ROWS = (1, 2, 3, 5, 8, 9, 33, 130)
FEATURES = (1, 3, 31, 32, 33, 100, 257)
FLOAT_K = (1, 2, 3, 5, 33, 173, 512)
EPS = 1e-5
TOLERANCE = 1e-5
Doubles = Any
ACTIVATIONS = {
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: x * np.vectorize(math.erfc, otypes=[float])(-x / math.sqrt(2)) / 2,
    "gelu_tanh": lambda x: x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
    "relu": lambda x: np.maximum(x, 0),
    "relu2": lambda x: np.maximum(x, 0) ** 2,
}


def steepness(activation: str, x: Doubles) -> Doubles:
    """No less than the derivative of an activation function near x."""
    return 1.2 if activation != "relu2" else np.maximum(2.1 * x, 1)


@dataclass(frozen=True)
class Case:
    """What a test draws: shapes, and what is fused in."""

    name: str
    precision: str
    rows: int
    features: int
    k: int
    live: int
    """rows of the step; the plan has room for `rows`"""
    bias: bool
    normed: bool
    scale: float = 1.0


def columns_of(name: str, rng: Any) -> int:
    quant = QUANT_TYPES[name]
    return int(rng.choice(FLOAT_K)) if quant.is_float else quant.block * int(rng.integers(1, 1 + 768 // quant.block))


def draw(name: str, precision: str, rng: Any, *, rows: int | None = None, features: int | None = None) -> Case:
    rows = rows or int(rng.choice(ROWS))
    return Case(
        name,
        precision,
        rows,
        features or int(rng.choice(FEATURES)),
        columns_of(name, rng),
        live=int(rng.integers(1, rows + 1)),
        bias=bool(rng.integers(2)),
        normed=bool(rng.integers(2)),
        scale=float(rng.choice([1.0, 0.22])),
    )


@dataclass
class Input:
    """Activations on the device; what readers see of them, and by how much that may differ from what was meant."""

    activation: Any
    meant: Doubles
    seen: Doubles
    rounding: Doubles
    factor: Doubles
    """of the RMS norm, [rows, 1]"""
    scale: float = 1.0
    """of the products and the bias"""

    def product(self, weights: Doubles, bias: Doubles | float = 0.0) -> tuple[Doubles, Doubles]:
        """The product with what is seen, and how far off a result may be."""
        bound = TOLERANCE * (np.abs(self.seen) @ np.abs(weights).T) * self.factor + 1e-6 * np.abs(bias) + 1e-30
        return self.scale * (self.seen @ weights.T * self.factor + bias), self.scale * bound

    def check(self, found: Doubles, weights: Doubles, bias: Doubles | float = 0.0) -> None:
        wanted, bound = self.product(weights, bias)
        off = np.abs(found - wanted) / bound
        assert (off <= 1).all(), f"{off.max() * TOLERANCE:.2g} of the products' sum off, at {np.argmax(off)}"
        true = self.scale * (self.meant @ weights.T * self.factor + bias)
        allowed = bound + self.scale * (self.rounding @ np.abs(weights).T * self.factor)
        assert (np.abs(found - true) <= allowed).all(), "further from the truth than int8 activations are"


def make_input(lab: Any, builder: Any, case: Case, weights: tuple[Any, ...], values: Doubles | None = None) -> Input:
    codec = codec_for(builder, *weights)
    quantized = all(not weight.quant.is_float for weight in weights)
    assert codec == ("q8" if case.precision == "fast" and quantized else "f32")
    if values is None:
        values = lab.rng.standard_normal((case.live, case.k))
    values = np.asarray(values, np.float32).astype(np.float64)
    squares, factor = None, np.ones((len(values), 1))
    if case.normed:
        # of the values before the norm's gain, so they are no function of these
        squares = lab.rng.uniform(0.5, 20, (len(values), -(-case.k // 32))).astype(np.float32).astype(np.float64)
        factor = 1 / np.sqrt(squares.sum(axis=1, keepdims=True) / case.k + EPS)
    activation, seen = lab.activation(builder, values, codec, squares=squares, eps=EPS if case.normed else 0.0)
    rounding = np.abs(seen - values) * (1 + 1e-6)
    return Input(activation, values, seen, rounding, factor, case.scale)


def make_bias(lab: Any, case: Case, size: int) -> tuple[Any, Doubles]:
    if not case.bias:
        return None, np.zeros(size)
    bias = lab.rng.standard_normal(size).astype(np.float32).astype(np.float64)
    return lab.vector(bias), bias


def deal(lab: Any, *values: Any) -> list[tuple[Any, Any]]:
    """Pairs of an adapter's pose and a value, drawn anew each time: every pose and every value is in one at least."""
    poses = lab.adapters()
    count = max(len(poses), len(values))
    drawn = ([each[i % len(each)] for i in lab.rng.permutation(count)] for each in (poses, values))
    return list(zip(*drawn, strict=True))


def pick_pose(lab: Any, number: int) -> Any:
    poses = lab.adapters()
    if number >= len(poses):
        pytest.skip("this device has no subgroups")
    return poses[number]
