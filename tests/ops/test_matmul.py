"""Matrix products from every type of weight against float64, and what is fused into them.

In `exact` results must be within 1e-5 of the sum of all products' magnitudes. In `fast` they must be as near to what
int8 activations give, and no further from the true result than the rounding of activations allows.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from wgpu_engine.files.quants import QUANT_TYPES
from wgpu_engine.ops.matmul import add_to_residual, codec_for, gated, project
from wgpu_engine.ops.weight import Norm, plane_layout

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


def pick_pose(lab: Any, number: int) -> Any:
    poses = lab.adapters()
    if number >= len(poses):
        pytest.skip("this device has no subgroups")
    return poses[number]


@pytest.mark.slow
@pytest.mark.parametrize("pose", range(4))
@pytest.mark.parametrize(("name", "precision"), PAIRS)
def test_project_everywhere(name: str, precision: str, pose: int, lab: Any, builder: Any) -> None:
    with lab.posing(*pick_pose(lab, pose)):
        for rows, features in zip(ROWS, [*lab.rng.permutation(FEATURES), 64], strict=True):
            check_project(lab, builder, draw(name, precision, lab.rng, rows=rows, features=int(features)))


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


def silu(x: Doubles) -> Doubles:
    return x / (1 + np.exp(-x))


def silu_slope() -> float:
    return 1.1


def check_gated(lab: Any, builder: Any, case: Case, names: tuple[str, ...], out_codec: str) -> None:
    print(case, names, out_codec)
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
    h = gated(plan, weights, a.activation, out_codec, bias=bias)
    lab.fill(h.buffer)
    lab.write_state(plan, [(0, 0, 0)] * case.live)
    lab.run(plan)
    assert (h.width, h.codec, h.squares) == (case.features, out_codec, None)
    g, g_bound = a.product(gate, bias_values[: case.features])
    u, u_bound = a.product(up, bias_values[case.features :])
    wanted = silu(g) * u
    bound = silu_slope() * g_bound * np.abs(u) + np.abs(silu(g)) * u_bound + TOLERANCE * np.abs(wanted)
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
@pytest.mark.parametrize("pose", range(4))
@pytest.mark.parametrize("precision", ["exact", "fast"])
@pytest.mark.parametrize("names", GATED + [(name,) for name in TYPES], ids="+".join)
def test_gated_everywhere(names: tuple[str, ...], precision: str, pose: int, lab: Any, builder: Any) -> None:
    with lab.posing(*pick_pose(lab, pose)):
        for rows in (1, 9):
            case, codec = draw_gated(names, precision, lab.rng, rows)
            check_gated(lab, builder, case, names, codec)


@pytest.mark.parametrize("features", [1, 3, 31, 33])
def test_gated_odd_features(features: int, lab: Any, builder: Any) -> None:
    check_gated(lab, builder, Case("Q4_0", "exact", 3, features, 64, 3, False, True), ("Q4_0",), "f32")


def test_gated_in_parts(lab: Any, builder: Any) -> None:
    case = Case("Q5_0", "exact", 2, 44, 64, 2, True, True)
    with lab.limits(binding_bytes=4 * plane_layout(QUANT_TYPES["Q5_0"], 64, 64)[1]):
        check_gated(lab, builder, case, ("Q5_0",), "f32")


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


@pytest.mark.parametrize(("name", "precision"), list(zip(TYPES, PRECISIONS, strict=False)))
def test_add_to_residual(name: str, precision: str, lab: Any, builder: Any) -> None:
    check_residual(lab, builder, *draw_residual(name, precision, lab.rng, int(lab.rng.choice(ROWS))))


@pytest.mark.slow
@pytest.mark.parametrize("pose", range(4))
@pytest.mark.parametrize(("name", "precision"), PAIRS)
def test_add_to_residual_everywhere(name: str, precision: str, pose: int, lab: Any, builder: Any) -> None:
    with lab.posing(*pick_pose(lab, pose)):
        for rows in (1, 9):
            check_residual(lab, builder, *draw_residual(name, precision, lab.rng, rows))


def test_add_to_residual_in_parts(lab: Any, builder: Any) -> None:
    with lab.limits(binding_bytes=4 * plane_layout(QUANT_TYPES["Q4_1"], 96, 32)[1]):
        check_residual(lab, builder, Case("Q4_1", "exact", 3, 100, 96, 2, True, False), "f32")


# any adapter, any company


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
            outs = [gated(plan, (self.weights["two"],), a, "f32", bias=self.bias).buffer]
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
            lab.device.run(lab.device.plan(dispatches, kind))
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
