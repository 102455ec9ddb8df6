"""Mixtures of experts against float64: routing, and products with the weights of each row's experts."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from tests.ops.products import EPS, PAIRS, PRECISIONS, TOLERANCE, TYPES, deal, pick_pose
from wgpu_engine.files.gguf import TensorInfo
from wgpu_engine.files.quants import QUANT_TYPES
from wgpu_engine.ops.experts import add_experts, gated_experts
from wgpu_engine.ops.matmul import codec_for
from wgpu_engine.ops.routing import Routing, route
from wgpu_engine.ops.weight import Norm, plane_layout
from wgpu_engine.platform.memory_source import MemorySource

Array = Any
MIXTURES = ((3, 1), (60, 4), (8, 2), (5, 5), (1, 1))
"""experts, and those of a row"""
ROWS = (1, 2, 8, 9, 130)


def silu(x: Array) -> Array:
    return x / (1 + np.exp(-x))


def chosen_of(logits: Array, used: int) -> Array:
    """The experts of each row, in order of their numbers; the lower number of equal logits."""
    return np.sort(np.argsort(-logits, axis=1, kind="stable")[:, :used], axis=1)


def shares_of(logits: Array, chosen: Array, kind: str, scale: float = 1.0) -> Array:
    if kind == "sigmoid":
        return scale / (1 + np.exp(-np.take_along_axis(logits.astype(np.float64), chosen, axis=1)))
    powers = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    mine = np.take_along_axis(powers, chosen, axis=1)
    return scale * mine / (mine if kind == "chosen" else powers).sum(axis=1, keepdims=True)


def routed(lab: Any, plan: Any, logits: Array, used: int, shares: Any = "chosen", scale: float = 1.0) -> Routing:
    """A routing by these logits, which have a row for each that is live."""
    buffer = plan.floats(logits.shape[1], "router")
    lab.fill(buffer, np.float32(np.nan))
    lab.write_rows(buffer, logits)
    return route(plan, buffer, logits.shape[1], used, shares=shares, scale=scale)


def check_groups(lab: Any, routing: Routing, chosen: Array) -> None:
    """Every pair must stand in one group of its expert, rows in order, and no group be larger than it may be."""
    words = lab.words(routing.groups, 4 + 4 * routing.most_groups + routing.pairs)
    count, order = int(words[0]), words[4 + 4 * routing.most_groups :]
    assert count <= routing.most_groups
    experts = chosen.ravel()
    place = 0
    for expert, first, end, _ in words[4 : 4 + 4 * count].reshape(-1, 4).tolist():
        assert first == place and first < end <= first + routing.group_size
        assert (experts[order[first:end]] == expert).all()
        place = end
    assert place == len(experts)
    assert np.array_equal(order[:place], np.argsort(experts, kind="stable"))


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize(("experts", "used"), [*MIXTURES, (128, 8), (512, 10)])
def test_route(experts: int, used: int, rows: int, lab: Any, builder: Any) -> None:
    live = int(lab.rng.integers(1, rows + 1))
    kind, scale = str(lab.rng.choice(["all", "chosen", "sigmoid"])), float(lab.rng.choice([1.0, 2.5]))
    logits = (3 * lab.rng.standard_normal((live, experts))).astype(np.float32)
    # equal ones too
    logits[:, lab.rng.integers(0, experts, experts // 2)] = logits[:, :1]
    plan = builder(rows)
    routing = routed(lab, plan, logits, used, kind, scale)
    lab.fill(routing.choices)
    lab.write_state(plan, [(0, 0, 0)] * live)
    lab.run(plan)
    words = lab.words(routing.choices, 2 * routing.pairs).reshape(rows, used, 2)
    chosen = chosen_of(logits, used)
    assert np.array_equal(words[:live, :, 0], chosen)
    shares = np.ascontiguousarray(words[:live, :, 1]).view(np.float32)
    np.testing.assert_allclose(shares, shares_of(logits, chosen, kind, scale), rtol=2e-5)
    assert (np.ascontiguousarray(words[live:]).view(np.float32) < -100_000).all(), "rows beyond the step's are written"
    check_groups(lab, routing, chosen)


def test_rows_of_no_numbers_are_routed_to_as_many(lab: Any, builder: Any) -> None:
    logits = lab.rng.standard_normal((6, 7)).astype(np.float32)
    logits[0] = np.nan
    logits[1, 2:5] = np.nan
    logits[2] = np.inf
    logits[3] = -np.inf
    logits[4, :3] = -np.float32(np.nan)
    plan = builder(6)
    routing = routed(lab, plan, logits, 3)
    lab.write_state(plan, [(0, 0, 0)] * 6)
    lab.run(plan)
    chosen = lab.words(routing.choices, 36).reshape(6, 3, 2)[..., 0]
    assert (np.diff(chosen.astype(int)) > 0).all() and (chosen < 7).all()
    assert np.array_equal(chosen[5], chosen_of(logits[5:], 3)[0])
    check_groups(lab, routing, chosen)


@dataclass(frozen=True)
class Mixture:
    """What a test draws."""

    name: str
    precision: str
    rows: int
    live: int
    experts: int
    used: int
    features: int
    k: int


def draw(name: str, precision: str, rng: Any, rows: int | None = None) -> Mixture:
    quant = QUANT_TYPES[name]
    experts, used = MIXTURES[int(rng.integers(len(MIXTURES)))]
    rows = rows or int(rng.choice(ROWS))
    k = int(rng.choice((5, 32, 173))) if quant.is_float else quant.block * int(rng.integers(1, 1 + 512 // quant.block))
    features = 32 * int(rng.integers(1, 4)) if precision == "fast" else 4 * int(rng.integers(1, 20))
    return Mixture(name, precision, rows, int(rng.integers(1, rows + 1)), experts, used, features, k)


def draw_logits(rng: Any, mixture: Mixture) -> Array:
    """Logits by which rows go to experts of all kinds, all to the same, or hardly any two to the same."""
    logits = rng.standard_normal((mixture.live, mixture.experts)).astype(np.float32)
    how = int(rng.integers(3))
    if how == 0:
        logits[:, int(rng.integers(mixture.experts))] += 20
    elif how == 1:
        logits += 20 * np.eye(mixture.experts, dtype=np.float32)[np.arange(mixture.live) % mixture.experts]
    return logits


def by_expert(values: Array, mixture: Mixture) -> Array:
    return values.astype(np.float64).reshape(mixture.experts, -1, values.shape[1])


def scaled(lab: Any, matrix: Any, experts: int) -> Any:
    """A matrix of experts with a scale for each beside it."""
    scales = lab.rng.uniform(0.1, 3, experts).astype(np.float32)
    beside = TensorInfo(
        "scale", QUANT_TYPES["F32"], (experts,), MemorySource("scale", scales.tobytes()), 0, 4 * experts
    )
    values = matrix.values.astype(np.float64) * scales.repeat(len(matrix.values) // experts)[:, None]
    return replace(matrix, tensor=replace(matrix.tensor, scale=beside), values=values)


def check_gated(
    lab: Any, builder: Any, mixture: Mixture, names: tuple[str, ...] = (), with_scales: bool = False
) -> None:
    print(mixture)
    m = mixture
    plan = builder(m.rows, 0, m.precision)
    matrices = [lab.matrix(name, m.experts * m.features, m.k) for name in (names or (m.name, m.name))]
    if with_scales:
        matrices = [scaled(lab, matrix, m.experts) for matrix in matrices]
    if names:
        weights = tuple(lab.load(matrix, experts=m.experts) for matrix in matrices)
    else:
        weights = (lab.load(*matrices, experts=m.experts),)
    gate, up = (by_expert(matrix.values, m) for matrix in matrices)
    values = 2 / np.sqrt((gate**2).sum(axis=2).max()) * lab.rng.standard_normal((m.live, m.k))
    squares = lab.rng.uniform(0.5, 20, (m.live, -(-m.k // 32))).astype(np.float32).astype(np.float64)
    factor = 1 / np.sqrt(squares.sum(axis=1, keepdims=True) / m.k + EPS)
    a, seen = lab.activation(plan, values, codec_for(plan, *weights), squares=squares, eps=EPS)
    logits = draw_logits(lab.rng, m)
    codec = "q8" if a.codec == "q8" else "f32"
    h = gated_experts(plan, weights, a, routed(lab, plan, logits, m.used), codec)
    lab.fill(h.buffer)
    lab.write_state(plan, [(0, 0, 0)] * m.live)
    lab.run(plan)
    assert (h.width, h.codec, h.squares) == (m.features, codec, None)
    chosen, pairs = chosen_of(logits, m.used), m.live * m.used
    seen = seen[:, None, :, None] * factor[:, :, None, None]
    g, u = (np.matmul(matrix[chosen], seen)[..., 0].reshape(pairs, -1) for matrix in (gate, up))
    sizes = [np.matmul(abs(matrix[chosen]), abs(seen))[..., 0].reshape(pairs, -1) for matrix in (gate, up)]
    wanted = silu(g) * u
    bound = TOLERANCE * (1.1 * sizes[0] * np.abs(u) + np.abs(silu(g)) * sizes[1] + np.abs(wanted)) + 1e-30
    if codec == "q8":
        slack = (bound / (np.abs(wanted).reshape(pairs, -1, 32).max(axis=2).repeat(32, axis=1) + 1e-30)).max()
        lab.check_activation(h, wanted, slack)
    else:
        found = lab.rows(h.buffer, m.rows * m.used, m.features)
        assert (np.abs(found[:pairs] - wanted) <= bound).all()
        assert (found[pairs:] < -100_000).all(), "rows beyond the step's are written"


def check_added(lab: Any, builder: Any, mixture: Mixture, with_scales: bool = False) -> None:
    print(mixture)
    m = mixture
    plan = builder(m.rows, 0, m.precision)
    matrix = lab.matrix(m.name, m.experts * m.features, m.k)
    matrix = scaled(lab, matrix, m.experts) if with_scales else matrix
    weight = lab.load(matrix, experts=m.experts)
    logits = draw_logits(lab.rng, m)
    routing = routed(lab, plan, logits, m.used, shares="all", scale=1.5)
    codec = codec_for(plan, weight)
    a = plan.activation(m.k, codec, "gated", routing.pairs)
    lab.fill(a, np.float32(np.nan))
    made, seen = lab.activation(builder(m.live * m.used), lab.rng.standard_normal((m.live * m.used, m.k)), codec)
    lab.device.write(a, 0, lab.words(made.buffer, made.buffer.size // 4).tobytes())
    before = lab.rng.standard_normal((m.rows, m.features)).astype(np.float32)
    x = plan.floats(m.features, "residual")
    lab.write_rows(x, before)
    gain = lab.rng.standard_normal(m.features).astype(np.float32)
    activation = type(made)(a, m.k, codec)
    h = add_experts(plan, weight, activation, routing, x, Norm(lab.vector(gain), EPS), codec)
    lab.fill(h.buffer)
    lab.write_state(plan, [(0, 0, 0)] * m.live)
    lab.run(plan)
    assert (h.width, h.codec, h.eps) == (m.features, codec, EPS)
    chosen = chosen_of(logits, m.used)
    shares = shares_of(logits, chosen, "all", 1.5)[..., None]
    weights, seen = by_expert(matrix.values, m)[chosen], seen.reshape(m.live, m.used, m.k, 1)
    wanted = (shares * np.matmul(weights, seen)[..., 0]).sum(axis=1) + before[: m.live]
    bound = 3 * TOLERANCE * (shares * np.matmul(abs(weights), abs(seen))[..., 0]).sum(axis=1) + 1e-6
    found = lab.rows(x, m.rows, m.features)
    assert (np.abs(found[: m.live] - wanted) <= bound).all()
    assert np.array_equal(found[m.live :], before[m.live :]), "rows beyond the step's are written"
    live = found[: m.live].astype(np.float64)
    lab.check_squares(h, live)
    lab.check_activation(h, live * gain)


def check_one(lab: Any, builder: Any, mixture: Mixture) -> None:
    """Checks either of the two products, which read weights alike."""
    (check_gated if lab.rng.integers(2) else check_added)(lab, builder, mixture)


@pytest.mark.parametrize(("name", "precision"), list(zip(TYPES, PRECISIONS, strict=False)))
def test_experts_of_every_type(name: str, precision: str, lab: Any, builder: Any) -> None:
    check_one(lab, builder, draw(name, precision, lab.rng))


@pytest.mark.parametrize("pose", range(4))
def test_kinds_of_adapters(pose: int, lab: Any, builder: Any) -> None:
    kinds = (("Q4_0", "exact", 1), ("Q4_K", "fast", 9), ("F16", "exact", 8), ("Q8_0", "fast", 1))
    with lab.posing(*pick_pose(lab, pose)):
        name, precision, rows = kinds[int(lab.rng.integers(len(kinds)))]
        check_gated(lab, builder, draw(name, precision, lab.rng, rows))
        check_added(lab, builder, draw(name, precision, lab.rng, rows))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "precision"), PAIRS)
def test_experts_everywhere(name: str, precision: str, lab: Any, builder: Any) -> None:
    for pose, rows in deal(lab, *ROWS):
        with lab.posing(*pose):
            check_gated(lab, builder, draw(name, precision, lab.rng, rows))
            check_added(lab, builder, draw(name, precision, lab.rng, rows))


@pytest.mark.parametrize(("names", "precision"), [(("F16", "Q8_0"), "exact"), (("Q4_K", "Q6_K"), "fast")])
def test_gate_and_up_of_unequal_types(names: tuple[str, ...], precision: str, lab: Any, builder: Any) -> None:
    check_gated(lab, builder, Mixture(names[0], precision, 9, 7, 5, 2, 64, 256), names)


@pytest.mark.parametrize("rows", [1, 20])
@pytest.mark.parametrize(("precision", "names"), [("exact", ()), ("fast", ()), ("exact", ("Q8_0", "F16"))])
def test_experts_with_scales_of_their_own(
    precision: str, names: tuple[str, ...], rows: int, lab: Any, builder: Any
) -> None:
    mixture = Mixture("Q8_0", precision, rows, rows, 5, 2, 64, 64)
    check_gated(lab, builder, mixture, names, with_scales=True)
    check_added(lab, builder, mixture, with_scales=True)
    with lab.limits(binding_bytes=4 * plane_layout(QUANT_TYPES["Q8_0"], 64, 33)[1]):
        check_added(lab, builder, mixture, with_scales=True)


@pytest.mark.any_compiler
@pytest.mark.parametrize("rows", [1, 20])
@pytest.mark.parametrize(("features", "whole"), [(40, True), (45, False)])
def test_experts_in_parts(features: int, whole: bool, rows: int, lab: Any, builder: Any) -> None:
    """Parts of several experts each, and of a part of one."""
    # each part takes kernels of its own
    mixture = Mixture("Q8_0", "exact", rows, rows, 3, 2, features, 64)
    for ports, check in ((2, check_gated), (1, check_added)):
        limit = 4 * plane_layout(QUANT_TYPES["Q8_0"], 64, (2 * features if whole else 33) * ports)[1]
        with lab.limits(binding_bytes=limit):
            check(lab, builder, mixture)


@pytest.mark.parametrize(
    ("experts", "used", "whole"),
    [(4, 2, True), (16, 2, True), pytest.param(3, 2, False, marks=pytest.mark.any_compiler)],
)
def test_a_row_alone_gives_the_same_bits(experts: int, used: int, whole: bool, lab: Any, builder: Any) -> None:
    """However many rows there are, whatever path they take for that, with weights in parts, and perhaps with scales."""
    width, inner, live = 96, 64, 11
    matrices = [lab.matrix("Q5_0", experts * rows, k) for rows, k in ((inner, width), (inner, width), (width, inner))]
    if lab.rng.integers(2):
        matrices = [scaled(lab, matrix, experts) for matrix in matrices]
    limit = 1 << 20 if whole else 4 * plane_layout(QUANT_TYPES["Q5_0"], width, 2 * 64)[1]
    with lab.limits(binding_bytes=limit):
        gate_up = lab.load(*matrices[:2], experts=experts)
        down = lab.load(matrices[2], experts=experts)
    assert (len(gate_up.parts) > 1) != whole
    values = lab.rng.standard_normal((live, width)).astype(np.float32)
    logits = lab.rng.standard_normal((live, experts)).astype(np.float32)
    norm = Norm(lab.vector(np.ones(width)), EPS)

    def run(rows: int, picked: slice) -> Array:
        plan = builder(rows)
        a, _ = lab.activation(plan, values[picked], "f32")
        x = plan.floats(width, "residual")
        lab.write_rows(x, values[picked])
        routing = routed(lab, plan, logits[picked], used)
        h = gated_experts(plan, (gate_up,), a, routing, "f32")
        add_experts(plan, down, h, routing, x, norm, "f32")
        lab.write_state(plan, [(0, 0, 0)] * len(values[picked]))
        lab.run(plan)
        return lab.rows(x, len(values[picked]), width).copy()

    alone = np.concatenate([run(1, slice(i, i + 1)) for i in range(live)])
    for rows in (8, 128):
        together = np.concatenate([run(rows, slice(i, i + rows)) for i in range(0, live, rows)])
        assert np.array_equal(alone, together), rows
