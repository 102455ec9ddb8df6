"""safetensors headers: what is read, what is refused, and that nothing else comes of any bytes."""

import itertools
import json
import struct
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wgpu_engine.errors import EngineError, ModelFileError, UnsupportedModelError
from wgpu_engine.files.safetensors import BITS, MAX_HEADER, SafeTensors, read_safetensors
from wgpu_engine.platform.drive import drive
from wgpu_engine.platform.memory_source import MemorySource

TWO = {
    "b": {"dtype": "BF16", "shape": [2, 4], "data_offsets": [12, 28]},
    "a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]},
}


def build(header: Any, data: bytes = bytes(28), length: int | None = None) -> bytes:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(raw) if length is None else length) + raw + data


def parse(data: bytes) -> SafeTensors:
    return drive(read_safetensors(MemorySource("model.safetensors", data)))


def tensor(dtype: Any = "F32", shape: Any = (3,), offsets: Any = (0, 12), **more: Any) -> dict[str, Any]:
    return {"t": {"dtype": dtype, "shape": shape, "data_offsets": offsets, **more}}


def refused(data: bytes, match: str, kind: type[EngineError] = ModelFileError) -> None:
    with pytest.raises(kind, match=match) as caught:
        parse(data)
    message = str(caught.value)
    assert message.startswith("model.safetensors ")
    assert "\n" not in message and len(message) < 300


def test_reads_tensors_in_any_order() -> None:
    data = build(
        {"__metadata__": {"format": "pt"}, **TWO} | {"e": {"dtype": "F16", "shape": [0, 5], "data_offsets": [12, 12]}}
    )
    found = parse(data)
    assert found.metadata == {"format": "pt"}
    assert [(t.name, t.dtype, t.shape, t.nbytes) for t in found.tensors.values()] == [
        ("b", "BF16", (2, 4), 16),
        ("a", "F32", (3,), 12),
        ("e", "F16", (0, 5), 0),
    ]
    assert [len(data) - t.offset for t in found.tensors.values()] == [16, 28, 16]


def test_reads_every_type_and_padding_after_the_header() -> None:
    entries, at = {}, 0
    for dtype, bits in BITS.items():
        entries[dtype] = {"dtype": dtype, "shape": [2, 8], "data_offsets": [at, at + 2 * bits]}
        at += 2 * bits
    entries["scalar"] = {"dtype": "U8", "shape": [], "data_offsets": [at, at + 1]}
    found = parse(build(json.dumps(entries).encode() + b"   ", bytes(at + 1)))
    assert [t.nbytes * 8 // 16 for t in list(found.tensors.values())[:-1]] == list(BITS.values())
    assert found.tensors["scalar"].shape == ()


def test_reads_a_file_without_tensors() -> None:
    assert parse(build({}, b"")).tensors == {}


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"", "is empty"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
        (b"GGUF" + bytes(60), "is not a safetensors file"),
        (build({}, length=1 << 40), "most"),
        (build({}, length=MAX_HEADER + 1), "most"),
        (build({}, b"", length=3), "header should end at byte 11, but the file has 10"),
        (build(b"{" + b"[" * 100_000), "no JSON"),
        (build(b'{"a": ' + b"1" * 5000 + b"}"), "no JSON"),
        (build(b'{"a": "\xff"}'), "no JSON"),
        (build(b'{"a": {}, "a": {}}'), "the key 'a' twice"),
        (build(b'{"t": {"dtype": "F32", "dtype": "F32"}}'), "the key 'dtype' twice"),
        (build({"__metadata__": {"format": 1}}), "__metadata__"),
        (build({"__metadata__": []}), "__metadata__"),
        (build({"t": 1}), "'t' is no JSON object"),
        (build(tensor(dtype=None)), "no type"),
        (build(tensor(shape=None)), "impossible shape"),
        (build(tensor(shape=[-3])), "impossible shape"),
        (build(tensor(shape=[True])), "impossible shape"),
        (build(tensor(shape=[3.0])), "impossible shape"),
        (build(tensor(shape=[1 << 40, 1 << 40])), "impossible shape"),
        (build(tensor(shape=[1] * 9)), "impossible shape"),
        (build(tensor(offsets=None)), "impossible range"),
        (build(tensor(offsets=[12, 0])), "impossible range"),
        (build(tensor(offsets=[0, 12, 12])), "impossible range"),
        (build(tensor(offsets=[-12, 0])), "impossible range"),
        (build(tensor(offsets=[0, 11])), "shape .3. has 11 bytes"),
        (build(tensor("F4", [3], [0, 1])), "type F4 and shape .3. has 1 bytes"),
        (build(tensor(offsets=[4, 16])), "no tensor has the 4 bytes after its header"),
        (build(tensor() | {"u": TWO["b"]}, bytes(27)), "truncated: 1 bytes are missing"),
        (build(tensor()), "16 bytes follow its last tensor"),
        (build({}, b"x"), "1 bytes follow"),
        (build(TWO | {"c": {"dtype": "U8", "shape": [2], "data_offsets": [11, 13]}}), "overlap"),
        (build(TWO | {"c": TWO["a"]}), "'a' and 'c' overlap"),
        (build(TWO | {"c": {"dtype": "U8", "shape": [1], "data_offsets": [30, 31]}}, bytes(31)), "2 bytes before 'c'"),
    ],
)
def test_refuses_what_cannot_be(data: bytes, match: str) -> None:
    refused(data, match)


def test_names_a_type_from_the_future() -> None:
    refused(build(tensor(dtype="F1\n")), r"'t' is of type 'F1\\n'", UnsupportedModelError)


def test_a_name_that_tries_to_be_more() -> None:
    refused(build({"a\n\ud800" + "x" * 5000: 1}), r"'a\\n\\ud800x")


def test_refuses_a_long_header_of_doubles_at_once() -> None:
    raw = b"{" + b",".join(b'"%d":0' % (number % 199_999) for number in range(200_000)) + b"}"
    start = time.thread_time()
    refused(build(raw), "twice")
    assert time.thread_time() - start < 5


def attempt(data: bytes) -> None:
    """Read, and hold what was read to its bounds; anything but an EngineError fails the test."""
    try:
        found = parse(data)
    except EngineError as error:
        assert "\n" not in str(error)
        return
    taken = sorted((each.offset, each.offset + each.nbytes) for each in found.tensors.values())
    for (_, end), (start, _) in itertools.pairwise(taken):
        assert end == start
    if taken:
        assert taken[0][0] == 8 + struct.unpack("<Q", data[:8])[0]
        assert taken[-1][1] == len(data)


SOUND = build({"__metadata__": {"format": "pt"}, **TWO})


def test_refuses_every_truncation() -> None:
    parse(SOUND)
    for length in range(len(SOUND)):
        with pytest.raises(ModelFileError):
            parse(SOUND[:length])


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_survives_flipped_bytes(data: st.DataObject) -> None:
    spoilt = bytearray(SOUND)
    for _ in range(data.draw(st.integers(1, 6))):
        spoilt[data.draw(st.integers(0, len(spoilt) - 29))] = data.draw(st.integers(0, 255))
    attempt(bytes(spoilt))


@settings(max_examples=300, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["a", "b", "c", "__metadata__"]),
        st.fixed_dictionaries(
            {
                "dtype": st.sampled_from([*BITS, "X", None]),
                "shape": st.lists(st.integers(-1, 4) | st.sampled_from([1 << 62, 1.5, None]), max_size=3),
                "data_offsets": st.lists(st.integers(-1, 40), min_size=1, max_size=3),
            }
        )
        | st.recursive(st.none() | st.integers() | st.text(max_size=3), lambda each: st.lists(each, max_size=2)),
    )
)
def test_survives_any_header(header: dict[str, Any]) -> None:
    attempt(build(header))


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=64))
def test_survives_noise(noise: bytes) -> None:
    attempt(noise)


@pytest.mark.conformance
def test_reads_real_files(conformance: Path) -> None:
    for path in (conformance / "architectures").glob("*/model.safetensors"):
        found = parse(path.read_bytes())
        assert {each.dtype for each in found.tensors.values()} == {"F32"}
        assert len(found.tensors) > 10
