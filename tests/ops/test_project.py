"""Plain products of every type of weight against float64."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.ops.products import (
    FEATURES,
    PAIRS,
    PRECISIONS,
    ROWS,
    TYPES,
    Case,
    Input,
    deal,
    draw,
    make_bias,
    make_input,
)
from wgpu_engine.ops.builder import square_words
from wgpu_engine.ops.matmul import project
from wgpu_engine.ops.weight import plane_layout


def check_project(lab: Any, builder: Any, case: Case) -> None:
    print(case)
    plan = builder(case.rows, 0, case.precision)
    matrix = lab.matrix(case.name, case.features, case.k)
    weight = lab.load(matrix)
    a = make_input(lab, plan, case, (weight,))
    bias, bias_values = make_bias(lab, case, case.features)
    out = plan.floats(case.features, "out")
    project(plan, (weight,), a.activation, out, case.features, bias=bias, scale=case.scale)
    lab.fill(out)
    lab.write_state(plan, [(0, 0, 0)] * case.live)
    lab.run(plan)
    found = lab.rows(out, case.rows, case.features)
    a.check(found[: case.live].astype(np.float64), matrix.values.astype(np.float64), bias_values)
    assert (found[case.live :] < -100_000).all(), "rows beyond the step's are written"


@pytest.mark.parametrize(("name", "precision"), PAIRS)
def test_project(name: str, precision: str, lab: Any, builder: Any) -> None:
    rows = 1 if precision == PRECISIONS[TYPES.index(name)] else int(lab.rng.choice(ROWS[1:]))
    check_project(lab, builder, draw(name, precision, lab.rng, rows=rows))


@pytest.mark.parametrize("precision", ["exact", "fast"])
@pytest.mark.parametrize("name", ["INT4_G128", "INT8_G128", "TERNARY"])
def test_rows_that_end_within_a_block(name: str, precision: str, lab: Any, builder: Any) -> None:
    """Also after an odd number of units, where a single column takes two at a time: behind it lies the next row."""
    for k in (32, 96, 192):
        case = Case(name, precision, 3, 37, k, 3, bias=False, normed=False)
        plan = builder(case.rows, 1, precision)
        matrix = lab.matrix(name, case.features, k)
        weight = lab.load(matrix)
        a = make_input(lab, plan, case, (weight,))
        logits = plan.logits(case.features)
        project(plan, (weight,), a.activation, logits, case.features, outputs_only=True)
        lab.write_state(plan, [(0, 0, 0)] * case.live, [0])
        lab.run(plan)
        picked = Input(None, a.meant[:1], a.seen[:1], a.rounding[:1], a.factor[:1])
        picked.check(lab.rows(logits, 1, case.features), matrix.values.astype(np.float64))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "precision"), PAIRS)
def test_project_everywhere(name: str, precision: str, lab: Any, builder: Any) -> None:
    features = [*lab.rng.permutation(FEATURES), 64]
    for (pose, rows), each in zip(deal(lab, *ROWS), features, strict=True):
        with lab.posing(*pose):
            check_project(lab, builder, draw(name, precision, lab.rng, rows=rows, features=int(each)))


@pytest.mark.any_compiler
@pytest.mark.parametrize("precision", ["exact", "fast"])
def test_stacked_weights_of_unequal_types(precision: str, lab: Any, builder: Any) -> None:
    """q, k and v one behind the other in a row, with a bias over all."""
    case = Case("Q8_0", precision, 5, 52, 256, live=4, bias=True, normed=True)
    plan = builder(case.rows, 0, precision)
    matrices = [lab.matrix(name, features, 256) for name, features in (("Q4_K", 36), ("Q8_0", 12), ("Q6_K", 4))]
    weights = lab.load_all("stacked", *matrices)
    assert len(weights) == 3
    a = make_input(lab, plan, case, weights)
    bias, bias_values = make_bias(lab, case, 52)
    out = plan.floats(52, "out")
    project(plan, weights, a.activation, out, 52, bias=bias)
    lab.write_state(plan, [(0, 0, 0)] * 4)
    lab.run(plan)
    a.check(lab.rows(out, 4, 52), np.concatenate([m.values for m in matrices]).astype(np.float64), bias_values)


@pytest.mark.any_compiler
@pytest.mark.parametrize(
    ("name", "k", "precision"), [("F16", 51, "exact"), ("Q4_1", 64, "fast"), ("Q6_K", 512, "exact")]
)
def test_a_weight_in_parts(name: str, k: int, precision: str, lab: Any, builder: Any) -> None:
    case = Case(name, precision, 2, 77, k, 2, bias=True, normed=True)
    matrix = lab.matrix(name, case.features, case.k)
    with lab.limits(binding_bytes=4 * plane_layout(matrix.tensor.type, case.k, 32)[1]):
        weight = lab.load(matrix)
    assert len(weight.parts) == 3
    plan = builder(case.rows, 0, precision)
    a = make_input(lab, plan, case, (weight,))
    bias, bias_values = make_bias(lab, case, case.features)
    out = plan.floats(case.features, "out")
    project(plan, (weight,), a.activation, out, case.features, bias=bias)
    lab.write_state(plan, [(0, 0, 0)] * case.rows)
    lab.run(plan)
    a.check(lab.rows(out, case.rows, case.features), matrix.values.astype(np.float64), bias_values)


@pytest.mark.parametrize(("rows", "live"), [(1, 1), (5, 3), (20, 20)])
def test_squares_of_results(rows: int, live: int, lab: Any, builder: Any) -> None:
    """Sums over 32 results each, of weights one below the other, the last of which ends within a block."""
    case = Case("Q8_0", "exact", rows, 172, 96, live, bias=True, normed=True)
    matrices = [lab.matrix(name, features, 96) for name, features in (("Q8_0", 96), ("Q4_0", 76))]
    for pose in lab.adapters():
        with lab.posing(*pose):
            plan = builder(rows)
            weights = lab.load_all("stacked", *matrices)
            a = make_input(lab, plan, case, weights)
            bias, _ = make_bias(lab, case, 172)
            out, squares = plan.floats(172, "out"), plan.buffer(4 * rows * square_words(172), "sums")
            lab.fill(squares)
            project(plan, weights, a.activation, out, 172, bias=bias, squares=squares)
            lab.write_state(plan, [(0, 0, 0)] * live)
            lab.run(plan)
            sums = lab.words(squares, rows * square_words(172)).view(np.float32).reshape(rows, -1)
            padded = np.zeros((live, 192))
            padded[:, :172] = lab.rows(out, live, 172)
            wanted = (padded**2).reshape(live, 6, 32).sum(axis=2)
            np.testing.assert_allclose(sums[:live, :6], wanted, rtol=1e-5)
            assert (sums[live:] < -100_000).all(), "rows beyond the step's are written"


@pytest.mark.parametrize("name", ["F32", "Q4_1", "Q6_K"])
@pytest.mark.parametrize("outputs", [1, 4])
def test_outputs_read_the_rows_that_they_belong_to(name: str, outputs: int, lab: Any, builder: Any) -> None:
    case = Case(name, "exact", 9, 70, 256, live=7, bias=False, normed=True)
    plan = builder(case.rows, outputs)
    matrix = lab.matrix(name, case.features, case.k)
    weight = lab.load(matrix)
    a = make_input(lab, plan, case, (weight,))
    logits = plan.logits(case.features)
    project(plan, (weight,), a.activation, logits, case.features, outputs_only=True)
    for wanted in range(1, outputs + 1):
        of = [int(row) for row in lab.rng.integers(0, case.live, wanted)]
        lab.fill(logits)
        lab.write_state(plan, [(0, 0, 0)] * case.live, of)
        lab.run(plan)
        found = lab.rows(logits, outputs, case.features)
        picked = Input(None, a.meant[of], a.seen[of], a.rounding[of], a.factor[of])
        picked.check(found[:wanted], matrix.values.astype(np.float64))
        assert (found[wanted:] < -100_000).all()


def test_a_vocabulary_of_262144(lab: Any, builder: Any) -> None:
    case = Case("Q4_0", "exact", 1, 262_144, 32, 1, False, False)
    matrix = lab.matrix("Q4_0", case.features, case.k)
    weight = lab.load(matrix)
    for precision in ("exact", "fast"):
        plan = builder(1, 1, precision)
        a = make_input(lab, plan, replace(case, precision=precision), (weight,))
        logits = plan.logits(case.features)
        project(plan, (weight,), a.activation, logits, case.features, outputs_only=True)
        lab.write_state(plan, [(0, 0, 0)], [0])
        lab.run(plan)
        a.check(lab.rows(logits, 1, case.features), matrix.values.astype(np.float64))


def test_more_workgroups_than_a_dimension_holds(lab: Any, builder: Any) -> None:
    """More than 65,535 groups of 32 features wrap into another dimension of the grid."""
    case = Case("BF16", "exact", 1, 32 * 65_535 + 77, 3, 1, False, False)
    matrix = lab.matrix("BF16", case.features, case.k)
    weight = lab.load(matrix)
    plan = builder(1)
    a = make_input(lab, plan, case, (weight,))
    out = plan.floats(case.features, "out")
    project(plan, (weight,), a.activation, out, case.features)
    lab.fill(out)
    lab.write_state(plan, [(0, 0, 0)])
    lab.run(plan)
    a.check(lab.rows(out, 1, case.features), matrix.values.astype(np.float64))


@pytest.mark.parametrize("name", ["F32", "Q8_0"])
@pytest.mark.parametrize("precision", ["exact", "fast"])
def test_activations_beyond_half_floats(name: str, precision: str, lab: Any, builder: Any) -> None:
    """Values past 65504 and tiny ones stay right: nothing is kept in half precision on the way."""
    case = Case(name, precision, 2, 33, 64, 2, False, False)
    matrix = lab.matrix(name, case.features, case.k)
    weight = lab.load(matrix)
    plan = builder(2, 0, precision)
    values = lab.rng.standard_normal((2, case.k)) * [[1e9], [1e-9]]
    a = make_input(lab, plan, case, (weight,), values)
    out = plan.floats(case.features, "out")
    project(plan, (weight,), a.activation, out, case.features)
    lab.write_state(plan, [(0, 0, 0)] * 2)
    lab.run(plan)
    a.check(lab.rows(out, 2, case.features), matrix.values.astype(np.float64))
