"""Whatever is done to a file, the reader either refuses it in its own words or reads it within bounds."""

import itertools
import random
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wgpu_engine.errors import EngineError, ModelFileError
from wgpu_engine.files.gguf import read_gguf
from wgpu_engine.platform.drive import drive


class MemorySource:
    """Bytes in memory that insist on sensible requests."""

    name = "model.gguf"

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.size = len(data)

    async def read(self, offset: int, length: int) -> bytes:
        assert offset >= 0 and length > 0 and offset + length <= self.size
        return self.data[offset : offset + length]

    def close(self) -> None:
        self.data = b""


def attempt(data: bytes) -> None:
    """Read, and hold what was read to its bounds; anything but an EngineError fails the test."""
    try:
        gguf = drive(read_gguf(MemorySource(data)))
    except EngineError as error:
        assert "\n" not in str(error)
        return
    taken = sorted((tensor.offset, tensor.offset + tensor.nbytes) for tensor in gguf.tensors.values())
    for start, end in taken:
        assert start % gguf.alignment == 0
        assert 0 < start < end <= len(data)
    for (_, end), (start, _) in itertools.pairwise(taken):
        assert end <= start


def test_refuses_every_truncation(small_model: bytes) -> None:
    for length in range(len(small_model)):
        with pytest.raises(ModelFileError):
            drive(read_gguf(MemorySource(small_model[:length])))
    drive(read_gguf(MemorySource(small_model)))


def test_refuses_a_real_model_truncated_at_random(conformance: Path) -> None:
    data = (conformance / "logits" / "stories260K.gguf").read_bytes()
    places = random.Random(0)
    for _ in range(50):
        with pytest.raises(ModelFileError):
            drive(read_gguf(MemorySource(data[: places.randrange(len(data))])))


def test_survives_an_extreme_in_every_place(small_model: bytes) -> None:
    extremes = [struct.pack("<Q", number) for number in (0, 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1)]
    for place in range(4, len(small_model) - 96):
        for extreme in extremes:
            attempt(small_model[:place] + extreme + small_model[place + 8 :])


@settings(max_examples=400, deadline=5000)
@given(st.data())
def test_survives_flipped_bytes(small_model: bytes, data: st.DataObject) -> None:
    spoilt = bytearray(small_model)
    for _ in range(data.draw(st.integers(1, 8))):
        spoilt[data.draw(st.integers(4, len(spoilt) - 97))] = data.draw(st.integers(0, 255))
    attempt(bytes(spoilt))


@settings(max_examples=200, deadline=5000)
@given(st.binary(max_size=200), st.integers(0, 20), st.integers(0, 20))
def test_survives_noise_after_the_counts(noise: bytes, tensors: int, keys: int) -> None:
    attempt(b"GGUF" + struct.pack("<IQQ", 3, tensors, keys) + noise)


@settings(max_examples=200, deadline=5000)
@given(st.binary(max_size=64))
def test_survives_noise(noise: bytes) -> None:
    with pytest.raises(EngineError):
        drive(read_gguf(MemorySource(noise)))


@settings(max_examples=200, deadline=5000)
@given(st.data())
def test_survives_pieces_moved_about(small_model: bytes, data: st.DataObject) -> None:
    place = st.integers(4, len(small_model))
    start, end, target = data.draw(place), data.draw(place), data.draw(place)
    attempt(small_model[:target] + small_model[start:end] + small_model[target:])
    attempt(small_model[:start] + small_model[end:])
