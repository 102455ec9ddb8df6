"""Frequencies of the rotary embedding and their scalings, against the formulas as their papers give them."""

import math
from typing import Any

import numpy as np
import pytest

from wgpu_engine.errors import ModelFileError, UnsupportedModelError
from wgpu_engine.models.rope_scaling import Rope
from wgpu_engine.models.settings import Settings


def rope(dim: int = 4, *factors: list[float], **values: Any) -> Rope:
    keys = {f"llama.{key.replace('__', '.')}": value for key, value in values.items()}
    return Rope.read(Settings({"general.architecture": "llama"} | keys), dim, *factors)


def test_frequencies() -> None:
    assert rope().frequencies(100) == [1.0, pytest.approx(0.01)]
    assert rope(rope__freq_base=100.0).frequencies(100) == [1.0, pytest.approx(0.1)]
    assert rope(4, [1.0, 8.0]).frequencies(100) == [1.0, pytest.approx(0.01 / 8)]
    assert rope().magnitude == 1.0


@pytest.mark.parametrize(
    "keys",
    [
        {"rope__scaling__type": "linear", "rope__scaling__factor": 4.0},
        {"rope__scaling__factor": 4.0},
        {"rope__scale_linear": 4.0},
    ],
)
def test_linear(keys: dict[str, Any]) -> None:
    assert rope(**keys).frequencies(1) == [0.25, pytest.approx(0.0025)]


def test_no_scaling_has_no_factor() -> None:
    assert rope(2, rope__scaling__type="none", rope__scaling__factor=4.0).frequencies(1) == [1.0]


def test_dynamic_ntk() -> None:
    """Beyond its own context the base grows, so that the slowest pair turns as in that of the stretched length."""
    found = rope(16, rope__scaling__type="dynamic", rope__scaling__factor=2.0, context_length=128)
    plain = rope(16)
    for positions in (1, 128):
        assert found.frequencies(positions) == plain.frequencies(positions)
    longer = found.frequencies(512)
    assert longer[0] == 1.0
    # the last pair's exponent is (dim - 2) / dim, so its frequency is divided by just the stretch: 2 * 4 - 1
    assert longer[-1] == pytest.approx(plain.frequencies(1)[-1] / 7)
    assert longer == pytest.approx([(10000 * 7 ** (16 / 14)) ** (-i / 8) for i in range(8)])


def test_yarn() -> None:
    """Fast pairs are kept, slow ones stretched; between the pairs of 32 turns and of one a straight line is drawn."""
    dim, base, context, factor = 64, 10000.0, 2048, 8.0
    found = rope(
        dim,
        rope__freq_base=base,
        rope__scaling__type="yarn",
        rope__scaling__factor=factor,
        rope__scaling__original_context_length=context,
        context_length=int(context * factor),
    )
    plain = base ** (-np.arange(0, dim, 2) / dim)
    turns = context * plain / (2 * np.pi)
    got = np.array(found.frequencies(99))
    first, last = np.nonzero(turns >= 32)[0].max(), np.nonzero(turns <= 1)[0].min()
    assert 0 < first < last < dim // 2 - 1
    np.testing.assert_allclose(got[: first + 1], plain[: first + 1], rtol=1e-12)
    np.testing.assert_allclose(got[last:], plain[last:] / factor, rtol=1e-12)
    # how much of each is stretched
    part = (1 - got / plain) / (1 - 1 / factor)
    np.testing.assert_allclose(part[first : last + 1], np.linspace(0, 1, last - first + 1), atol=1e-12)
    assert found.magnitude == pytest.approx(1 + 0.1 * math.log(8))


def test_bounds_and_magnitude_of_yarn() -> None:
    keys = {"rope__scaling__type": "yarn", "rope__scaling__factor": 4.0, "context_length": 64}
    found = rope(8, **keys, rope__scaling__attn_factor=0.5)
    assert found.magnitude == pytest.approx(0.5 * (1 + 0.1 * math.log(4)))
    # within 64 positions no pair turns 32 times, and the first about ten times
    narrow = rope(8, **keys, rope__scaling__yarn_beta_fast=11.0, rope__scaling__yarn_beta_slow=10.5)
    assert found.frequencies(1)[0] == 1.0 and found.frequencies(1)[-1] == pytest.approx(0.00025)
    assert narrow.frequencies(1) == pytest.approx([1.0, 0.025, 0.0025, 0.00025])
    assert rope(8, **keys | {"rope__scaling__factor": 0.5}).magnitude == 1.0


def test_longrope() -> None:
    short, long = [1.0, 2.0], [4.0, 8.0]
    found = rope(
        4,
        short,
        long,
        rope__scaling__type="longrope",
        rope__scaling__attn_factor=1.25,
        rope__scaling__original_context_length=64,
        context_length=128,
    )
    assert found.frequencies(64) == [1.0, pytest.approx(0.005)]
    assert found.frequencies(65) == [0.25, pytest.approx(0.00125)]
    assert found.magnitude == 1.25
    # files say it by their tensors alone
    unnamed = rope(4, short, long, context_length=64)
    assert unnamed.frequencies(65) == found.frequencies(65)


def test_unknown_scaling() -> None:
    with pytest.raises(UnsupportedModelError, match=r"'spiral'.*linear"):
        rope(rope__scaling__type="spiral")


def test_longrope_without_its_factors() -> None:
    with pytest.raises(ModelFileError, match="LongRoPE"):
        rope(rope__scaling__type="longrope")


@pytest.mark.parametrize("factors", [[0.0, 1.0], [1.0, -2.0], [float("nan"), 1.0], [1.0, float("inf")]])
def test_factors_that_cannot_be(factors: list[float]) -> None:
    for both in ([factors], [[1.0, 1.0], factors]):
        with pytest.raises(ModelFileError, match="factors"):
            rope(4, *both)


@pytest.mark.parametrize("base", [1e-20, 1.0])
def test_a_base_that_cannot_be(base: float) -> None:
    with pytest.raises(ModelFileError, match="base"):
        rope(rope__freq_base=base)
