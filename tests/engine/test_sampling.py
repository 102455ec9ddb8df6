"""Sampling parameters on their way to the device."""

import struct
from dataclasses import replace
from typing import Any

import pytest

from wgpu_engine.engine.sampling import SamplingParams
from wgpu_engine.errors import RequestError
from wgpu_engine.ops.builder import SLOT_WORDS


def words(**values: Any) -> tuple[Any, ...]:
    """Token, position, seed, count, temperature, top-k, top-p, min-p, three penalties, flags, biases, likeliest."""
    data = SamplingParams(**values).slot_words(7, 3)
    assert len(data) == 4 * SLOT_WORDS
    assert not any(data[56:])
    return struct.unpack("<4I f I 5f 3I", data[:56])


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
    assert found == (0, 0, 7, 3, 0.5, 7, 0.25, 0.125, 1.5, 2.0, -3.0, 1, 0, 0)


def test_penalties_are_counted_only_where_there_are_some() -> None:
    assert words()[11] == 0
    for name, value in (("repetition_penalty", 1.1), ("presence_penalty", 0.1), ("frequency_penalty", -0.1)):
        assert words(**{name: value})[11] == 1


def test_biases_and_likeliest_tokens() -> None:
    assert words(logit_bias={7: 1.5, 3: -2}, logprobs=5)[11:] == (2, 2, 5)
    assert words(logprobs=0, presence_penalty=1.0)[11:] == (3, 0, 0)
    params = SamplingParams(logit_bias={7: 1.5, 3: -2})
    assert params.biases == ((3, -2), (7, 1.5)) and params.is_detailed
    assert replace(params, seed=3).biases == params.biases
    assert not SamplingParams(logit_bias={}).is_detailed and SamplingParams(logprobs=0).is_detailed


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
        {"logprobs": -1},
        {"logprobs": 21},
        {"logprobs": True},
        {"logprobs": 1.0},
        {"logit_bias": 5},
        {"logit_bias": "ab"},
        {"logit_bias": [1]},
        {"logit_bias": {"5": 1.0}},
        {"logit_bias": {True: 1.0}},
        {"logit_bias": {-1: 1.0}},
        {"logit_bias": {1: 100.5}},
        {"logit_bias": {1: float("nan")}},
        {"logit_bias": {1: "a"}},
        {"logit_bias": dict.fromkeys(range(301), 1.0)},
    ],
)
def test_odd_values(values: dict[str, Any]) -> None:
    with pytest.raises(RequestError, match=next(iter(values))):
        SamplingParams(**values)
