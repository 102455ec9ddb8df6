"""A window that slides over the header of a GGUF file: the sans-IO half of the reader.

Parsing is a generator: it yields the range of bytes that it needs next and is sent those bytes, so that the same
code runs over a memory map, an HTTP range or a browser's Blob, keeps no more than a window of it and parses nothing
twice. Every length is checked against the file's size before anything is asked for.
"""

import struct
import sys
from array import array
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from wgpu_engine.errors import ModelFileError

T = TypeVar("T")

Parse: TypeAlias = Generator["Range", bytes, T]
Value: TypeAlias = "int | float | bool | str | array[Any] | list[Any]"

FIRST_WINDOW = 1 << 20
LARGEST_WINDOW = 8 << 20
MAX_HEADER = 1 << 27
"""bytes; the largest vocabularies take about 20 MB"""
MAX_DEPTH = 4
MAX_NESTED = 1 << 18
"""arrays within arrays: so deep, so many in a file"""

BOOL, STRING, ARRAY = 7, 8, 9
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 10: "Q", 11: "q", 12: "d"}
"""value type id → code of `struct` and `array`. GGUF specification, `enum gguf_metadata_value_type`."""
_STRUCTS = {kind: struct.Struct("<" + code) for kind, code in NUMBERS.items()}
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")


@dataclass(frozen=True)
class Range:
    """A request for bytes of the file."""

    offset: int
    length: int


def show(text: str) -> str:
    """A string of the file made fit for a message: escaped and cut."""
    return repr(text if len(text) <= 64 else text[:61] + "...")


class Window:
    """The bytes of the file from `start`, of which those before `at` have been parsed."""

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.size = size
        self.start = 0
        self.at = 0
        self.data = b""
        self._next = FIRST_WINDOW
        self._arrays = 0

    @property
    def offset(self) -> int:
        """Where parsing stands in the file, in bytes."""
        return self.start + self.at

    def damaged(self, what: str) -> ModelFileError:
        return ModelFileError(f"{self.name} is damaged: {what}; download it again")

    def need(self, count: int, what: str) -> Parse[None]:
        """Slide the window so that `count` bytes from here are in it."""
        if self.at + count <= len(self.data):
            return
        if self.offset + count > self.size:
            raise ModelFileError(
                f"{self.name} is truncated or damaged: {what} at byte {self.offset} should end at byte "
                f"{self.offset + count}, but the file has {self.size}; download it again"
            )
        if self.offset + count > MAX_HEADER:
            raise self.damaged(f"its header should be larger than {MAX_HEADER >> 20} MiB")
        length = min(max(count, self._next), self.size - self.offset)
        self._next = min(2 * self._next, LARGEST_WINDOW)
        data = yield Range(self.offset, length)
        self.start, self.at, self.data = self.offset, 0, data

    def u32(self, what: str) -> Parse[int]:
        yield from self.need(4, what)
        self.at += 4
        return int(_U32.unpack_from(self.data, self.at - 4)[0])

    def u64(self, what: str) -> Parse[int]:
        yield from self.need(8, what)
        self.at += 8
        return int(_U64.unpack_from(self.data, self.at - 8)[0])

    def raw(self, count: int, what: str) -> Parse[bytes]:
        yield from self.need(count, what)
        self.at += count
        return self.data[self.at - count : self.at]

    def peek(self, count: int) -> Parse[bytes]:
        """Up to `count` bytes from here, fewer at the end of the file, without passing them."""
        yield from self.need(min(count, self.size - self.offset), "its first bytes")
        return self.data[self.at : self.at + count]

    def name_string(self, what: str) -> Parse[str]:
        """A string that has to be UTF-8: a key or a tensor's name."""
        length = yield from self.u64(what)
        raw = yield from self.raw(length, what)
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise self.damaged(f"{what} at byte {self.offset - length} isn't UTF-8") from None

    def value(self, kind: int, key: str) -> Parse[Value]:
        """A metadata value. Strings that aren't UTF-8 keep their bytes as surrogate escapes."""
        what = f"the value of {show(key)}"
        if kind in NUMBERS:
            unpack = _STRUCTS[kind]
            yield from self.need(unpack.size, what)
            self.at += unpack.size
            number: int | float = unpack.unpack_from(self.data, self.at - unpack.size)[0]
            return number
        if kind == STRING:
            length = yield from self.u64(what)
            raw = yield from self.raw(length, what)
            return raw.decode("utf-8", "surrogateescape")
        if kind == BOOL:
            return (yield from self._bools(1, what))[0]
        if kind == ARRAY:
            return (yield from self._array(key, what, 1))
        raise self.damaged(f"{what} has the unknown type {kind}")

    def _array(self, key: str, what: str, depth: int) -> Parse[Value]:
        kind = yield from self.u32(what)
        count = yield from self.u64(what)
        if kind in NUMBERS:
            numbers: array[Any] = array(NUMBERS[kind])
            numbers.frombytes((yield from self.raw(count * _STRUCTS[kind].size, what)))
            if sys.byteorder == "big":
                numbers.byteswap()
            return numbers
        if kind == STRING:
            return (yield from self._strings(count, what))
        if kind == BOOL:
            return (yield from self._bools(count, what))
        if kind != ARRAY:
            raise self.damaged(f"{what} is an array of the unknown type {kind}")
        if depth == MAX_DEPTH:
            raise self.damaged(f"{what} nests arrays more than {MAX_DEPTH} deep")
        self._room(count, 12, what)
        self._arrays += count
        if self._arrays > MAX_NESTED:
            raise self.damaged(f"{what} and what goes before nest more than {MAX_NESTED} arrays")
        nested: list[Value] = []
        for _ in range(count):
            nested.append((yield from self._array(key, what, depth + 1)))
        return nested

    def _room(self, count: int, each: int, what: str) -> None:
        """Refuse a count of things, of `each` bytes at least, that the file can't hold."""
        if count * each > min(self.size, MAX_HEADER) - self.offset:
            raise ModelFileError(
                f"{self.name} is truncated or damaged: {what} should hold {count} elements, more than there are bytes "
                f"for; download it again"
            )

    def _bools(self, count: int, what: str) -> Parse[list[bool]]:
        raw = yield from self.raw(count, what)
        if raw.strip(b"\0\1"):
            raise self.damaged(f"{what} holds a boolean that is neither 0 nor 1")
        return [byte == 1 for byte in raw]

    def _strings(self, count: int, what: str) -> Parse[list[str]]:
        """Vocabularies: the one place of a header where speed counts."""
        self._room(count, 8, what)
        strings: list[str] = []
        append, unpack = strings.append, _U64.unpack_from
        data, at, end = self.data, self.at, len(self.data)
        for _ in range(count):
            start = at + 8
            at = start + unpack(data, at)[0] if start <= end else end + 1
            if at > end:
                # The string goes past the window: fetch its length, then the rest of it.
                self.at = start - 8
                yield from self.need(8, what)
                length = unpack(self.data, self.at)[0]
                yield from self.need(8 + length, what)
                data, start, end = self.data, self.at + 8, len(self.data)
                at = start + length
            append(data[start:at].decode("utf-8", "surrogateescape"))
        self.at = at
        return strings
