"""Products that go through an activation function, and logits that are capped, against float64."""

from typing import Any

import numpy as np
import pytest

from tests.ops.products import ACTIVATIONS, TOLERANCE, Case, draw, make_bias, make_input, steepness
from wgpu_engine.files.quants import QUANT_TYPES
from wgpu_engine.ops.matmul import activated, project


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(("name", "precision"), [("F32", "exact"), ("Q4_0", "exact"), ("Q6_K", "fast")])
def test_activated(activation: str, name: str, precision: str, lab: Any, builder: Any) -> None:
    case = draw(name, precision, lab.rng, features=64 if precision == "fast" else None)
    print(case)
    plan = builder(case.rows, 0, precision)
    matrix = lab.matrix(name, case.features, case.k)
    weight, values = lab.load(matrix), matrix.values.astype(np.float64)
    # small, so that the function is at work
    scale = 2 / np.sqrt((values**2).sum(axis=1).max())
    case = Case(name, precision, case.rows, case.features, case.k, case.live, case.bias, case.normed)
    a = make_input(lab, plan, case, (weight,), lab.rng.standard_normal((case.live, case.k)) * scale)
    bias, bias_values = make_bias(lab, case, case.features)
    codec = "q8" if precision == "fast" else "f32"
    h = activated(plan, weight, a.activation, codec, activation=activation, bias=bias)
    lab.fill(h.buffer)
    lab.write_state(plan, [(0, 0, 0)] * case.live)
    lab.run(plan)
    assert (h.width, h.codec, h.squares) == (case.features, codec, None)
    product, bound = a.product(values, bias_values)
    wanted = ACTIVATIONS[activation](product)
    bound = steepness(activation, product) * bound + TOLERANCE * np.abs(wanted)
    if codec == "q8":
        lab.check_activation(
            h, wanted, (bound / np.abs(wanted).reshape(case.live, -1, 32).max(axis=2).repeat(32, 1)).max()
        )
    else:
        found = lab.rows(h.buffer, case.rows, case.features)
        assert (np.abs(found[: case.live] - wanted) <= bound).all()
        assert (found[case.live :] < -100_000).all()


def apply(lab: Any, builder: Any, values: Any, **keywords: Any) -> Any:
    """What becomes of f32 values that are multiplied by one."""
    plan = builder(1)
    one = lab.load(lab.matrix("F32", len(values), 1, np.ones((len(values), 1), np.float32).view(np.uint8)))
    a, _ = lab.activation(plan, np.zeros((1, 1)), "f32")
    out = plan.floats(len(values), "out")
    lab.write_state(plan, [(0, 0, 0)])
    if "cap" in keywords:
        project(plan, (one,), a, out, len(values), bias=lab.vector(values), **keywords)
    else:
        out = activated(plan, one, a, "f32", bias=lab.vector(values), **keywords).buffer
    lab.run(plan)
    return lab.rows(out, 1, len(values))[0]


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_functions_to_rounding(activation: str, lab: Any, builder: Any) -> None:
    """Within what f32 can tell apart near the input, on both sides of zero; nothing overflows on the way."""
    values = np.concatenate(
        [np.linspace(-12, 12, 20001), lab.rng.standard_normal(2000) * 2.0 ** lab.rng.integers(-60, 0, 2000), [0.0]]
    ).astype(np.float32)
    found = apply(lab, builder, values, activation=activation)
    wanted = ACTIVATIONS[activation](values.astype(np.float64))
    allowed = 3e-7 * np.maximum(np.abs(wanted), np.minimum(np.abs(values), 1.0)) + 1e-38
    assert (np.abs(found - wanted) <= allowed).all(), (np.abs(found - wanted) / allowed).max()
    for large in (30.0, 1e3, 1e9):
        high, low = apply(lab, builder, np.array([large, -large], np.float32), activation=activation)
        assert high == np.float32(large) ** (2 if activation == "relu2" else 1)
        assert abs(low) < 1e-6


@pytest.mark.parametrize("cap", [30.0, 50.0, 0.5])
def test_cap(cap: float, lab: Any, builder: Any) -> None:
    values = np.concatenate([cap * np.linspace(-9, 9, 5001), [0.0, 1e-3, 1e5, -1e5, 3e38, -3e38]]).astype(np.float32)
    found = apply(lab, builder, values, cap=cap)
    wanted = cap * np.tanh(values.astype(np.float64) / cap)
    assert np.abs(found - wanted).max() <= 4e-7 * cap
    assert np.abs(found).max() <= cap


def test_cap_comes_after_bias_and_scale(lab: Any, builder: Any) -> None:
    found = apply(lab, builder, np.array([2.0, 40.0, -3.0], np.float32), cap=4.0, scale=0.5)
    np.testing.assert_allclose(found, 4 * np.tanh(np.array([1, 20, -1.5]) / 4), rtol=1e-6)


@pytest.mark.parametrize("name", ["F16", "Q4_1"])
def test_a_cap_on_quantized_weights(name: str, lab: Any, builder: Any) -> None:
    case = Case(name, "exact", 3, 45, QUANT_TYPES[name].block * 3, 3, True, True)
    plan = builder(3)
    matrix = lab.matrix(name, case.features, case.k)
    weight = lab.load(matrix)
    a = make_input(lab, plan, case, (weight,))
    bias, bias_values = make_bias(lab, case, case.features)
    out = plan.floats(case.features, "out")
    project(plan, (weight,), a.activation, out, case.features, bias=bias, cap=7.0)
    lab.write_state(plan, [(0, 0, 0)] * 3)
    lab.run(plan)
    product, bound = a.product(matrix.values.astype(np.float64), bias_values)
    assert (np.abs(lab.rows(out, 3, case.features) - 7 * np.tanh(product / 7)) <= bound + 4e-6).all()
