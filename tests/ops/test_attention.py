"""Attention over the paged cache against float64, whole and split over the context."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.ops.sequences import PLAIN, REACH, SLOTS, STALE, Form, Sequences, write_cache
from wgpu_engine.ops.attention import PARTITION, Heads, attend
from wgpu_engine.ops.builder import SLOT_WORDS
from wgpu_engine.ops.state import FROM_SLOT

COUNTS = [(1, 1), (3, 1), (9, 3), (8, 8), (6, 2)]
HEAD_DIMS = [8, 16, 32, 40, 64, 80, 96, 128, 256]
CONTEXTS = [1, 7, 8, 9, 31, 33, 255, 256, 257, 700]
"""positions that a row sees, its own among them"""
SPLIT_ROWS = [700, 1, 257, 256, 33, 8, 255]
"""few enough that a plan splits the context"""
TOLERANCE = 1e-5

Doubles = Any


def heads_of(counts: tuple[int, int], head_dim: int) -> Heads:
    return Heads(*counts, head_dim, head_dim, False, head_dim**-0.5)


def check(found: Any, wanted: Doubles, largest: Doubles, what: Any) -> None:
    off = np.abs(found - wanted) / largest
    assert off.max() <= TOLERANCE, f"{what}: off by {off.max():.2g} of the largest value"


def test_a_context_whose_parts_no_kernel_reaches_is_not_split(lab: Any, builder: Any) -> None:
    sequences = Sequences(lab, heads_of((3, 1), 32), "f16", [REACH])
    split = builder(1, slots=SLOTS)
    _, wanted = sequences.attend(split, [0])
    with lab.limits(binding_bytes=split.dispatches[0].buffers[-1].size - 16):
        whole = builder(1, slots=SLOTS)
        _, found = sequences.attend(whole, [0])
    assert (len(split.dispatches), len(whole.dispatches)) == (2, 1)
    assert np.array_equal(found, wanted)


def check_attention(
    lab: Any, builder: Any, counts: tuple[int, int], head_dim: int, kv_type: str, form: Form = PLAIN
) -> None:
    heads = heads_of(counts, head_dim)
    contexts = [int(context) for context in lab.rng.permutation(CONTEXTS)]
    sequences = Sequences(lab, heads, kv_type, contexts, form=form)
    wanted, largest = sequences.wanted()
    rows = list(range(len(contexts)))
    few = [contexts.index(context) for context in SPLIT_ROWS]
    for pose in lab.adapters():
        with lab.posing(*pose):
            whole = builder(len(rows) + 2, slots=SLOTS)
            _, words = sequences.attend(whole, rows)
            check(words[: len(rows)].view(np.float32), wanted, largest, pose)
            assert (words[len(rows) :].view(np.float32) < -100_000).all(), "rows beyond the step's are written"
            split = builder(len(few) + 1, slots=SLOTS)
            _, parts = sequences.attend(split, few)
            needed = not form.window or form.window > PARTITION
            assert (len(split.dispatches) > len(whole.dispatches)) == needed, "split where it needn't be, or not"
            assert np.array_equal(parts[:-1], words[few]), f"split over the context: other bits ({pose})"
            assert (parts[-1].view(np.float32) < -100_000).all()


@pytest.mark.parametrize(
    ("counts", "head_dim", "kv_type"),
    [
        ((3, 1), 8, "f32"),
        ((8, 8), 16, "f16"),
        ((1, 1), 32, "f32"),
        ((6, 2), 40, "f16"),
        ((9, 3), 64, "f16"),
        ((3, 1), 80, "f32"),
        ((6, 2), 96, "f32"),
        ((1, 1), 128, "f16"),
        ((1, 1), 256, "f32"),
    ],
)
def test_shapes(counts: tuple[int, int], head_dim: int, kv_type: str, lab: Any, builder: Any) -> None:
    check_attention(lab, builder, counts, head_dim, kv_type)


@pytest.mark.parametrize(
    ("form", "counts", "head_dim", "kv_type"),
    [
        (Form(window=1), (3, 1), 8, "f32"),
        (Form(window=16), (4, 2), 40, "f16"),
        (Form(window=100, cap=0.7), (2, 2), 64, "f32"),
        (Form(window=256), (9, 3), 64, "f16"),
        (Form(window=257, sinks=True), (2, 1), 256, "f16"),
        (Form(window=300), (6, 2), 32, "f32"),
        (Form(window=513, cap=3.0), (1, 1), 128, "f16"),
        (Form(window=REACH), (2, 1), 16, "f32"),
        (Form(cap=50.0), (8, 4), 256, "f16"),
        (Form(cap=0.2), (3, 1), 80, "f32"),
        (Form(causal=False), (3, 3), 32, "f32"),
        (Form(causal=False), (6, 2), 96, "f16"),
        (Form(sinks=True), (8, 1), 64, "f16"),
        (Form(sinks=True, cap=5.0), (4, 4), 40, "f32"),
    ],
)
def test_forms(form: Form, counts: tuple[int, int], head_dim: int, kv_type: str, lab: Any, builder: Any) -> None:
    check_attention(lab, builder, counts, head_dim, kv_type, form)


@pytest.mark.parametrize(
    ("window", "ring", "head_dim", "kv_type"), [(40, 64, 32, "f16"), (1, 32, 8, "f32"), (290, 320, 64, "f32")]
)
def test_rings(window: int, ring: int, head_dim: int, kv_type: str, lab: Any, builder: Any) -> None:
    """Rows that see a window of a ring of blocks, and the same bits as without one."""
    contexts, slots = [700, 699, 680, 290, 289, 266, 30, 5], [2, 2, 2, 0, 0, 0, 1, 1]
    heads, form = heads_of((4, 2), head_dim), Form(window=window)
    state = lab.rng.bit_generator.state
    plain = Sequences(lab, heads, kv_type, contexts, form=form, slots=slots)
    lab.rng.bit_generator.state = state
    ringed = Sequences(lab, heads, kv_type, contexts, form=form, slots=slots, ring=ring)
    ringed.qkv = plain.qkv
    for pose in lab.adapters():
        for capacity in (8, 12):
            with lab.posing(*pose):
                _, words = ringed.attend(builder(capacity, slots=SLOTS), list(range(8)))
                _, others = plain.attend(builder(capacity, slots=SLOTS), list(range(8)))
            check(words[:8].view(np.float32), *ringed.wanted(), pose)
            assert np.array_equal(words[:8], others[:8]), f"other bits in a ring ({pose})"


@pytest.mark.parametrize("sink", [-1e4, 1e4])
def test_sinks_out_of_all_proportion(sink: float, lab: Any, builder: Any) -> None:
    """One takes no part, the other all."""
    sequences = Sequences(lab, heads_of((2, 1), 32), "f32", [700, 9], form=Form(sinks=True))
    sequences.sinks = np.full(2, sink, np.float32)
    for capacity in (2, 9):
        _, words = sequences.attend(builder(capacity, slots=SLOTS), [0, 1])
        check(words[:2].view(np.float32), *sequences.wanted(), f"{capacity} rows")


@pytest.mark.parametrize("cap", [1e-3, 50.0])
def test_scores_far_beyond_the_cap(cap: float, lab: Any, builder: Any) -> None:
    sequences = Sequences(lab, heads_of((2, 2), 32), "f32", [700, 257, 2, 1], sharpness=1e4, form=Form(cap=cap))
    for pose in lab.adapters():
        with lab.posing(*pose):
            _, words = sequences.attend(builder(9, slots=SLOTS), [0, 1, 2, 3])
            check(words[:4].view(np.float32), *sequences.wanted(), pose)


def test_a_window_bounds_the_work(lab: Any, builder: Any) -> None:
    """However long the context, as many workgroups and as much memory for their results as the window takes."""
    heads = heads_of((2, 1), 32)
    cache = lab.cache(1, 32, "f16", SLOTS, REACH)
    grids, sizes = set(), set()
    for positions in (4096, 65_536):
        plan = builder(1, slots=SLOTS)
        attend(plan, plan.floats(heads.width, "qkv"), heads, cache, 0, positions, "f32", window=1000)
        grids.add(plan.dispatches[0].grid)
        sizes.add(plan.dispatches[0].buffers[5].size)
    assert len(grids) == len(sizes) == 1
    assert grids.pop()[2] == 5


@pytest.mark.slow
@pytest.mark.parametrize("head_dim", HEAD_DIMS)
@pytest.mark.parametrize("counts", COUNTS)
def test_all_shapes(counts: tuple[int, int], head_dim: int, lab: Any, builder: Any) -> None:
    check_attention(lab, builder, counts, head_dim, str(lab.rng.choice(["f16", "f32"])))


def test_a_row_is_the_same_bits_in_any_company(lab: Any, builder: Any) -> None:
    """Alone, at any place, in plans of any size; and for any bound of the context that the plan was made for."""
    sequences = Sequences(lab, heads_of((3, 1), 32), "f16", CONTEXTS)
    for pose in lab.adapters():
        with lab.posing(*pose):
            _, whole = sequences.attend(builder(12, slots=SLOTS), list(range(10)))
            for rows, capacity in (([9], 1), ([8, 0, 9], 3), ([6, 7], 2), ([5], 8), ([9, 2], 9)):
                _, words = sequences.attend(builder(capacity, slots=SLOTS), rows)
                assert np.array_equal(words[: len(rows)], whole[rows]), f"rows {rows} of {capacity} on {pose}"


@pytest.mark.parametrize("rows", [1, 8, 12])
def test_int8_results(rows: int, lab: Any, builder: Any) -> None:
    """In the codec of `fast` they are rounded once, after all is added up."""
    contexts = CONTEXTS[-rows:] if rows <= 10 else [*CONTEXTS, 2, 3]
    sequences = Sequences(lab, heads_of((3, 1), 64), "f16", contexts)
    wanted, _ = sequences.wanted()
    for pose in lab.adapters():
        with lab.posing(*pose):
            h, _ = sequences.attend(builder(rows, 0, "fast", slots=SLOTS), list(range(rows)), "q8")
            assert h.codec == "q8"
            lab.check_activation(h, wanted, 1e-4)


def test_int8_needs_heads_of_whole_blocks(lab: Any, builder: Any) -> None:
    sequences = Sequences(lab, heads_of((4, 2), 40), "f32", [5])
    h, words = sequences.attend(builder(1, 0, "fast", slots=SLOTS), [0], "q8")
    assert h.codec == "f32"
    check(words.view(np.float32), *sequences.wanted(), "f32 in place of q8")


def test_positions_of_slots(lab: Any, builder: Any) -> None:
    """Rows that take their position from their slot, as queued decode steps do."""
    contexts = [300, 40, 700]
    sequences = Sequences(lab, heads_of((2, 1), 32), "f32", contexts)
    sequences.slots = [0, 1, 2]
    for slot, context in enumerate(contexts):
        sequences.cached[slot] = lab.rng.standard_normal(sequences.cached[slot].shape).astype(np.float32)
        sequences.cached[slot, context:] = STALE
    write_cache(lab, sequences.cache, sequences.cached.astype(np.float32))
    for capacity in (3, 9):
        plan = builder(capacity, slots=SLOTS)
        words = np.zeros((SLOTS, SLOT_WORDS), np.uint32)
        words[:, 1] = [context - 1 for context in contexts]
        lab.device.write(plan.slots, 0, words.tobytes())
        qkv = plan.floats(sequences.heads.width, "qkv")
        lab.write_rows(qkv, sequences.qkv)
        h = attend(plan, qkv, sequences.heads, sequences.cache, 0, REACH, "f32")
        lab.write_state(plan, [(FROM_SLOT, FROM_SLOT, slot) for slot in range(3)])
        lab.run(plan)
        check(lab.rows(h.buffer, 3, h.width), *sequences.wanted(), f"{capacity} rows")


@pytest.mark.parametrize("sharpness", [1e-3, 30.0, 1e4])
def test_flat_and_sharp_scores(sharpness: float, lab: Any, builder: Any) -> None:
    """From an even mean of all values to a single one of them; scores far outside what exp can take are no trouble."""
    sequences = Sequences(lab, heads_of((2, 2), 32), "f32", [700, 257, 2, 1], sharpness=sharpness)
    wanted, largest = sequences.wanted()
    for pose in lab.adapters():
        for capacity in (4, 9):
            with lab.posing(*pose):
                _, words = sequences.attend(builder(capacity, slots=SLOTS), [0, 1, 2, 3])
            found = words[:4].view(np.float32)
            assert np.isfinite(found).all()
            # scores are rounded in f32, which sharp ones magnify
            off = np.abs(found - wanted) / largest
            assert off.max() <= TOLERANCE * max(1, sharpness / 10)


@pytest.mark.parametrize("head_dim", [264, 512, 1024])
def test_heads_wider_than_a_workgroup(head_dim: int, lab: Any, builder: Any) -> None:
    sequences = Sequences(lab, heads_of((2, 1), head_dim), "f16", [257, 33, 5])
    wanted = sequences.wanted()
    with lab.posing("discrete", 0):
        for capacity in (3, 9):
            _, words = sequences.attend(builder(capacity, slots=SLOTS), [0, 1, 2])
            check(words[:3].view(np.float32), *wanted, f"{capacity} rows")


def test_scale_is_applied(lab: Any, builder: Any) -> None:
    sequences = Sequences(lab, replace(heads_of((2, 1), 16), scale=0.7), "f32", [50, 20])
    _, words = sequences.attend(builder(2, slots=SLOTS), [0, 1])
    check(words.view(np.float32), *sequences.wanted(), "scale")
