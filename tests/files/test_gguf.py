import struct
import time
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wgpu_engine.errors import EngineError, ModelFileError, UnsupportedModelError
from wgpu_engine.files.ggml_types import GGML_NAMES, supported_types
from wgpu_engine.files.gguf import GGUF, read_gguf
from wgpu_engine.files.gguf_window import FIRST_WINDOW, MAX_DEPTH
from wgpu_engine.files.quants import BY_GGML_ID, QUANT_TYPES
from wgpu_engine.platform.drive import drive
from wgpu_engine.platform.file_source import FileSource


class MemorySource:
    """Bytes in memory, which count what is read of them."""

    name = "model.gguf"

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.size = len(data)
        self.reads: list[tuple[int, int]] = []

    async def read(self, offset: int, length: int) -> bytes:
        assert offset >= 0 and offset + length <= self.size
        self.reads.append((offset, length))
        return self.data[offset : offset + length]

    def close(self) -> None:
        self.data = b""


def parse(data: bytes) -> GGUF:
    return drive(read_gguf(MemorySource(data)))


def test_reads_every_type_of_value(draft: Any) -> None:
    made = draft()
    scalars = {"u8": 255, "i8": -128, "u16": 65535, "i16": -32768, "u32": 2**32 - 1, "i32": -(2**31)}
    scalars |= {"u64": 2**64 - 1, "i64": -(2**63), "f32": 0.5, "f64": 0.1, "bool": True, "str": "größe 🦙"}
    for kind, value in scalars.items():
        made.put(f"one.{kind}", kind, value)
        made.put(f"many.{kind}", f"[{kind}]", [value, value])
        made.put(f"none.{kind}", f"[{kind}]", [])
    metadata = parse(made.build()).metadata
    for kind, value in scalars.items():
        assert metadata[f"one.{kind}"] == value
        assert type(metadata[f"one.{kind}"]) is type(value)
        assert list(metadata[f"many.{kind}"]) == [value, value]
        assert len(metadata[f"none.{kind}"]) == 0
        assert isinstance(metadata[f"many.{kind}"], list if kind in ("bool", "str") else array)


def test_reads_nested_arrays(draft: Any) -> None:
    metadata = parse(
        draft().put("a", "[[u8]]", [[1, 2], []]).put("b", "[[[str]]]", [[["x"], ["y", ""]]]).build()
    ).metadata
    assert [list(row) for row in metadata["a"]] == [[1, 2], []]
    assert metadata["b"] == [[["x"], ["y", ""]]]


def test_keeps_bytes_that_are_not_utf8(draft: Any) -> None:
    metadata = parse(draft().put("one", "str", b"\xff\xfea").put("many", "[str]", [b"\x80", b"ok"]).build()).metadata
    assert metadata["one"].encode("utf-8", "surrogateescape") == b"\xff\xfea"
    assert metadata["many"][0].encode("utf-8", "surrogateescape") == b"\x80"
    assert metadata["many"][1] == "ok"


@pytest.mark.parametrize("version", [2, 3])
def test_reads_tensors(draft: Any, version: int) -> None:
    made = draft(version=version, data=bytes(36 + 28 + 64 + 4))
    made.tensor("q", (64, 1), 2, 0).tensor("f", (2, 4, 2), 0, 64).tensor("s", (), 0, 128)
    source = MemorySource(made.build())
    gguf = drive(read_gguf(source))
    assert gguf.version == version
    assert gguf.alignment == 32
    assert list(gguf.tensors) == ["q", "f", "s"]
    quantized, floats, scalar = gguf.tensors.values()
    assert (quantized.type.name, quantized.shape, quantized.nbytes) == ("Q4_0", (1, 64), 36)
    assert (quantized.rows, quantized.columns) == (1, 64)
    assert (floats.type.name, floats.shape, floats.nbytes) == ("F32", (2, 4, 2), 64)
    assert (floats.rows, floats.columns) == (8, 2)
    assert (scalar.shape, scalar.rows, scalar.columns, scalar.nbytes) == ((), 1, 1, 4)
    assert quantized.offset == source.size - 132
    assert floats.offset == quantized.offset + 64
    assert floats.source is source


def test_heeds_alignment(draft: Any) -> None:
    made = draft(alignment=4096, data=bytes(4100)).put("general.alignment", "u32", 4096)
    made.tensor("a", (1,), 0, 0).tensor("b", (1,), 0, 4096)
    gguf = parse(made.build())
    assert gguf.alignment == 4096
    assert [tensor.offset for tensor in gguf.tensors.values()] == [4096, 8192]


def test_reads_a_file_without_tensors(draft: Any) -> None:
    data = draft().put("a", "u8", 1).build().rstrip(b"\0")
    assert parse(data).tensors == {}


def test_reads_a_mapped_file(small_model: bytes, write: Callable[..., Path]) -> None:
    with FileSource(write(small_model)) as source:
        gguf = drive(read_gguf(source))
        assert bytes(drive(source.read(gguf.tensors["a.weight"].offset, 3))) == b"\0\1\2"
    assert gguf.metadata["general.architecture"] == "llama"


def test_reads_a_large_vocabulary_fast_and_once(draft: Any) -> None:
    tokens = [f"token {i}" * (1 + i % 3) for i in range(50_000)]
    merges = [f"left{i} right{i}" for i in range(50_000)]
    made = draft(data=bytes(4)).put("tokens", "[str]", tokens).put("scores", "[f32]", [0.25] * 50_000)
    made.put("merges", "[str]", merges).put("long", "str", "x" * (3 * FIRST_WINDOW)).tensor("a", (1,))
    source = MemorySource(made.build())
    start = time.thread_time()
    gguf = drive(read_gguf(source))
    seconds = time.thread_time() - start
    assert gguf.metadata["tokens"] == tokens
    assert gguf.metadata["merges"] == merges
    assert gguf.metadata["scores"].tolist() == [0.25] * 50_000
    assert len(gguf.metadata["long"]) == 3 * FIRST_WINDOW
    assert seconds < 0.3
    # Each window begins where parsing stopped, so hardly a byte is read twice.
    assert sum(length for _, length in source.reads) < 1.5 * source.size
    assert source.reads[0] == (0, FIRST_WINDOW)


def refused(data: bytes, kind: type[EngineError], match: str) -> None:
    with pytest.raises(kind, match=match) as caught:
        parse(data)
    message = str(caught.value)
    assert message.startswith("model.gguf ")
    assert "\n" not in message and len(message) < 400


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "is empty"),
        (b"GG", "ends after 2 bytes"),
        (b"<!DOCTYPE html><html>", "web page"),
        (b"\n <html lang='en'>", "web page"),
        (b"PK\x03\x04" + bytes(60), "zip archive"),
        (struct.pack("<Q", 64) + b'{"__metadata__":{}' + bytes(60), "safetensors"),
        (b"tjgg" + bytes(60), "before GGUF"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
        (b'{"error": "not found"}', "is JSON"),
        (b"\x1f\x8b\x08" + bytes(60), "compressed"),
        (bytes(4096), "begins with zeros"),
        (b"\x7fELF" + bytes(60), "give a .gguf file"),
    ],
)
def test_says_what_a_file_is_instead(content: bytes, match: str) -> None:
    refused(content, ModelFileError, f"is not a GGUF file: .*{match}")


@pytest.mark.parametrize(
    ("version", "match"), [(0, "newer conversion"), (1, "newer conversion"), (99, "update wgpu_engine")]
)
def test_refuses_other_versions(draft: Any, version: int, match: str) -> None:
    refused(draft(version=version).build(), UnsupportedModelError, f"of version {version}, .*{match}")


def test_refuses_big_endian_files(small_model: bytes) -> None:
    data = b"GGUF" + struct.pack(">IQQ", 3, 0, 0) + bytes(100)
    refused(data, UnsupportedModelError, "big-endian .* convert it with `gguf-convert-endian")


@pytest.mark.parametrize("count", [1000, 2**31, 2**63, 2**64 - 1])
def test_refuses_absurd_counts(draft: Any, count: int) -> None:
    refused(draft(key_count=count).build(), ModelFileError, f"claims to hold {count} metadata entries")
    refused(draft(tensor_count=count).build(), ModelFileError, f"claims to hold {count} tensors")


@pytest.mark.parametrize("length", [1000, 2**31, 2**63, 2**64 - 1])
def test_refuses_lengths_past_the_end(draft: Any, length: int) -> None:
    long = struct.pack("<Q", length) + b"abc"
    refused(draft().raw("k", 8, long).build(), ModelFileError, "the value of 'k' .* download it again")
    for kind in (0, 6, 7, 8, 9, 12):
        array_of = struct.pack("<IQ", kind, length) + bytes(16)
        refused(draft().raw("k", 9, array_of).build(), ModelFileError, "the value of 'k' .* download it again")
    key = draft(key_count=1).build()[:24] + long + bytes(40)
    refused(key, ModelFileError, "metadata key 0")
    name = draft(tensor_count=1).build()[:24] + long + bytes(40)
    refused(name, ModelFileError, "the name of tensor 0")


def test_refuses_unknown_and_impossible_values(draft: Any) -> None:
    refused(draft().raw("k", 13, bytes(8)).build(), ModelFileError, "'k' has the unknown type 13")
    refused(draft().raw("k", 9, struct.pack("<IQ", 77, 0)).build(), ModelFileError, "array of the unknown type 77")
    refused(draft().raw("k", 7, b"\2").build(), ModelFileError, "neither 0 nor 1")
    refused(draft().put("k", "[bool]", [1, 3, 0]).build(), ModelFileError, "neither 0 nor 1")
    refused(draft().put(b"\xff", "u8", 1).build(), ModelFileError, "key 0 .* isn't UTF-8")


def test_refuses_arrays_nested_deep_or_often(draft: Any) -> None:
    deep = struct.pack("<IQ", 9, 1) * MAX_DEPTH + struct.pack("<IQ", 0, 0)
    refused(draft().raw("k", 9, deep).build(), ModelFileError, f"more than {MAX_DEPTH} deep")
    many = struct.pack("<IQ", 9, 1 << 19) + struct.pack("<IQ", 0, 0) * (1 << 19)
    refused(draft().raw("k", 9, many).build(), ModelFileError, "nest more than")


def test_refuses_a_header_beyond_measure(tmp_path: Path, draft: Any) -> None:
    path = tmp_path / "huge.gguf"
    path.write_bytes(draft().raw("k", 9, struct.pack("<IQ", 0, 1 << 30)).build())
    with path.open("r+b") as file:
        file.truncate(2 << 30)
    with FileSource(path) as source, pytest.raises(ModelFileError, match="header should be larger than"):
        drive(read_gguf(source))


def test_refuses_duplicates(draft: Any) -> None:
    refused(draft().put("k", "u8", 1).put("k", "u8", 2).build(), ModelFileError, "metadata key 'k' twice")
    made = draft(data=bytes(64)).tensor("a", (1,), 0, 0).tensor("a", (1,), 0, 32)
    refused(made.build(), ModelFileError, "tensor 'a' twice")


@pytest.mark.parametrize("alignment", [0, 3, 48, 1 << 21, 2**32 - 1])
def test_refuses_absurd_alignments(draft: Any, alignment: int) -> None:
    refused(draft().put("general.alignment", "u32", alignment).build(), ModelFileError, "not a power of two")


def test_refuses_an_alignment_that_is_no_integer(draft: Any) -> None:
    refused(draft().put("general.alignment", "str", "x" * 999).build(), ModelFileError, "not a power of two")
    refused(draft().put("general.alignment", "bool", 1).build(), ModelFileError, "not a power of two")
    refused(draft().put("general.alignment", "f32", 32.0).build(), ModelFileError, "not a power of two")


@pytest.mark.parametrize(
    ("dimensions", "match"),
    [
        ((1, 1, 1, 1, 1), "has 5 dimensions"),
        ((0,), "impossible shape"),
        ((4, 0), "impossible shape"),
        ((2**63, 2), "impossible shape"),
        ((2**32, 2**32, 2**32, 2**32), "impossible shape"),
        ((2**61,), "truncated: .* bytes are missing; download it again"),
    ],
)
def test_refuses_impossible_shapes(draft: Any, dimensions: tuple[int, ...], match: str) -> None:
    refused(draft(data=bytes(64)).tensor("a", dimensions).build(), ModelFileError, match)


def test_refuses_rows_of_half_blocks(draft: Any) -> None:
    refused(draft(data=bytes(64)).tensor("a", (48, 1), 2).build(), ModelFileError, "rows of 48 elements")
    # 64 elements in all would be whole blocks, but a row has to be.
    refused(draft(data=bytes(64)).tensor("a", (16, 4), 2).build(), ModelFileError, "rows of 16 elements")


def test_refuses_misplaced_tensors(draft: Any) -> None:
    refused(draft(data=bytes(64)).tensor("a", (1,), 0, 16).build(), ModelFileError, "not a multiple of 32")
    overlapping = draft(data=bytes(128)).tensor("b", (8,), 0, 32).tensor("a", (9,), 0, 0)
    refused(overlapping.build(), ModelFileError, "'a' and 'b' overlap")
    same = draft(data=bytes(128)).tensor("b", (8,), 0, 0).tensor("a", (8,), 0, 0)
    refused(same.build(), ModelFileError, "overlap")
    refused(draft(data=bytes(31)).tensor("a", (8,)).build(), ModelFileError, "truncated: 1 bytes are missing")
    refused(draft(data=bytes(32)).tensor("a", (8,), 0, 2**64 - 32).build(), ModelFileError, "truncated")


def test_tells_unknown_types_from_unsupported_ones(draft: Any) -> None:
    refused(
        draft(data=bytes(84)).tensor("w", (256,), 9).build(), UnsupportedModelError, "'w' is of type Q8_1.*F32, F16"
    )
    refused(draft(data=bytes(84)).tensor("w", (256,), 31).build(), UnsupportedModelError, "Q4_0_4_4")
    refused(draft(data=bytes(84)).tensor("w", (256,), 999).build(), ModelFileError, "unknown type 999")
    # types of our own have no number that a file could give
    assert {"F8_E4M3", "INT4_G128"} <= QUANT_TYPES.keys() - GGML_NAMES.values()
    assert all(number == quant.ggml_id for number, quant in BY_GGML_ID.items())
    assert "INT4" not in supported_types()


def test_escapes_names_in_messages(draft: Any) -> None:
    made = draft(data=bytes(64)).tensor("\x1b[31m\n" + "x" * 1000, (48,), 2)
    refused(made.build(), ModelFileError, r"\\x1b\[31m\\nx+\.\.\.")
