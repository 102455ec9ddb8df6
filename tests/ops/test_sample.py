"""Sampling on the device against a float64 reference in NumPy."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from tests.ops.sampling_bench import Bench, Floats, Slot
from tests.ops.sampling_reference import CDF_SLACK, IN_PROMPT, LARGEST, acceptable, allowed, cleaned, penalised
from wgpu_engine.gpu.device import Device
from wgpu_engine.ops.builder import ScratchPool
from wgpu_engine.ops.sample import RING
from wgpu_engine.ops.state import FROM_SLOT

MakeBench = Callable[..., Bench]


@pytest.fixture(scope="module")
def bench(device: Device) -> Iterator[MakeBench]:
    """Benches by vocabulary, made once, since compiling their kernels is the slow part."""
    pool = ScratchPool(device)
    made: dict[tuple[int, int, int], Bench] = {}

    def make(vocab: int, outputs: int = 8, slots: int | None = None) -> Bench:
        key = (vocab, outputs, slots or outputs)
        if key not in made:
            made[key] = Bench(device, pool, *key)
        return made[key]

    yield make
    for each in made.values():
        each.free()
    pool.free()


def some_logits(rng: np.random.Generator, rows: int, vocab: int) -> Floats:
    """Rows from flat to peaked, some of few distinct values."""
    logits = rng.normal(0, 1, (rows, vocab)) * rng.choice([0.1, 1, 3, 8], (rows, 1)) + rng.normal(0, 5, (rows, 1))
    coarse = rng.random((rows, 1)) < 0.25
    return np.asarray(np.where(coarse, np.round(logits * 4) / 4, logits), np.float32)


def some_slot(rng: np.random.Generator, vocab: int) -> Slot:
    return Slot(
        seed=int(rng.integers(1 << 32)),
        count=int(rng.integers(1 << 32)) if rng.random() < 0.5 else int(rng.integers(300)),
        temperature=float(np.float32(rng.choice([0.0, 0.2, 0.8, 1.0, 1.7]))),
        top_k=int(rng.choice([0, 1, 2, 40, 1000, int(rng.integers(1, vocab + 2))])),
        top_p=float(np.float32(rng.choice([1.0, 0.95, 0.5, 0.05, rng.random()]))),
        min_p=float(np.float32(rng.choice([0.0, 0.05, 0.5, 1e-6]))),
    )


@pytest.mark.parametrize("vocab", [1, 7, 512, 50257])
def test_greedy_takes_the_first_of_the_largest(bench: MakeBench, rng: np.random.Generator, vocab: int) -> None:
    logits = some_logits(rng, 8, vocab)
    logits[1] = np.where(rng.random(vocab) < 0.5, -0.0, 0.0)
    logits[2] = np.where(rng.random(vocab) < 0.9, np.nan, logits[2])
    logits[3] = -7.25
    logits[4, rng.integers(vocab)] = np.inf
    logits[5] = np.abs(logits[5]) * np.float32(-1e-42)
    expected = [np.argmax(cleaned(row)) for row in logits]
    assert list(bench(vocab).tokens(logits, [Slot()] * 8)) == expected


@pytest.mark.parametrize("vocab", [1, 7, 512, 49152, 50257])
def test_draws_equal_the_reference_for_any_mix_of_slots(bench: MakeBench, rng: np.random.Generator, vocab: int) -> None:
    for _ in range(6):
        logits = some_logits(rng, 8, vocab)
        slots = [some_slot(rng, vocab) for _ in range(8)]
        for token, row, slot in zip(bench(vocab).tokens(logits, slots), logits, slots, strict=True):
            assert int(token) in acceptable(row, slot), slot


def test_a_vocabulary_beyond_65535_runs_of_four(bench: MakeBench, rng: np.random.Generator) -> None:
    vocab = 262147
    logits = some_logits(rng, 2, vocab)
    logits[0, -1] = 100
    slots = [Slot(), replace(some_slot(rng, vocab), temperature=1.0, top_k=0, top_p=0.9)]
    tokens = bench(vocab, 2).tokens(logits, slots)
    assert tokens[0] == vocab - 1
    assert int(tokens[1]) in acceptable(logits[1], slots[1]), slots[1]


def test_draws_follow_the_softmax_and_do_not_hang_together(bench: MakeBench, rng: np.random.Generator) -> None:
    one = bench(7, 128)
    base = int(rng.integers(1 << 32))
    logits = rng.normal(0, 1, 7).astype(np.float32)
    temperature = 0.7
    # neighbouring seeds are what users choose
    slots = [Slot(seed=(base + i) % (1 << 32), temperature=temperature) for i in range(128)]
    one.load(np.tile(logits, (128, 1)), slots)
    one.run(RING)
    drawn = one.read("ring")
    weights = np.exp(logits.astype(np.float64) / np.float32(temperature))
    chances = weights / weights.sum()
    expected = chances * drawn.size
    chi_square = ((np.bincount(drawn.ravel(), minlength=7) - expected) ** 2 / expected).sum()
    assert chi_square < 60, "6 degrees of freedom: once in 10^10 by chance"
    for before, after in ((drawn[:, :-1], drawn[:, 1:]), (drawn[:-1], drawn[1:])):
        pairs = np.bincount((7 * before + after).ravel(), minlength=49)
        expected = np.outer(chances, chances).ravel() * before.size
        chi_square = ((pairs - expected) ** 2 / expected).sum()
        assert chi_square < 160, "48 degrees of freedom, somewhat more in the tail for rare pairs"


@pytest.mark.parametrize(
    "slot",
    [
        Slot(top_k=1),
        Slot(top_k=5),
        Slot(top_k=30),
        Slot(top_p=0.0),
        Slot(top_p=0.3),
        Slot(top_p=0.9),
        Slot(min_p=0.05),
        Slot(min_p=0.4),
        Slot(min_p=1.0),
        Slot(top_k=30, top_p=0.8),
        Slot(top_k=30, top_p=0.95, min_p=0.1),
        Slot(top_p=0.99, min_p=0.02),
    ],
    ids=lambda slot: f"k{slot.top_k}-p{slot.top_p}-min{slot.min_p}",
)
def test_exactly_what_the_thresholds_allow_is_drawn(bench: MakeBench, rng: np.random.Generator, slot: Slot) -> None:
    one = bench(100, 16)
    logits = rng.normal(0, 2.5, 100).astype(np.float32)
    keeps = [allowed(cleaned(logits), slot, slot.top_p * (1 + part), part) for part in (-CDF_SLACK, 0, CDF_SLACK)]
    # so hot that all that is allowed is equally likely
    slots = [replace(slot, seed=int(seed), temperature=1e6) for seed in rng.integers(1 << 32, size=16)]
    one.load(np.tile(logits, (16, 1)), slots)
    one.run(RING)
    drawn = set(one.read("ring").ravel().tolist())
    assert drawn in [set(np.flatnonzero(keep).tolist()) for keep in keeps]


def test_ties_with_the_last_allowed_token_are_allowed(bench: MakeBench) -> None:
    one = bench(100, 16)
    logits = np.full(100, -4.0, np.float32)
    logits[30:40] = 2.0
    logits[77] = 3.0
    one.load(np.tile(logits, (16, 1)), [Slot(seed=i, temperature=1e6, top_k=3) for i in range(16)])
    one.run(RING)
    assert set(one.read("ring").ravel().tolist()) == {77, *range(30, 40)}


def test_penalties(bench: MakeBench, rng: np.random.Generator) -> None:
    vocab = 512
    logits = some_logits(rng, 8, vocab)
    counts = rng.integers(0, 4, (8, vocab)).astype(np.uint32) * (rng.random((8, vocab)) < 0.5)
    counts |= np.where(rng.random((8, vocab)) < 0.3, np.uint32(IN_PROMPT), np.uint32(0))
    slots = [
        replace(
            some_slot(rng, vocab),
            temperature=float(i % 2),
            repetition=float(np.float32(rng.choice([0.7, 1.0, 1.3]))),
            presence=float(np.float32(rng.choice([-0.5, 0.0, 0.75]))),
            frequency=float(np.float32(rng.choice([-0.25, 0.0, 0.5]))),
            flags=1,
        )
        for i in range(8)
    ]
    one = bench(vocab)
    tokens = one.tokens(logits, slots, counts)
    expected_counts = counts.copy()
    for i, slot in enumerate(slots):
        row = penalised(logits[i], slot, counts[i])
        near = {int(t) for t in np.flatnonzero(row >= row.max() - 1e-5 * abs(row.max()))}
        good = acceptable(row, slot)
        assert int(tokens[i]) in (good if good - near else good | near), slot
        expected_counts[i, tokens[i]] += 1
    assert np.array_equal(one.read("counts"), expected_counts)


def test_penalties_of_prompt_and_output_tokens(bench: MakeBench) -> None:
    logits = np.full((5, 7), -9.0, np.float32)
    logits[:, 6], logits[:, 4] = 2.0, 1.5
    counts = np.zeros((5, 7), np.uint32)
    counts[:, 6] = IN_PROMPT
    counts[3, 6] = 2
    slots = [
        Slot(repetition=2.0, flags=1),  # 2 / 2 < 1.5
        Slot(presence=1.0, frequency=1.0, flags=1),  # in the prompt only: kept
        Slot(repetition=2.0),  # not flagged
        Slot(frequency=0.3, flags=1),  # 2 - 0.6 < 1.5
        Slot(repetition=1.3, flags=1),  # 2 / 1.3 > 1.5
    ]
    assert bench(7).tokens(logits, slots, counts).tolist() == [4, 6, 6, 4, 6]
    negative = -np.abs(logits)
    negative[:, 6], negative[:, 4] = -1.0, -1.5
    assert bench(7).tokens(negative, slots[:1], counts).tolist() == [4], "-1 * 2 < -1.5"


def test_penalties_grow_with_what_was_generated(bench: MakeBench) -> None:
    one = bench(7)
    logits = np.array([[0, 1.0, 0.9, 0.85, -5, -5, -5]], np.float32)
    one.load(logits, [Slot(frequency=0.125, flags=1)])
    for _ in range(6):
        one.write_logits(logits)
        one.run()
    assert one.read("ring")[0, :6].tolist() == [1, 2, 1, 3, 2, 1]
    assert one.read("counts")[0].tolist() == [0, 3, 2, 1, 0, 0, 0]


def test_only_the_outputs_slots_move_on(bench: MakeBench, rng: np.random.Generator) -> None:
    one = bench(512, 8, 12)
    slots = [
        replace(some_slot(rng, 512), token=100 + i, position=1000 + i, count=60 + i, temperature=1.0) for i in range(12)
    ]
    one.write_slots(slots)
    logits = some_logits(rng, 8, 512)
    one.write_logits(logits)
    # rows of a prompt have positions of their own; the last row of it and a decoding row have outputs
    rows = [(5, 3), (6, 3), (7, 3), (FROM_SLOT, 11), (FROM_SLOT, 0)]
    one.write_state(rows, [3, 2])
    before = one.read("slots")
    one.run()
    after, ring = one.read("slots"), one.read("ring")
    changed = {11: (0, 1012), 3: (1, 8)}
    for slot in range(12):
        expected, expected_ring = before[slot].copy(), np.zeros(RING, np.uint32)
        if slot in changed:
            output, position = changed[slot]
            token = after[slot, 0]
            assert int(token) in acceptable(logits[output], slots[slot])
            expected[[0, 1, 3]] = token, position, 61 + slot
            expected_ring[(60 + slot) % RING] = token
        assert np.array_equal(after[slot], expected), slot
        assert np.array_equal(ring[slot], expected_ring), slot
    assert not one.read("counts").any(), "no slot asked for penalties"


def test_replays_go_on_where_the_last_one_ended(bench: MakeBench, rng: np.random.Generator) -> None:
    one = bench(512)
    logits = some_logits(rng, 8, 512)
    slots = [replace(some_slot(rng, 512), position=40 + i, count=61 + i) for i in range(8)]
    one.load(logits, slots)
    one.run(3)
    words, ring = one.read("slots"), one.read("ring")
    for i, slot in enumerate(slots):
        assert words[i, [1, 3]].tolist() == [slot.position + 3, slot.count + 3]
        for step in range(3):
            token = int(ring[i, (slot.count + step) % RING])
            assert token in acceptable(logits[i], replace(slot, count=slot.count + step))
        assert words[i, 0] == token


def test_a_seed_gives_the_same_tokens_in_any_company(bench: MakeBench, rng: np.random.Generator) -> None:
    logits = np.tile(rng.normal(0, 1, 512).astype(np.float32), (8, 1))
    slot = Slot(seed=int(rng.integers(1 << 32)), temperature=1.0, top_p=0.9)
    alone, among = bench(512), bench(512, 16)
    alone.load(logits[:1], [slot])
    alone.run(RING)
    company = [some_slot(rng, 512) for _ in range(7)]
    among.load(np.concatenate([some_logits(rng, 7, 512), logits[:1]]), [*company, slot])
    among.run(RING)
    assert np.array_equal(alone.read("ring")[0], among.read("ring")[7])


NAN_WITH_SIGN = np.uint32(0xFFC00001).view(np.float32)


@pytest.mark.parametrize(
    "row",
    [
        [np.nan] * 7,
        [-np.inf] * 7,
        [NAN_WITH_SIGN, -np.inf, np.nan, -np.inf, np.nan, np.nan, np.nan],
        [np.nan, -np.inf, -LARGEST, np.nan, NAN_WITH_SIGN, np.nan, -np.inf],
        [-LARGEST] * 7,
        [-1e30, 1e30, -1e30, 1e30, 0, 1, -1],
        [np.inf, -np.inf, np.inf, np.nan, 0, 3, LARGEST],
        [LARGEST, -LARGEST, LARGEST, 0, 0, 0, 0],
        [65504, 65505, 70000, 69999, 1e5, 1e5, -1e5],
        [1e-45, -1e-45, 0, -0.0, 1e-39, 1e-45, 0],
        [1, -np.inf, 1, -np.inf, 1, np.nan, 1],
    ],
    ids=str,
)
def test_extreme_logits(bench: MakeBench, rng: np.random.Generator, row: list[float]) -> None:
    logits = np.array([row] * 8, np.float32)
    slots = [
        Slot(),
        Slot(temperature=1.0),
        Slot(temperature=1.0, top_k=3),
        Slot(temperature=0.7, top_p=0.9),
        Slot(temperature=1.0, min_p=0.05),
        Slot(temperature=1.5, top_k=2, top_p=0.5, min_p=0.3),
        Slot(temperature=1e-5, top_p=0.999),
        Slot(temperature=1e30, top_k=5),
    ]
    slots = [replace(slot, seed=int(rng.integers(1 << 32)), top_p=float(np.float32(slot.top_p))) for slot in slots]
    for token, each, slot in zip(bench(7).tokens(logits, slots), logits, slots, strict=True):
        assert int(token) in acceptable(each, slot), slot


def test_extreme_settings(bench: MakeBench, rng: np.random.Generator) -> None:
    logits = some_logits(rng, 8, 512)
    logits[0] = 1.0
    slots = [
        Slot(temperature=1e-7),
        Slot(temperature=-1.0),
        Slot(temperature=1.0, top_k=0xFFFFFFFF, top_p=2.0, min_p=-1.0),
        Slot(temperature=1.0, top_p=-3.0),
        Slot(temperature=1.0, min_p=50.0),
        Slot(temperature=float("nan"), top_p=float("nan"), min_p=float("nan")),
        Slot(temperature=1.0, top_p=float(np.float32(1) - np.float32(2**-24))),
        Slot(temperature=1.0, top_p=1e-30, min_p=1e-30),
    ]
    slots = [replace(slot, seed=int(rng.integers(1 << 32))) for slot in slots]
    for token, row, slot in zip(bench(512).tokens(logits, slots), logits, slots, strict=True):
        assert int(token) in acceptable(row, slot), slot


def test_scratch_that_another_plan_left_is_not_believed(bench: MakeBench) -> None:
    larger, smaller = bench(100), bench(33)
    sizes = {buffer.size for plan in (larger, smaller) for buffer in (plan.builder.dispatches[0].buffers[4],)}
    assert len(sizes) == 1, "the two share their scratch"
    larger.tokens(np.full((8, 100), 50, np.float32), [Slot()] * 8)
    logits = np.zeros((8, 33), np.float32)
    logits[:, 32] = 1
    assert smaller.tokens(logits, [Slot(), Slot(temperature=0.01, top_k=2)] * 4).tolist() == [32] * 8


def test_two_dispatches_for_any_settings(bench: MakeBench) -> None:
    assert bench(512).plan.dispatches == 2
