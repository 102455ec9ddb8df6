"""Weights whose scale is a tensor of its own: products are multiplied by it, and by nothing else."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.ops.products import EPS, Case, make_bias, make_input, pick_pose
from wgpu_engine.errors import UnsupportedModelError
from wgpu_engine.files.gguf import TensorInfo
from wgpu_engine.files.quants import QUANT_TYPES
from wgpu_engine.ops.matmul import add_to_residual, gated, project
from wgpu_engine.ops.weight import Norm, plane_layout
from wgpu_engine.platform.memory_source import MemorySource

TOLERANCE = 1e-5


def scaled(matrix: Any, scale: float | None) -> Any:
    """A matrix with a scale beside it."""
    if scale is None:
        return matrix
    source = MemorySource("scale", np.array([scale], np.float32).tobytes())
    beside = TensorInfo("scale", QUANT_TYPES["F32"], (1,), source, 0, 4)
    values = matrix.values.astype(np.float64) * np.float64(np.float32(scale))
    return replace(matrix, tensor=replace(matrix.tensor, scale=beside), values=values)


@pytest.mark.parametrize("pose", range(4))
@pytest.mark.parametrize("precision", ["exact", "fast"])
@pytest.mark.parametrize("rows", [1, 9])
def test_stacked(rows: int, precision: str, pose: int, lab: Any, builder: Any) -> None:
    """Q, K and V, of which one has none; in a weight of their own, or side by side."""
    with lab.posing(*pick_pose(lab, pose)):
        case = Case("Q8_0", precision, rows, 52, 256, live=rows, bias=True, normed=True)
        plan = builder(rows, 0, precision)
        sizes = (("Q8_0", 36, 3.5), ("Q8_0", 12, None), ("TQ2_0", 4, -0.25))
        matrices = [scaled(lab.matrix(name, features, 256), scale) for name, features, scale in sizes]
        weights = lab.load_all("stacked", *matrices)
        assert [weight.factors is not None for weight in weights] == [True, True]
        a = make_input(lab, plan, case, weights)
        bias, bias_values = make_bias(lab, case, 52)
        out = plan.floats(52, "out")
        project(plan, weights, a.activation, out, 52, bias=bias)
        lab.write_state(plan, [(0, 0, 0)] * rows)
        lab.run(plan)
        a.check(lab.rows(out, rows, 52), np.concatenate([m.values for m in matrices]).astype(np.float64), bias_values)


@pytest.mark.parametrize("pose", range(4))
@pytest.mark.parametrize("names", [("TQ1_0",), ("Q8_0", "Q4_1")])
def test_gate_and_up(names: tuple[str, ...], pose: int, lab: Any, builder: Any) -> None:
    with lab.posing(*pick_pose(lab, pose)):
        case = Case(names[0], "exact", 5, 64, 256, live=4, bias=True, normed=True)
        plan = builder(5, 0, "exact")
        scales = (0.02, 0.05)
        gate, up = (scaled(lab.matrix(n, 64, 256), s) for n, s in zip((names * 2)[:2], scales, strict=True))
        weights = lab.load_all("paired", gate, up)
        a = make_input(lab, plan, case, weights)
        bias, bias_values = make_bias(lab, case, 128)
        h = gated(plan, weights, a.activation, "f32", gate="relu", bias=bias)
        lab.write_state(plan, [(0, 0, 0)] * 4)
        lab.run(plan)
        g, g_bound = a.product(gate.values, bias_values[:64])
        u, u_bound = a.product(up.values, bias_values[64:])
        opened = np.maximum(g, 0)
        bound = g_bound * np.abs(u) + opened * u_bound + TOLERANCE * opened * np.abs(u)
        assert (np.abs(lab.rows(h.buffer, 4, 64) - opened * u) <= bound).all()


def test_features_that_are_no_fours_are_refused_in_a_sentence(lab: Any, builder: Any) -> None:
    weights = lab.load_all("paired", *(scaled(lab.matrix("Q8_0", 34, 64), scale) for scale in (0.5, 2.0)))
    plan = builder(2)
    a = make_input(lab, plan, Case("Q8_0", "exact", 2, 34, 64, live=2, bias=False, normed=False), weights)
    with pytest.raises(UnsupportedModelError, match="34 features, which are no multiple of 4, and biases, scales"):
        gated(plan, weights, a.activation, "f32")


@pytest.mark.any_compiler
@pytest.mark.parametrize("precision", ["exact", "fast"])
def test_residual_in_parts(precision: str, lab: Any, builder: Any) -> None:
    case = Case("Q4_0", precision, 3, 96, 64, live=2, bias=False, normed=False, scale=0.5)
    matrix = scaled(lab.matrix("Q4_0", 96, 64), -2.75)
    with lab.limits(binding_bytes=4 * plane_layout(matrix.tensor.type, 64, 32)[1]):
        weight = lab.load(matrix)
    assert len(weight.parts) == 3
    plan = builder(3, 0, precision)
    a = make_input(lab, plan, case, (weight,))
    x = plan.floats(96, "residual")
    lab.write_rows(x, np.zeros((3, 96)))
    norm = Norm(lab.vector(np.ones(96)), EPS)
    add_to_residual(plan, weight, a.activation, x, norm, "f32", scale=case.scale)
    lab.write_state(plan, [(0, 0, 0)] * 2)
    lab.run(plan)
    a.check(lab.rows(x, 2, 96).astype(np.float64), matrix.values)
