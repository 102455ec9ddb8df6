"""Settings of models: taken when they make sense, refused in one sentence when they don't."""

from array import array
from typing import Any

import pytest

from wgpu_engine.errors import ModelFileError, UnsupportedModelError
from wgpu_engine.models.rope_scaling import rope_frequencies
from wgpu_engine.models.settings import Settings


def settings(**values: Any) -> Settings:
    return Settings(
        {"general.architecture": "llama"} | {f"llama.{key.replace('__', '.')}": v for key, v in values.items()}
    )


def test_counts() -> None:
    found = settings(layers=3, heads=[4, 4, 4], array=array("i", [2, 2]))
    assert found.architecture == "llama"
    assert [found.count(key) for key in ("layers", "heads", "array")] == [3, 4, 2]
    assert found.count("absent", 7) == 7


@pytest.mark.parametrize("value", [0, -1, 1 << 25, 2.0, "2", True, [2, 3], [], None])
def test_absurd_counts(value: Any) -> None:
    with pytest.raises(ModelFileError, match=r"llama\.layers") as caught:
        settings(layers=value).count("layers")
    assert len(str(caught.value)) < 200


def test_long_nonsense_is_cut() -> None:
    with pytest.raises(ModelFileError) as caught:
        settings(layers="x" * 10_000).count("layers")
    assert len(str(caught.value)) < 200


def test_numbers() -> None:
    assert settings(eps=1e-5).number("eps", 1.0) == 1e-5
    assert settings(eps=2).number("eps", 1.0) == 2.0
    assert settings().number("eps", 0.5) == 0.5


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf"), "1", True, [1.0]])
def test_absurd_numbers(value: Any) -> None:
    with pytest.raises(ModelFileError, match=r"llama\.eps"):
        settings(eps=value).number("eps", 1.0)


def test_frequencies() -> None:
    assert rope_frequencies(settings(), 4, None) == [1.0, pytest.approx(0.01)]
    assert rope_frequencies(settings(rope__freq_base=100.0), 4, None) == [1.0, pytest.approx(0.1)]
    assert rope_frequencies(settings(), 4, [1.0, 8.0]) == [1.0, pytest.approx(0.01 / 8)]


@pytest.mark.parametrize(
    "keys",
    [
        {"rope__scaling__type": "linear", "rope__scaling__factor": 4.0},
        {"rope__scaling__factor": 4.0},
        {"rope__scale_linear": 4.0},
    ],
)
def test_linear_scaling(keys: dict[str, Any]) -> None:
    assert rope_frequencies(settings(**keys), 4, None) == [0.25, pytest.approx(0.0025)]


def test_no_scaling_has_no_factor() -> None:
    keys = {"rope__scaling__type": "none", "rope__scaling__factor": 4.0}
    assert rope_frequencies(settings(**keys), 2, None) == [1.0]


def test_unknown_scaling() -> None:
    with pytest.raises(UnsupportedModelError, match=r"'longrope'.*linear"):
        rope_frequencies(settings(rope__scaling__type="longrope"), 4, None)


@pytest.mark.parametrize("factors", [[0.0, 1.0], [1.0, -2.0], [float("nan"), 1.0], [1.0, float("inf")]])
def test_factors_that_cannot_be(factors: list[float]) -> None:
    with pytest.raises(ModelFileError, match=r"rope_freqs\.weight"):
        rope_frequencies(settings(), 4, factors)


def test_a_base_that_cannot_be() -> None:
    with pytest.raises(ModelFileError, match="base"):
        rope_frequencies(settings(rope__freq_base=1e-20), 4, None)
