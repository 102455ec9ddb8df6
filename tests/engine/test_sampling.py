"""Sampling parameters on their way to the device."""

import struct
from typing import Any

import pytest

from wgpu_engine.engine.sampling import SamplingParams
from wgpu_engine.errors import RequestError
from wgpu_engine.ops.builder import SLOT_WORDS


def words(**values: Any) -> tuple[Any, ...]:
    """Token, position, seed, count, temperature, top-k, top-p, min-p, three penalties, flags."""
    data = SamplingParams(**values).slot_words(7, 3)
    assert len(data) == 4 * SLOT_WORDS
    assert not any(data[48:])
    return struct.unpack("<4I f I 5f I", data[:48])


def test_words_of_a_slot() -> None:
    found = words(
        temperature=0.5,
        top_k=7,
        top_p=0.25,
        min_p=0.125,
        repetition_penalty=1.5,
        presence_penalty=2.0,
        frequency_penalty=-3.0,
    )
    assert found == (0, 0, 7, 3, 0.5, 7, 0.25, 0.125, 1.5, 2.0, -3.0, 1)


def test_penalties_are_counted_only_where_there_are_some() -> None:
    assert words()[-1] == 0
    for name, value in (("repetition_penalty", 1.1), ("presence_penalty", 0.1), ("frequency_penalty", -0.1)):
        assert words(**{name: value})[-1] == 1


def test_stop_strings() -> None:
    assert SamplingParams(stop="end").stop == ("end",)
    assert SamplingParams(stop=["a", "b"]).stop == ("a", "b")
    assert SamplingParams().stop == () == SamplingParams(stop=None).stop


@pytest.mark.parametrize(
    "values",
    [
        {"top_k": 1 << 32},
        {"stop": {"a": 1}},
        {"max_tokens": True},
        {"seed": True},
        {"temperature": 10**400},
        {"temperature": float("nan")},
    ],
)
def test_odd_values(values: dict[str, Any]) -> None:
    with pytest.raises(RequestError, match=next(iter(values))):
        SamplingParams(**values)
