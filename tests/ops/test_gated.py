"""Gate and up, multiplied as they are made, against float64."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.ops.products import (
    ACTIVATIONS,
    PAIRS,
    PRECISIONS,
    ROWS,
    TOLERANCE,
    Case,
    deal,
    draw,
    make_bias,
    make_input,
    steepness,
)
from wgpu_engine.errors import UnsupportedModelError
from wgpu_engine.files.quants import QUANT_TYPES
from wgpu_engine.ops.matmul import gated
from wgpu_engine.ops.weight import plane_layout


def check_gated(
    lab: Any, builder: Any, case: Case, names: tuple[str, ...], out_codec: str, gate_name: str = "silu"
) -> None:
    print(case, names, out_codec, gate_name)
    plan = builder(case.rows, 0, case.precision)
    # small, so that the gate is at work
    case = replace(case, scale=1.0)
    matrices = [lab.matrix(name, case.features, case.k) for name in (names * 2)[:2]]
    weights = lab.load_all("paired", *matrices)
    assert len(weights) == (2 if len(names) == 2 else 1)
    gate, up = (matrix.values.astype(np.float64) for matrix in matrices)
    scale = 2 / np.sqrt((gate**2).sum(axis=1).max())
    a = make_input(lab, plan, case, weights, lab.rng.standard_normal((case.live, case.k)) * scale)
    bias, bias_values = make_bias(lab, case, 2 * case.features)
    h = gated(plan, weights, a.activation, out_codec, gate=gate_name, bias=bias)
    lab.fill(h.buffer)
    lab.write_state(plan, [(0, 0, 0)] * case.live)
    lab.run(plan)
    assert (h.width, h.codec, h.squares) == (case.features, out_codec, None)
    g, g_bound = a.product(gate, bias_values[: case.features])
    u, u_bound = a.product(up, bias_values[case.features :])
    opened = ACTIVATIONS[gate_name](g)
    wanted = opened * u
    bound = steepness(gate_name, g) * g_bound * np.abs(u) + np.abs(opened) * u_bound + TOLERANCE * np.abs(wanted)
    if out_codec == "q8":
        # the step of the wanted values plus the error of the products, as a part of each block's largest
        slack = (bound / np.abs(wanted).reshape(case.live, -1, 32).max(axis=2).repeat(32, axis=1)).max()
        lab.check_activation(h, wanted, slack)
    else:
        found = lab.rows(h.buffer, case.rows, case.features)
        assert (np.abs(found[: case.live] - wanted) <= bound).all()
        assert (found[case.live :] < -100_000).all()


GATED = [
    ("F32",), ("BF16",), ("Q4_0",), ("Q5_1",), ("Q6_K",), ("Q4_K",),
    ("F16", "Q8_0"), ("Q4_1", "Q5_0"), ("Q4_K", "Q6_K"),
]  # fmt: skip


def draw_gated(names: tuple[str, ...], precision: str, rng: Any, rows: int) -> tuple[Case, str]:
    """A case, and the codec that it writes."""
    q8 = precision == "fast" and not any(QUANT_TYPES[name].is_float for name in names)
    case = draw(names[0], precision, rng, rows=rows, features=32 * int(rng.integers(1, 5)) if q8 else 36)
    if len(names) == 2:
        case = replace(case, k=2 * max(QUANT_TYPES[name].block for name in names))
    return case, "q8" if q8 else "f32"


@pytest.mark.parametrize(("names", "precision"), list(zip(GATED, PRECISIONS, strict=False)))
def test_gated(names: tuple[str, ...], precision: str, lab: Any, builder: Any) -> None:
    """From one weight of two ports, and from two weights where their types differ."""
    case, codec = draw_gated(names, precision, lab.rng, int(lab.rng.choice(ROWS)))
    check_gated(lab, builder, case, names, codec)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "precision"),
    [*((names, precision) for names in GATED if len(names) == 2 for precision in ("exact", "fast")),
     *(((name,), precision) for name, precision in PAIRS)],
    ids=lambda value: value if isinstance(value, str) else "+".join(value),
)  # fmt: skip
def test_gated_everywhere(names: tuple[str, ...], precision: str, lab: Any, builder: Any) -> None:
    for pose, rows in deal(lab, 1, 9):
        with lab.posing(*pose):
            case, codec = draw_gated(names, precision, lab.rng, rows)
            check_gated(lab, builder, case, names, codec)


@pytest.mark.parametrize("features", [1, 3, 31, 33])
def test_gated_odd_features(features: int, lab: Any, builder: Any) -> None:
    check_gated(lab, builder, Case("Q4_0", "exact", 3, features, 64, 3, False, True), ("Q4_0",), "f32")


@pytest.mark.parametrize("gate", [name for name in ACTIVATIONS if name != "silu"])
@pytest.mark.parametrize("names", [("Q4_0",), ("F16", "Q8_0")])
def test_gates(gate: str, names: tuple[str, ...], lab: Any, builder: Any) -> None:
    check_gated(lab, builder, Case("Q4_0", "exact", 3, 64, 96, 2, True, True), names, "f32", gate)


@pytest.mark.parametrize(("names", "bias"), [(("Q4_0",), True), (("Q4_0", "Q8_0"), False)])
def test_features_that_are_no_fours_are_refused_in_a_sentence(
    names: tuple[str, ...], bias: bool, lab: Any, builder: Any
) -> None:
    """Only where they lie one behind the other."""
    case = Case("Q4_0", "exact", 2, 34, 64, 2, bias, True)
    with pytest.raises(UnsupportedModelError, match="34 features, which are no multiple of 4"):
        check_gated(lab, builder, case, names, "f32")


@pytest.mark.any_compiler
def test_gated_in_parts(lab: Any, builder: Any) -> None:
    case = Case("Q5_0", "exact", 2, 44, 64, 2, True, True)
    with lab.limits(binding_bytes=4 * plane_layout(QUANT_TYPES["Q5_0"], 64, 64)[1]):
        check_gated(lab, builder, case, ("Q5_0",), "f32")
