"""Logarithms of probabilities on the device against float64."""

from typing import Any

import numpy as np
import pytest

from wgpu_engine.ops.builder import row_floats
from wgpu_engine.ops.log_prob import log_prob, read_log_prob


def logarithms(lab: Any, builder: Any, logits: Any, tokens: list[int], room: int) -> list[float]:
    """Those of logits [outputs, vocab], in a plan with room for more; what pads the rows is likelier than anything."""
    count, vocab = logits.shape
    plan = builder(room, room)
    buffer = plan.logits(vocab)
    padded = np.full((room, row_floats(vocab)), 1e30, np.float32)
    padded[:count, :vocab] = logits
    lab.device.write(buffer, 0, padded.tobytes())
    wanted = plan.buffer(4 * room, "wanted")
    lab.device.write(wanted, 0, np.array(tokens, np.uint32).tobytes())
    found = log_prob(plan, buffer, vocab, wanted)
    lab.fill(found)
    lab.write_state(plan, [(0, 0, 0)] * count, range(count))
    lab.run(plan)
    words = lab.words(found, 4 * room)
    assert (words.view(np.float32)[4 * count :] < -100_000).all(), "outputs beyond the step's are written"
    return [read_log_prob(words.tobytes(), output) for output in range(count)]


def exact(logits: Any, tokens: list[int]) -> Any:
    values = logits.astype(np.float64)
    values -= values.max(axis=1, keepdims=True)
    return values[np.arange(len(tokens)), tokens] - np.log(np.exp(values).sum(axis=1))


@pytest.mark.parametrize("vocab", [1, 2, 3, 5, 255, 256, 257, 1003, 49_152, 262_147])
def test_is_that_of_float64(vocab: int, lab: Any, builder: Any) -> None:
    room = int(lab.rng.integers(1, 5))
    count = int(lab.rng.integers(1, room + 1))
    logits = (lab.rng.standard_normal((count, vocab)) * lab.rng.choice([1, 10])).astype(np.float32)
    logits += np.float32(lab.rng.choice([0, -1000, 1000]))
    tokens = [0, vocab - 1, *(int(token) for token in lab.rng.integers(0, vocab, 2))][:count]
    found = logarithms(lab, builder, logits, tokens, room)
    np.testing.assert_allclose(found, exact(logits, tokens), atol=4e-6, rtol=1e-6)


def test_all_the_weight_on_one_token(lab: Any, builder: Any) -> None:
    logits = np.full((2, 300), -1e20, np.float32)
    logits[:, 299] = 1e20
    sure, never = logarithms(lab, builder, logits, [299, 0], 2)
    assert sure == 0 and never == pytest.approx(-2e20)


def test_what_is_no_number_shows(lab: Any, builder: Any) -> None:
    logits = np.zeros((3, 70), np.float32)
    logits[0, 69] = logits[1, 0] = np.nan
    logits[2, 33] = np.inf
    assert np.isnan(logarithms(lab, builder, logits, [5, 6, 7], 3)).all()


def test_a_row_is_the_same_bits_in_any_company(lab: Any, builder: Any) -> None:
    logits = lab.rng.standard_normal((4, 500)).astype(np.float32)
    together = logarithms(lab, builder, logits, [1, 2, 3, 4], 4)
    assert [logarithms(lab, builder, logits[i : i + 1], [i + 1], 1)[0] for i in range(4)] == together
