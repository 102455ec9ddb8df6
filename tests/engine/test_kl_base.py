"""The file of predictions: what is kept of them, and that a hostile one is refused."""

import json
import random
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wgpu_engine.engine.divergence import divergence, log_softmax
from wgpu_engine.engine.kl_base import BaseHeader, BaseReader, BaseWriter
from wgpu_engine.errors import EngineError, ModelFileError, ModelNotFoundError, RequestError

HEADER = BaseHeader("a model", 301, 8, None, 20, 2, 6)
IDS = [i * 7 % 301 for i in range(20)]
ROW = 12 + 2 * HEADER.vocab


def rows(rng: np.random.Generator, spread: float = 4.0) -> np.ndarray:
    return log_softmax((rng.standard_normal((3, HEADER.vocab)) * spread).astype(np.float32))


def write(path: Path, *windows: np.ndarray, commit: bool = True) -> None:
    with BaseWriter(path, HEADER, IDS) as writer:
        for log_probs in windows:
            writer.add(log_probs[:2], log_probs[:2, 5])
            writer.add(log_probs[2:], log_probs[2:, 5])
            writer.end_window()
        if commit:
            writer.commit()


@pytest.fixture
def sound(tmp_path: Path, rng: np.random.Generator) -> Path:
    write(tmp_path / "sound.kl", rows(rng), rows(rng))
    return tmp_path / "sound.kl"


@pytest.mark.parametrize("spread", [0.1, 4.0, 14.0])
def test_what_is_read_is_what_was_written(tmp_path: Path, rng: np.random.Generator, spread: float) -> None:
    written = [rows(rng, spread), rows(rng, spread)]
    write(tmp_path / "x.kl", *written)
    with BaseReader(tmp_path / "x.kl") as base:
        assert base.header == HEADER
        base.check(IDS, HEADER.vocab, 8, None)
        for log_probs in written:
            found = base.take(3)
            assert (found.likeliest == log_probs.argmax(axis=1)).all()
            np.testing.assert_allclose(found.found, log_probs[:, 5], rtol=1e-6)
            kept = np.maximum(log_probs, log_probs.max(axis=1, keepdims=True) - 64)
            assert np.abs(found.log_probs - kept).max() < 1e-3
            np.testing.assert_allclose(np.exp(found.log_probs).sum(axis=1), 1, rtol=1e-12)
            kl = divergence(log_probs, found.log_probs)
            assert kl.min() > -1e-12 and kl.max() < 5e-8, "rounding would be taken for a difference"
        with pytest.raises(ModelFileError, match="ends too early"):
            base.take(1)


def test_a_certain_prediction_survives(tmp_path: Path) -> None:
    logits = np.full((3, HEADER.vocab), -500.0, np.float32)
    logits[:, 5] = 500
    even = np.zeros((3, HEADER.vocab), np.float32)
    write(tmp_path / "x.kl", log_softmax(logits), log_softmax(even))
    with BaseReader(tmp_path / "x.kl") as base:
        found = base.take(3)
        assert (found.likeliest == 5).all() and (found.found == 0).all()
        assert np.exp(found.log_probs[:, 5]) == pytest.approx(1)
        np.testing.assert_allclose(np.exp(base.take(3).log_probs), 1 / HEADER.vocab)


def test_what_was_interrupted_has_its_whole_windows(tmp_path: Path, rng: np.random.Generator) -> None:
    path = tmp_path / "x.kl"
    with BaseWriter(path, HEADER, IDS) as writer:
        first = rows(rng)
        writer.add(first, first[:, 5])
        writer.end_window()
        writer.add(first[:1], first[:1, 5])
        writer.commit()
    with BaseReader(path) as base:
        assert (base.header.windows, base.header.rows) == (1, 3)
        base.take(3)


def test_without_a_commit_there_is_no_file(tmp_path: Path, rng: np.random.Generator) -> None:
    write(tmp_path / "x.kl", rows(rng), commit=False)
    write(tmp_path / "y.kl")
    assert not list(tmp_path.iterdir())
    with pytest.raises(EngineError, match="can't be written"):
        write(tmp_path / "no folder" / "x.kl", rows(rng))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"vocab": 300}, "same tokenizer"),
        ({"ctx_size": 9}, "a context of 8 and no stride"),
        ({"stride": 2}, "a context of 8 and no stride"),
        ({"ids": [*IDS[:-1], 0]}, "another text"),
        ({"ids": IDS[:-1]}, "another text"),
    ],
)
def test_another_run_is_refused(sound: Path, changes: dict[str, Any], said: str) -> None:
    run: dict[str, Any] = {"ids": IDS, "vocab": HEADER.vocab, "ctx_size": 8, "stride": None}
    with BaseReader(sound) as base, pytest.raises(RequestError, match=said):
        base.check(**(run | changes))


@pytest.mark.parametrize(
    "changes",
    [
        *({name: value} for name in ("vocab", "ctx_size", "tokens", "windows", "rows") for value in (0, -1, 1.5, "x")),
        {"rows": 5},
        {"rows": 1 << 39},
        {"vocab": 1 << 30},
        {"tokens": 19},
        {"stride": 9},
        {"stride": True},
        {"model": None},
        {"more": 1},
    ],
)
def test_a_header_that_can_not_be_is_refused(sound: Path, changes: dict[str, Any]) -> None:
    data = bytearray(sound.read_bytes())
    data[:1024] = (bytes(data[:8]) + json.dumps(asdict(HEADER) | changes).encode()).ljust(1024)
    sound.write_bytes(data)
    with pytest.raises(ModelFileError, match="damaged"):
        BaseReader(sound)


@pytest.mark.parametrize("data", [b"", b"x" * 5000, b"WGPU-KL\x01", b"WGPU-KL\x01" + b"[" * 1016])
def test_what_is_no_such_file_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x.kl").write_bytes(data)
    with pytest.raises(ModelFileError, match=r"no file of predictions|damaged"):
        BaseReader(tmp_path / "x.kl")
    with pytest.raises(ModelNotFoundError):
        BaseReader(tmp_path / "absent.kl")


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (0, np.float32(np.nan)),
        (0, np.float32(-1e-4)),
        (0, np.float32(0.1)),
        (4, np.float32(np.nan)),
        (4, np.float32(0.5)),
        (4, np.float32(-np.inf)),
        (8, np.uint32(HEADER.vocab)),
        (8, np.uint32(0xFFFFFFFF)),
    ],
)
def test_a_row_that_can_not_be_is_refused(sound: Path, at: int, value: Any) -> None:
    data = bytearray(sound.read_bytes())
    start = 1024 + 4 * len(IDS) + ROW + at
    data[start : start + 4] = value.tobytes()
    sound.write_bytes(data)
    with BaseReader(sound) as base, pytest.raises(ModelFileError, match="damaged"):
        base.take(3)


def test_whatever_is_done_to_it(sound: Path) -> None:
    """It is refused in a sentence, or its predictions are probabilities."""
    data, places = sound.read_bytes(), random.Random(5)
    for _ in range(300):
        changed = bytearray(data)
        for _ in range(places.randint(1, 4)):
            changed[places.randrange(len(data) if places.random() < 0.5 else 200)] = places.randrange(256)
        sound.write_bytes(changed[: places.randrange(len(data))] if places.random() < 0.1 else changed)
        try:
            with BaseReader(sound) as base:
                base.check(IDS, HEADER.vocab, 8, None)
                found = base.take(base.header.rows)
        except EngineError as error:
            assert "\n" not in str(error)
        else:
            np.testing.assert_allclose(np.exp(found.log_probs).sum(axis=1), 1, rtol=1e-9)
            assert (found.found <= 0).all()


@pytest.mark.parametrize("name", ["🦙" * 500, "\0" * 500, "\udc80"])
def test_any_name_fits(tmp_path: Path, rng: np.random.Generator, name: str) -> None:
    with BaseWriter(tmp_path / "x.kl", replace(HEADER, model=name), IDS) as writer:
        writer.add(rows(rng), np.zeros(3))
        writer.end_window()
        writer.commit()
    with BaseReader(tmp_path / "x.kl") as base:
        assert base.header.model == name.replace("\udc80", "?")[:120]
