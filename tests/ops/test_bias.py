"""Biases of tokens on the device."""

from typing import Any

import numpy as np
import pytest

from wgpu_engine.ops.bias import BIAS_BYTES, MOST_BIASES, add_bias, pack_biases
from wgpu_engine.ops.builder import SLOT_WORDS, row_floats

SLOTS = 5


def biased(lab: Any, builder: Any, logits: Any, pairs: list[dict[int, float]], slots: list[int], room: int) -> Any:
    """What logits [outputs, vocab] become, whose output i is in slots[i]; slot s adds pairs[s]."""
    count, vocab = logits.shape
    plan = builder(room, room, slots=SLOTS)
    buffer = plan.logits(vocab)
    lab.write_rows(buffer, logits)
    words = np.zeros((SLOTS, SLOT_WORDS), np.uint32)
    biases = lab.device.buffer(BIAS_BYTES * MOST_BIASES * SLOTS, "biases")
    lab._made.append(biases)
    for slot, each in enumerate(pairs):
        words[slot, 12] = len(each)
        # what another sequence has left behind the pairs must not count
        data = pack_biases(sorted(each.items())) + pack_biases([(0, 1e9)] * (MOST_BIASES - len(each)))
        lab.device.write(biases, BIAS_BYTES * MOST_BIASES * slot, data)
    lab.device.write(plan.slots, 0, words.tobytes())
    found = add_bias(plan, buffer, vocab, biases)
    lab.fill(found)
    lab.write_state(plan, [(0, 0, slot) for slot in slots], range(count))
    lab.run(plan)
    rows = lab.rows(found, room, vocab)
    assert (rows[count:] < -100_000).all(), "outputs beyond the step's are written"
    assert np.array_equal(lab.rows(buffer, count, vocab), logits), "the logits stay as they are"
    return rows[:count]


@pytest.mark.parametrize("vocab", [1, 2, 3, 5, 255, 256, 257, 1003, 49_152, 262_147])
def test_is_what_numpy_makes(vocab: int, lab: Any, builder: Any) -> None:
    rng = lab.rng
    sizes = [0, 1, min(vocab, 7), min(vocab, MOST_BIASES), min(vocab, 299)]
    pairs = [
        dict(zip(rng.choice(vocab, n, replace=False).tolist(), rng.uniform(-100, 100, n).tolist(), strict=True))
        for n in sizes
    ]
    for each in pairs[2:]:
        each |= {0: 1.5, vocab - 1: -2.25} if len(each) + 2 <= MOST_BIASES else {}
    room = int(rng.integers(1, SLOTS + 1))
    slots = rng.permutation(SLOTS)[: int(rng.integers(1, room + 1))].tolist()
    logits = (rng.standard_normal((len(slots), vocab)) * 10).astype(np.float32)
    wanted = logits.copy()
    for row, slot in enumerate(slots):
        for token, bias in pairs[slot].items():
            wanted[row, token] += np.float32(bias)
    assert np.array_equal(biased(lab, builder, logits, pairs, slots, room), wanted)


def test_neighbours_and_infinities(lab: Any, builder: Any) -> None:
    vocab = 17
    logits = np.zeros((2, vocab), np.float32)
    logits[0, 3], logits[0, 4] = np.inf, -np.inf
    every = dict.fromkeys(range(vocab), -100.0)
    found = biased(lab, builder, logits, [every, {}], [0, 1], 2)
    assert found[0, 3] == np.inf and found[0, 4] == -np.inf
    assert (np.delete(found[0], [3, 4]) == -100).all() and not found[1].any()


def test_rows_are_padded_as_logits_are(lab: Any, builder: Any) -> None:
    plan = builder(3, 3)
    buffer = plan.logits(5)
    assert add_bias(plan, buffer, 5, plan.buffer(BIAS_BYTES * MOST_BIASES, "biases")).size >= 12 * row_floats(5)
