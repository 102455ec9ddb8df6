"""What a sequence knows of itself."""

from typing import Any

from wgpu_engine.engine.sampling import SamplingParams
from wgpu_engine.engine.sequence import Sequence, Timings
from wgpu_engine.ops.state import Row, decode_row


def sequence(limit: int = 5, **params: Any) -> Sequence:
    return Sequence([4, 5, 6], SamplingParams(**params), limit, Timings())


def test_seeds_of_any_size() -> None:
    assert sequence(seed=(1 << 32) + 9).seed == 9
    assert sequence(seed=-1).seed == 0xFFFFFFFF
    assert len({sequence().seed for _ in range(8)}) > 1


def test_rows_of_a_prompt_and_of_an_answer() -> None:
    one = sequence()
    one.start(2, cached=1)
    assert one.next_rows(1) == [Row(5, 1, 2)]
    assert not one.prefilled
    assert one.next_rows(1) == [Row(6, 2, 2)]
    assert one.prefilled
    assert one.next_rows(1) == [decode_row(2)]
    one.take(9)
    one.take(10)
    assert one.next_rows(1) == [decode_row(2)], "a token that was read is in the slot all the same"
    assert (one.prompt, one.answer, one.prefilled) == ([4, 5, 6], [9, 10], True)


def test_a_start_anew_computes_the_answer_again() -> None:
    one = sequence()
    one.start(0, cached=0)
    one.next_rows(3)
    one.take(9)
    one.slot = None
    one.start(1, cached=0)
    assert one.starts == 2
    assert one.next_rows(4) == [Row(4, 0, 1), Row(5, 1, 1), Row(6, 2, 1), Row(9, 3, 1)]
    assert one.sampled == 1
    assert one.timings.cached_tokens == 0


def test_the_limit_ends_it() -> None:
    one = sequence(limit=2)
    one.start(0, cached=0)
    one.take(7)
    assert not one.finished
    one.take(8)
    assert one.finished
    assert list(one.tokens) == [(7, None), (8, None)]
    assert one.timings.completion_tokens == 2
    assert sequence(limit=0).finished
