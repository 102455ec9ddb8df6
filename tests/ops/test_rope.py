"""Rotation by position, and what lands in the cache, against float64."""

from typing import Any

import numpy as np
import pytest

from wgpu_engine.ops.attention import Heads
from wgpu_engine.ops.builder import SLOT_WORDS, square_words
from wgpu_engine.ops.rope import angle_table, rope_and_store
from wgpu_engine.ops.state import FROM_SLOT
from wgpu_engine.ops.weight import Norm

LARGEST_HALF = 65504.0
SLOTS = 3
EPS = 1e-5


def heads_of(count: int, kv_count: int, head_dim: int, rope_dim: int, neox: bool) -> Heads:
    return Heads(count, kv_count, head_dim, rope_dim, neox, head_dim**-0.5)


def rotated(values: Any, positions: Any, frequencies: Any, heads: Heads, magnitude: float = 1.0) -> Any:
    """Values [rows, heads, head_dim] rotated in float64."""
    half = heads.rope_dim // 2
    pairs = np.arange(half)
    first, second = (pairs, pairs + half) if heads.neox else (2 * pairs, 2 * pairs + 1)
    angles = np.outer(positions, frequencies)[:, None, :]
    cos, sin = magnitude * np.cos(angles), magnitude * np.sin(angles)
    out = values.copy()
    out[..., first] = values[..., first] * cos - values[..., second] * sin
    out[..., second] = values[..., first] * sin + values[..., second] * cos
    return out


def normed(values: Any, gain: Any, row_norm: bool) -> Any:
    """Values [rows, heads, head_dim] with an RMS norm of each head, or of all heads of a row together."""
    axes = (1, 2) if row_norm else 2
    return values / np.sqrt((values**2).mean(axis=axes, keepdims=True) + EPS) * gain


def check_rope(
    lab: Any,
    builder: Any,
    heads: Heads,
    kv_type: str,
    positions: list[int],
    slots: list[int],
    *,
    magnitude: float = 1.0,
    spare_rows: int = 0,
    rotate: bool = True,
    qk_norm: bool = False,
    row_norm: bool = False,
    ring: int = 0,
) -> None:
    reach, rows = max(positions) + 1, len(positions)
    frequencies = [10_000.0 ** (-2 * i / heads.rope_dim) for i in range(heads.rope_dim // 2)]
    values = lab.rng.standard_normal((rows + spare_rows, heads.width)).astype(np.float32)
    plan = builder(rows + spare_rows, slots=SLOTS)
    cache = lab.cache(heads.kv_count, heads.head_dim, kv_type, SLOTS, reach, ring)
    angles = angle_table(lab.device, frequencies, reach, magnitude) if rotate else None
    gains = lab.rng.uniform(-2, 2, (heads.count + heads.kv_count if row_norm else 2, heads.head_dim))
    gains = gains.astype(np.float32)
    norm = Norm(lab.vector(gains.ravel()), EPS) if qk_norm else None
    squares = None
    if row_norm:
        sums = np.full((rows + spare_rows, square_words(heads.width)), np.nan, np.float32)
        sums[:, : heads.width // 32] = (values**2).reshape(rows + spare_rows, -1, 32).sum(axis=2)
        squares = lab.vector(sums.ravel())
    qkv = plan.floats(heads.width, "qkv")
    lab.write_rows(qkv, values)
    rope_and_store(plan, qkv, heads, angles, cache, 0, norm, squares)
    lab.write_state(plan, [(0, position, slot) for position, slot in zip(positions, slots, strict=True)])
    lab.run(plan)
    if angles is not None:
        lab.device.free(angles)

    given = values[:rows].astype(np.float64).reshape(rows, -1, heads.head_dim)
    q, k, v = np.split(given, [heads.count, heads.count + heads.kv_count], axis=1)
    if qk_norm:
        q_gain, k_gain = (gains[: heads.count], gains[heads.count :]) if row_norm else gains
        q, k = normed(q, q_gain, row_norm), normed(k, k_gain, row_norm)
    # a rotation never mixes more than a pair, so errors are measured by the pair's length at most
    bound = 6e-7 * 2 * magnitude * max(np.abs(q).max(), np.abs(k).max())
    found = lab.rows(qkv, rows + spare_rows, heads.width).reshape(rows + spare_rows, -1, heads.head_dim)
    wanted = rotated(q, positions, frequencies, heads, magnitude) if rotate else q
    assert np.abs(found[:rows, : heads.count] - wanted).max() <= bound
    rest = found[rows:].reshape(spare_rows, heads.width)
    assert np.array_equal(rest, values[rows:]), "rows beyond the step's are changed"
    if not qk_norm:
        beyond = found[:rows, : heads.count, heads.rope_dim :]
        assert np.array_equal(beyond, q[..., heads.rope_dim :]), "what is not rotated is changed"

    cached = lab.cached(cache, SLOTS, heads.kv_count, heads.head_dim)
    places = [position % ring if ring else position for position in positions]
    rounding = 2.0**-10 if kv_type == "f16" else 0.0
    keys = rotated(k, positions, frequencies, heads, magnitude) if rotate else k
    for wanted, found in ((keys, cached[slots, places, 0]), (v, cached[slots, places, 1])):
        assert (np.abs(found - wanted) <= bound + rounding * np.abs(wanted)).all()
    if kv_type == "f32":
        assert np.array_equal(cached[slots, places, 1], v)
    cached[slots, places] = 0
    assert not cached.any(), "places of other positions are written"


@pytest.mark.parametrize("kv_type", ["f16", "f32"])
@pytest.mark.parametrize("neox", [False, True], ids=["norm", "neox"])
@pytest.mark.parametrize(
    ("count", "kv_count", "head_dim", "rope_dim"),
    [(1, 1, 8, 8), (3, 1, 40, 12), (9, 3, 64, 64), (6, 2, 96, 4), (2, 2, 256, 128), (4, 1, 80, 80)],
)
def test_rotates_and_stores(
    count: int, kv_count: int, head_dim: int, rope_dim: int, neox: bool, kv_type: str, lab: Any, builder: Any
) -> None:
    heads = heads_of(count, kv_count, head_dim, rope_dim, neox)
    check_rope(lab, builder, heads, kv_type, [0, 31, 32, 700, 255, 256, 5], [0, 1, 2, 0, 2, 1, 0], spare_rows=2)


@pytest.mark.parametrize("kv_type", ["f16", "f32"])
@pytest.mark.parametrize("rotate", [False, True])
@pytest.mark.parametrize("qk_norm", [False, True])
@pytest.mark.parametrize(
    "heads", [heads_of(3, 1, 40, 20, False), heads_of(4, 2, 64, 32, True), heads_of(1, 1, 8, 4, True)]
)
def test_norms_and_layers_without_positions(
    heads: Heads, qk_norm: bool, rotate: bool, kv_type: str, lab: Any, builder: Any
) -> None:
    for pose in lab.adapters():
        with lab.posing(*pose):
            check_rope(
                lab, builder, heads, kv_type, [0, 40, 300], [1, 0, 2], spare_rows=1, rotate=rotate, qk_norm=qk_norm
            )


@pytest.mark.parametrize("rotate", [False, True])
@pytest.mark.parametrize(
    "heads",
    [heads_of(3, 1, 32, 16, True), heads_of(6, 6, 80, 80, False), heads_of(4, 2, 16, 16, True)],
)
def test_norms_of_rows(heads: Heads, rotate: bool, lab: Any, builder: Any) -> None:
    for pose in lab.adapters():
        with lab.posing(*pose):
            check_rope(
                lab,
                builder,
                heads,
                "f16",
                [0, 40, 300],
                [1, 0, 2],
                spare_rows=1,
                rotate=rotate,
                qk_norm=True,
                row_norm=True,
            )


@pytest.mark.parametrize("neox", [False, True], ids=["norm", "neox"])
def test_positions_of_long_contexts(neox: bool, lab: Any, builder: Any) -> None:
    """A shader's own sine of such angles would be off by far more."""
    positions = [100_000, 99_999, 65_535, 65_536, 4096, *(int(p) for p in lab.rng.integers(1000, 100_000, 5))]
    slots = [int(slot) for slot in lab.rng.permutation(10) % SLOTS]
    check_rope(lab, builder, heads_of(2, 1, 16, 16, neox), "f32", positions, slots)


@pytest.mark.parametrize("kv_type", ["f16", "f32"])
def test_rings(kv_type: str, lab: Any, builder: Any) -> None:
    """Blocks in turns, in each slot by itself."""
    positions, slots = [95, 96, 97, 191, 500, 31, 32], [0, 0, 0, 1, 1, 2, 2]
    check_rope(lab, builder, heads_of(3, 1, 40, 40, False), kv_type, positions, slots, spare_rows=1, ring=96)


def test_one_row(lab: Any, builder: Any) -> None:
    check_rope(lab, builder, heads_of(9, 3, 64, 64, False), "f16", [777], [2])


def test_magnitude(lab: Any, builder: Any) -> None:
    check_rope(lab, builder, heads_of(2, 1, 32, 16, True), "f32", [3, 300, 9000], [0, 1, 2], magnitude=1.37)


def test_halves_saturate(lab: Any, builder: Any) -> None:
    """Keys and values past the range of half floats become its ends, not infinities."""
    heads = heads_of(1, 1, 8, 8, False)
    row = np.array([[1, 1, 1, 1, 1, 1, 1, 1, 65504, 65520, -65536, 1e6, -1e9, 3e38, 2, -2] + 8 * [-7e4]], np.float32)
    plan = builder(1)
    cache = lab.cache(1, 8, "f16", 1, 32)
    angles = angle_table(lab.device, [1.0, 0.1, 0.01, 0.001], 1)
    qkv = plan.floats(24, "qkv")
    lab.write_rows(qkv, row)
    rope_and_store(plan, qkv, heads, angles, cache, 0)
    lab.write_state(plan, [(0, 0, 0)])
    lab.run(plan)
    lab.device.free(angles)
    (keys, values), *_ = lab.cached(cache, 1, 1, 8)[0]
    assert np.array_equal(keys[0], np.clip(row[0, 8:16], -LARGEST_HALF, LARGEST_HALF))
    assert np.array_equal(values[0], [-LARGEST_HALF] * 8)


def test_positions_of_slots(lab: Any, builder: Any) -> None:
    """A row can take its position from its slot, which the sampler moves on."""
    heads = heads_of(1, 1, 8, 8, False)
    plan = builder(2, slots=SLOTS)
    words = np.zeros((SLOTS, SLOT_WORDS), np.uint32)
    words[:, 1] = 4, 40, 400
    lab.device.write(plan.slots, 0, words.tobytes())
    cache = lab.cache(1, 8, "f32", SLOTS, 512)
    angles = angle_table(lab.device, [1.0, 0.1, 0.01, 0.001], 512)
    values = lab.rng.standard_normal((2, 24)).astype(np.float32)
    qkv = plan.floats(24, "qkv")
    lab.write_rows(qkv, values)
    rope_and_store(plan, qkv, heads, angles, cache, 0)
    lab.write_state(plan, [(0, FROM_SLOT, 2), (0, 7, 1)])
    lab.run(plan)
    lab.device.free(angles)
    cached = lab.cached(cache, SLOTS, 1, 8)
    assert np.array_equal(cached[[2, 1], [400, 7], 1, 0], values[:, 16:])
    written = {(int(slot), int(position)) for slot, position in np.argwhere(cached[:, :, 1, 0].any(axis=2))}
    assert written == {(2, 400), (1, 7)}
