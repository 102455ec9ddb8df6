"""What holds for products of every kind: all variants agree, a row is the same in any company, and what is refused."""

from typing import Any

import numpy as np
import pytest

from tests.ops.products import EPS, PAIRS, TYPES
from wgpu_engine.files.quants import QUANT_TYPES
from wgpu_engine.ops.matmul import add_to_residual, codec_for, gated, project
from wgpu_engine.ops.weight import Norm
from wgpu_engine.platform.drive import drive


class Material:
    """Weights and nine rows that every kind of product can be made of."""

    ROWS = 9

    def __init__(self, lab: Any, name: str, features: int, k: int) -> None:
        self.lab, self.features, self.k = lab, features, k
        gate, up = (lab.matrix(name, features, k) for _ in range(2))
        self.weights = {"one": lab.load(gate), "two": lab.load(gate, up)}
        self.norm = Norm(lab.vector(lab.rng.standard_normal(features)), EPS)
        self.bias = lab.vector(lab.rng.standard_normal(2 * features))
        scale = 2 / np.sqrt((gate.values.astype(np.float64) ** 2).sum(axis=1).max())
        self.values = (lab.rng.standard_normal((self.ROWS, k)) * scale).astype(np.float32)
        self.before = lab.rng.standard_normal((self.ROWS, features)).astype(np.float32)
        self.squares = lab.rng.uniform(0.5, 2, (self.ROWS, -(-k // 32))).astype(np.float32)

    def make(self, plan: Any, kind: str, rows: list[int]) -> Any:
        """Adds a product of some rows to a plan. Returns what runs dispatches, and gives a row for each of `rows`."""
        lab, one = self.lab, self.weights["one"]
        a, _ = lab.activation(plan, self.values[rows], codec_for(plan, one), squares=self.squares[rows], eps=EPS)
        x = plan.floats(self.features, "residual")
        if kind == "gated":
            # biases of gate and up lie one behind the other, in fours
            bias = self.bias if self.features % 4 == 0 else None
            outs = [gated(plan, (self.weights["two"],), a, "f32", bias=bias).buffer]
        elif kind == "residual":
            h = add_to_residual(plan, one, a, x, self.norm, "f32", bias=self.bias, scale=0.3)
            outs = [x, h.buffer, h.squares]
        else:
            gather = kind == "outputs"
            outs = [plan.logits(self.features) if gather else plan.floats(self.features, "out")]
            project(plan, (one,), a, outs[0], self.features, bias=self.bias, outputs_only=gather)

        def run(dispatches: Any) -> list[Any]:
            for out in outs:
                lab.fill(out)
            lab.write_rows(x, self.before[rows])
            lab.write_state(plan, [(0, 0, 0)] * len(rows), range(len(rows)) if plan.outputs else ())
            lab.device.run(drive(lab.device.plan(dispatches, kind)))
            widths = (self.features, self.features, -(-self.features // 32))
            return [lab.rows(out, len(rows), width).copy() for out, width in zip(outs, widths, strict=False)]

        return run


ALONE, SEVERAL = [4], [7, 0, 4, 2, 8]


def compare_variants(
    lab: Any, builder: Any, name: str, precision: str, kind: str, steps: tuple[list[int], ...], poses: list[Any]
) -> None:
    """Every way to cut the work, also those that the adapter here would not choose, for one column and for several."""
    material = Material(lab, name, 45, 512 if QUANT_TYPES[name].block > 1 else 517)
    firsts: dict[int, list[Any]] = {}
    sources = set()
    for rows in steps:
        for pose in poses:
            with lab.posing(*pose):
                plan = builder(len(rows), 0, precision)
                plan.trials = {}
                run = material.make(plan, kind, rows)
            (trials,) = plan.trials.values()
            for variant, dispatches in trials.items():
                source = tuple(dispatch.shader.source for dispatch in dispatches)
                if source not in sources:
                    sources.add(source)
                    found = run(dispatches)
                    # against the first of as many rows, and row 4 against what it was alone
                    assert_same(found, firsts.setdefault(len(rows), found), precision, (rows, pose, variant))
    if len(steps) == 2:
        assert_same([out[[SEVERAL.index(4)]] for out in firsts[5]], firsts[1], precision, "alone or not")
    assert len(sources) >= 3 * len(steps), "hardly any variants were tried"


def assert_same(found: list[Any], wanted: list[Any], precision: str, what: Any) -> None:
    for one, other in zip(found, wanted, strict=True):
        if precision == "exact":
            assert np.array_equal(one, other), what
        else:
            # sums cancel, so rounding shows more in them than in their terms
            assert np.abs(one - other).max() <= 1e-4 * np.abs(other).max(), what


@pytest.mark.parametrize(
    ("name", "kind", "precision", "steps"),
    [
        ("F16", "project", "exact", (ALONE, SEVERAL)),
        ("Q4_1", "project", "exact", (ALONE, SEVERAL)),
        ("Q4_1", "project", "fast", (ALONE, SEVERAL)),
        ("Q4_1", "residual", "exact", (ALONE,)),
        ("Q6_K", "gated", "fast", (ALONE,)),
    ],
)
def test_variants_agree(name: str, kind: str, precision: str, steps: Any, lab: Any, builder: Any) -> None:
    """In `exact` to the last bit."""
    compare_variants(lab, builder, name, precision, kind, steps, [lab.adapters()[0], lab.adapters()[-1]])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "precision", "kind"),
    [
        *((name, precision, "project") for name, precision in PAIRS),
        *((name, "exact", kind) for name in ("BF16", "Q5_1", "Q6_K") for kind in ("residual", "gated")),
        *((name, "fast", kind) for name in ("Q5_1", "Q6_K") for kind in ("residual", "gated")),
    ],
)
def test_all_variants_agree(name: str, precision: str, kind: str, lab: Any, builder: Any) -> None:
    compare_variants(lab, builder, name, precision, kind, (ALONE, SEVERAL), lab.adapters())


def test_the_tuners_choice_is_taken(lab: Any, builder: Any) -> None:
    material = Material(lab, "Q4_1", 32, 64)
    plan = builder(5)
    plan.trials = {}
    material.make(plan, "project", [0])
    ((problem, trials),) = plan.trials.items()
    assert plan.dispatches == next(iter(trials.values())), "the first is the default"
    for variant, dispatches in trials.items():
        tuned = builder(5)
        tuned.tuning = {problem: variant}
        material.make(tuned, "project", [0])
        assert [each.shader for each in tuned.dispatches] == [each.shader for each in dispatches]


COMPANIES = [([4], 1), ([8, 0], 2), ([3, 8, 1, 0, 4], 5), ([7], 9), ([5, 5, 2], 9)]
"""rows of a step, and for how many its plan has room"""


@pytest.mark.parametrize(
    ("name", "companies"),
    [
        ("Q4_1", COMPANIES[:3]),
        *[pytest.param(name, COMPANIES, marks=pytest.mark.slow) for name in TYPES],
    ],
)
def test_a_row_is_the_same_bits_in_any_company(name: str, companies: Any, lab: Any, builder: Any) -> None:
    """In `exact`, alone and among others, at any place, in plans of any size, through every kind of product."""
    material = Material(lab, name, 64, 512)
    kinds = ("project", "outputs", "residual", "gated")

    def results(rows: list[int], capacity: int) -> dict[str, list[Any]]:
        found = {}
        for kind in kinds:
            plan = builder(capacity, capacity)
            run = material.make(plan, kind, rows)
            found[kind] = run(plan.dispatches)
        return found

    for pose in (lab.adapters()[0], lab.adapters()[-1]):
        with lab.posing(*pose):
            whole = results(list(range(material.ROWS)), material.ROWS)
            assert np.array_equal(whole["project"][0], whole["outputs"][0])
            for rows, capacity in companies:
                for kind, outs in results(rows, capacity).items():
                    for found, of_all in zip(outs, whole[kind], strict=True):
                        assert np.array_equal(found, of_all[rows]), f"{kind} of rows {rows} of {capacity} on {pose}"


def test_codecs(lab: Any, builder: Any) -> None:
    """Int8 activations only in `fast`, and only where all readers are quantized and blocks of 32 fit."""
    q4, q8, f16 = (lab.load(lab.matrix(name, 4, 32)) for name in ("Q4_0", "Q8_0", "F16"))
    exact, fast = builder(1), builder(1, 0, "fast")
    assert codec_for(exact, q4) == "f32"
    assert codec_for(fast, q4, q8) == "q8"
    assert codec_for(fast, q4, f16) == "f32"


def test_shapes_that_do_not_meet_are_refused(lab: Any, builder: Any) -> None:
    plan = builder(1)
    weight, floats = lab.load(lab.matrix("Q4_0", 6, 64)), lab.load(lab.matrix("F16", 4, 32))
    short, _ = lab.activation(plan, np.ones((1, 32)), "f32")
    blocks, _ = lab.activation(plan, np.ones((1, 32)), "q8")
    with pytest.raises(AssertionError, match="32 activations meet 64 columns"):
        project(plan, (weight,), short, plan.floats(6, "out"), 6)
    with pytest.raises(AssertionError, match="float weights need float activations"):
        project(plan, (floats,), blocks, plan.floats(4, "out"), 4)
    long, _ = lab.activation(plan, np.ones((1, 64)), "f32")
    with pytest.raises(AssertionError, match="four at a time"):
        project(plan, (weight, weight), long, plan.floats(12, "out"), 12)
