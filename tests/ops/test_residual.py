"""Products that are added to the residual stream, and the next norm's input that is written along."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.ops.products import EPS, PAIRS, PRECISIONS, ROWS, Case, deal, draw, make_bias, make_input
from wgpu_engine.files.quants import QUANT_TYPES
from wgpu_engine.ops.matmul import add_to_residual
from wgpu_engine.ops.weight import Norm, plane_layout

SOME_TYPES = ("F16", "Q4_0", "Q5_1", "Q6_K", "IQ3_S", "MXFP4", "INT4_G128", "Q8_0", "TQ2_0", "BF16")
"""one of each way to lie; all are read by the same code as in plain products"""


def check_residual(lab: Any, builder: Any, case: Case, out_codec: str) -> None:
    print(case, out_codec)
    plan = builder(case.rows, 0, case.precision)
    matrix = lab.matrix(case.name, case.features, case.k)
    weight = lab.load(matrix)
    a = make_input(lab, plan, case, (weight,))
    bias, bias_values = make_bias(lab, case, case.features)
    before = lab.rng.standard_normal((case.rows, case.features)).astype(np.float32)
    x = plan.floats(case.features, "residual")
    lab.write_rows(x, before)
    gain = lab.rng.standard_normal(case.features).astype(np.float32)
    norm = Norm(lab.vector(gain), EPS)
    h = add_to_residual(plan, weight, a.activation, x, norm, out_codec, bias=bias, scale=case.scale)
    lab.fill(h.buffer)
    lab.write_state(plan, [(0, 0, 0)] * case.live)
    lab.run(plan)
    assert (h.width, h.codec, h.eps) == (case.features, out_codec, EPS)
    found = lab.rows(x, case.rows, case.features)
    wanted, bound = a.product(matrix.values.astype(np.float64), bias_values)
    wanted += before[: case.live]
    bound += 2e-7 * (np.abs(wanted) + np.abs(before[: case.live]))
    assert (np.abs(found[: case.live] - wanted) <= bound).all()
    assert np.array_equal(found[case.live :], before[case.live :]), "rows beyond the step's are written"
    # from here on, exactly what follows from the residual stream that was written
    live = found[: case.live].astype(np.float64)
    lab.check_squares(h, live)
    lab.check_activation(h, live * gain)


def draw_residual(name: str, precision: str, rng: Any, rows: int) -> tuple[Case, str]:
    """A case, and the codec that it writes."""
    case = draw(name, precision, rng, rows=rows)
    if precision == "exact":
        return case, "f32"
    return replace(case, features=32 * int(rng.integers(1, 9))), "q8"


@pytest.mark.parametrize(("name", "precision"), list(zip(SOME_TYPES, PRECISIONS, strict=False)))
def test_add_to_residual(name: str, precision: str, lab: Any, builder: Any) -> None:
    check_residual(lab, builder, *draw_residual(name, precision, lab.rng, int(lab.rng.choice(ROWS))))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "precision"), PAIRS)
def test_add_to_residual_everywhere(name: str, precision: str, lab: Any, builder: Any) -> None:
    for pose, rows in deal(lab, 1, 9):
        with lab.posing(*pose):
            check_residual(lab, builder, *draw_residual(name, precision, lab.rng, rows))


@pytest.mark.any_compiler
def test_add_to_residual_in_parts(lab: Any, builder: Any) -> None:
    with lab.limits(binding_bytes=4 * plane_layout(QUANT_TYPES["Q4_1"], 96, 32)[1]):
        check_residual(lab, builder, Case("Q4_1", "exact", 3, 100, 96, 2, True, False), "f32")
