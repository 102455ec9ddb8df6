"""The likeliest tokens on the device against float64."""

from typing import Any

import numpy as np
import pytest

from wgpu_engine.ops.builder import SLOT_WORDS, row_floats
from wgpu_engine.ops.top_tokens import MOST_TOP, TOP_BYTES, TokenLogProbs, read_log_probs, read_token, top_tokens

SLOTS = 6
WANTS = 2


def found_in(
    lab: Any, builder: Any, logits: Any, sampled: list[int], counts: list[int | None], room: int
) -> list[TokenLogProbs | None]:
    """What outputs [outputs, vocab] find, each in a slot that has sampled a token and wants so many, or nothing."""
    rows, vocab = logits.shape
    plan = builder(room, room, slots=SLOTS)
    buffer = plan.logits(vocab)
    # what pads the rows is likelier than anything
    padded = np.full((room, row_floats(vocab)), 1e30, np.float32)
    padded[:rows, :vocab] = logits
    lab.device.write(buffer, 0, padded.tobytes())
    slots = lab.rng.permutation(SLOTS)[:rows].tolist()
    words = np.zeros((SLOTS, SLOT_WORDS), np.uint32)
    words[:, 11] = 1
    for slot, token, count in zip(slots, sampled, counts, strict=True):
        words[slot, [0, 13]] = token, count or 0
        words[slot, 11] = 0 if count is None else WANTS
    lab.device.write(plan.slots, 0, words.tobytes())
    result = top_tokens(plan, buffer, vocab)
    lab.fill(result)
    lab.write_state(plan, [(0, 0, slot) for slot in slots], range(rows))
    lab.run(plan)
    words = lab.words(result, TOP_BYTES // 4 * room).reshape(room, -1)
    assert (words[rows:].view(np.float32) < -100_000).all(), "outputs beyond the step's are written"
    data = words.tobytes()
    assert [read_token(data, output) for output in range(rows)] == sampled
    return [None if n is None else read_log_probs(data, output, n) for output, n in enumerate(counts)]


def check(found: TokenLogProbs | None, logits: Any, sampled: int, count: int) -> None:
    values = logits.astype(np.float64)
    values -= values.max()
    values -= np.log(np.exp(values).sum())
    order = np.lexsort((np.arange(len(values)), -logits))[:count]
    assert found is not None
    assert [token for token, _ in found.top] == order.tolist()
    np.testing.assert_allclose([value for _, value in found.top], values[order], atol=4e-6, rtol=1e-6)
    np.testing.assert_allclose(found.log_prob, values[sampled], atol=4e-6, rtol=1e-6)


@pytest.mark.parametrize("vocab", [1, 2, 5, 19, 20, 21, 255, 256, 257, 1003, 49_152, 262_147])
def test_are_those_of_float64(vocab: int, lab: Any, builder: Any) -> None:
    rng = lab.rng
    room = int(rng.integers(1, SLOTS + 1))
    rows = int(rng.integers(1, room + 1))
    logits = (rng.standard_normal((rows, vocab)) * rng.choice([0.01, 1, 10])).astype(np.float32)
    if rng.random() < 0.5:
        logits = np.round(logits * 4) / 4  # many are equal
    logits += np.float32(rng.choice([0, -1000, 1000]))
    sampled = rng.integers(0, vocab, rows).tolist()
    counts = [int(n) for n in rng.choice([0, 1, 5, MOST_TOP], rows)]
    for output, found in enumerate(found_in(lab, builder, logits, sampled, counts, room)):
        check(found, logits[output], sampled[output], counts[output])


@pytest.mark.parametrize("order", ["rising", "falling", "equal"])
def test_in_any_order(lab: Any, builder: Any, order: str) -> None:
    """Rising ones enter each list anew at every step, falling ones never after the first."""
    row = {"rising": np.arange(3000), "falling": -np.arange(3000), "equal": np.full(3000, 2.5)}[order]
    logits = (row[None] / 100).astype(np.float32)
    (found,) = found_in(lab, builder, logits, [7], [MOST_TOP], 1)
    check(found, logits[0], 7, MOST_TOP)


def test_of_one_lane(lab: Any, builder: Any) -> None:
    """All the likeliest lie where one lane looks."""
    logits = np.zeros((1, 8192), np.float32)
    places = [256 * i + j for i in range(10) for j in range(4)]
    logits[0, places] = lab.rng.permutation(40) + 1
    (found,) = found_in(lab, builder, logits, [places[0]], [MOST_TOP], 1)
    check(found, logits[0], places[0], MOST_TOP)


def test_both_zeros_are_equal(lab: Any, builder: Any) -> None:
    logits = np.array([[-1, -0.0, 0.0, -0.0]], np.float32)
    (found,) = found_in(lab, builder, logits, [0], [3], 1)
    assert found is not None and [token for token, _ in found.top] == [1, 2, 3]


def test_what_can_never_be_is_no_likely_token(lab: Any, builder: Any) -> None:
    logits = np.full((1, 70), -np.inf, np.float32)
    logits[0, [5, 66]] = 1.0
    (found,) = found_in(lab, builder, logits, [5], [MOST_TOP], 1)
    assert found is not None
    assert [token for token, _ in found.top] == [5, 66]
    np.testing.assert_allclose([found.log_prob, *(value for _, value in found.top)], np.log(0.5), atol=1e-6)


def test_what_is_no_number_shows(lab: Any, builder: Any) -> None:
    logits = np.zeros((2, 70), np.float32)
    logits[0, 69], logits[1, 0] = np.nan, np.inf
    for found in found_in(lab, builder, logits, [5, 6], [3, 3], 2):
        assert found is not None and np.isnan(found.log_prob)


def test_who_does_not_ask_and_who_does_are_neighbours(lab: Any, builder: Any) -> None:
    logits = lab.rng.standard_normal((4, 500)).astype(np.float32)
    found = found_in(lab, builder, logits, [1, 2, 3, 4], [None, 5, None, 0], 6)
    assert found[0] is found[2] is None
    check(found[1], logits[1], 2, 5)
    check(found[3], logits[3], 4, 0)


def test_a_row_is_the_same_bits_in_any_company(lab: Any, builder: Any) -> None:
    logits = lab.rng.standard_normal((4, 500)).astype(np.float32)
    together = found_in(lab, builder, logits, [1, 2, 3, 4], [MOST_TOP] * 4, 4)
    alone = [found_in(lab, builder, logits[i : i + 1], [i + 1], [MOST_TOP], 1)[0] for i in range(4)]
    assert alone == together
