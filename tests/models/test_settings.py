"""Settings of models: taken when they make sense, refused in one sentence when they don't."""

from array import array
from typing import Any

import pytest

from wgpu_engine.errors import ModelFileError
from wgpu_engine.models.settings import Settings
from wgpu_engine.models.windows import layer_windows


def settings(**values: Any) -> Settings:
    return Settings(
        {"general.architecture": "llama"} | {f"llama.{key.replace('__', '.')}": v for key, v in values.items()}
    )


def test_counts() -> None:
    found = settings(layers=3, heads=[4, 4, 4], array=array("i", [2, 2]))
    assert found.architecture == "llama"
    assert [found.count(key) for key in ("layers", "heads", "array")] == [3, 4, 2]
    assert found.count("absent", 7) == 7


@pytest.mark.parametrize("value", [0, -1, 1 << 25, 2.0, "2", True, [2, 3], [], [[2], [2]], [[2], [3]], None])
def test_absurd_counts(value: Any) -> None:
    with pytest.raises(ModelFileError, match=r"llama\.layers") as caught:
        settings(layers=value).count("layers")
    assert len(str(caught.value)) < 200


def test_long_nonsense_is_cut() -> None:
    with pytest.raises(ModelFileError) as caught:
        settings(layers="x" * 10_000).count("layers")
    assert len(str(caught.value)) < 200


def test_nonsense_is_told_on_one_line() -> None:
    """Neither breaks nor what colours a terminal gets through."""
    found = settings(eps="a\n\x1b[31m")
    for read in (lambda: found.count("eps"), lambda: found.number("eps", 1.0)):
        with pytest.raises(ModelFileError) as caught:
            read()
        assert r"is 'a\n\x1b[31m', not a" in str(caught.value)


def test_numbers() -> None:
    assert settings(eps=1e-5).number("eps", 1.0) == 1e-5
    assert settings(eps=2).number("eps", 1.0) == 2.0
    assert settings().number("eps", 0.5) == 0.5


@pytest.mark.parametrize("value", [0.0, 1e-42, 1e-300, -1.0, float("nan"), float("inf"), "1", True, [1.0]])
def test_absurd_numbers(value: Any) -> None:
    with pytest.raises(ModelFileError, match=r"llama\.eps"):
        settings(eps=value).number("eps", 1.0)


def test_flags() -> None:
    assert settings(pattern=[True, False]).flags("pattern", 2) == [True, False]
    assert settings().flags("pattern", 2) is None
    for value in ([True], [True, 1]):
        with pytest.raises(ModelFileError, match=r"llama\.pattern"):
            settings(pattern=value).flags("pattern", 2)


def test_windows() -> None:
    def windows(period: int = 0, **values: Any) -> tuple[int, ...]:
        return layer_windows(settings(**{f"attention__{key}": value for key, value in values.items()}), 4, period)

    assert windows() == windows(3) == windows(sliding_window=0) == (0, 0, 0, 0)
    assert windows(sliding_window=9) == (9, 9, 9, 9)
    assert windows(2, sliding_window=9) == (9, 0, 9, 0)
    assert windows(6, sliding_window=9) == (9, 9, 9, 9)
    assert windows(6, sliding_window=9, sliding_window_pattern=3) == (9, 9, 0, 9)
    assert windows(sliding_window=9, sliding_window_pattern=1) == (0, 0, 0, 0)
    assert windows(2, sliding_window=9, sliding_window_pattern=[False, False, True, True]) == (0, 0, 9, 9)
    with pytest.raises(ModelFileError, match="sliding_window"):
        windows(sliding_window=-1)
