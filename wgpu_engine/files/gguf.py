"""GGUF files, version 2 and 3: metadata and where each tensor's bytes are.

Every count, length, offset, alignment and type is checked before it is used, since model files come from strangers.
Format: the GGUF specification, docs/gguf.md in the ggml repository.
"""

from dataclasses import dataclass, field
from itertools import pairwise
from math import prod

from wgpu_engine.errors import EngineError, ModelFileError, UnsupportedModelError
from wgpu_engine.files.disguise import guess
from wgpu_engine.files.ggml_types import GGML_NAMES, supported_types
from wgpu_engine.files.gguf_window import Parse, Value, Window, show
from wgpu_engine.files.quants import BY_GGML_ID, QuantType
from wgpu_engine.platform.source import ByteSource

__all__ = ["GGUF", "GGUFSurvey", "TensorInfo", "UnreadableTensor", "Value", "read_gguf", "survey_gguf"]

_MAX_KEYS = 1 << 16
_MAX_TENSORS = 1 << 18
_MAX_DIMENSIONS = 4
_MAX_ELEMENTS = 1 << 62
_MAX_ALIGNMENT = 1 << 20
_DEFAULT_ALIGNMENT = 32


@dataclass(frozen=True)
class TensorInfo:
    """A tensor in a file, its bytes not yet read."""

    name: str
    type: QuantType
    shape: tuple[int, ...]
    """elements, row-major: GGUF's order reversed, so that a matrix is [rows, columns]"""
    source: ByteSource
    offset: int
    """bytes from the start of the source"""
    nbytes: int
    scale: "TensorInfo | None" = None
    """one float that all values are multiplied by, where a file has it as a tensor of its own"""

    @property
    def columns(self) -> int:
        """Elements of a row."""
        return self.shape[-1] if self.shape else 1

    @property
    def rows(self) -> int:
        """Rows, over all dimensions but the last."""
        return prod(self.shape[:-1])


@dataclass(frozen=True)
class GGUF:
    """What a GGUF file holds."""

    version: int
    metadata: dict[str, Value]
    """Arrays of numbers are `array.array`, others lists. Bytes that aren't UTF-8 are surrogate escapes."""
    kinds: dict[str, int]
    """GGUF's id of each value's type"""
    alignment: int
    """bytes"""
    tensors: dict[str, TensorInfo]
    """in the order of the file"""


@dataclass(frozen=True)
class UnreadableTensor:
    """A tensor of a type that this version can't read."""

    name: str
    type: str
    """its name, or "type N" where that isn't known either"""
    shape: tuple[int, ...]
    fault: EngineError | None = None
    """why it can't be read"""


@dataclass
class GGUFSurvey:
    """What can be found out of a GGUF file, sound or not."""

    version: int = 0
    metadata: dict[str, Value] = field(default_factory=dict)
    kinds: dict[str, int] = field(default_factory=dict)
    alignment: int = _DEFAULT_ALIGNMENT
    tensors: dict[str, TensorInfo] = field(default_factory=dict)
    """empty where the header breaks off; perhaps beyond the end of the file"""
    unreadable: list[UnreadableTensor] = field(default_factory=list)
    faults: list[EngineError] = field(default_factory=list)
    """what else is wrong"""
    whole: bool = False
    """whether the header was read to its end"""


@dataclass(frozen=True)
class _Entry:
    """A tensor as the header declares it, its offset still relative to the data."""

    name: str
    type: QuantType
    shape: tuple[int, ...]
    offset: int
    nbytes: int


async def read_gguf(source: ByteSource) -> GGUF:
    """Read the header of a GGUF file and check all of it; no tensor is read.

    Raises:
        ModelFileError: not a GGUF, or a damaged or truncated one.
        UnsupportedModelError: a version, byte order or tensor type that this version can't read.
    """
    found = GGUFSurvey()
    await _run(_parse(source, found, strict=True), source)
    return GGUF(found.version, found.metadata, found.kinds, found.alignment, found.tensors)


async def survey_gguf(source: ByteSource) -> GGUFSurvey:
    """Read as much of a GGUF file's header as makes sense; what is wrong is told instead of raised."""
    found = GGUFSurvey()
    try:
        await _run(_parse(source, found, strict=False), source)
    except EngineError as error:
        found.faults.append(error)
    return found


async def _run(parse: Parse[None], source: ByteSource) -> None:
    try:
        wanted = next(parse)
        while True:
            wanted = parse.send(bytes(await source.read(wanted.offset, wanted.length)))
    except StopIteration:
        return


def _parse(source: ByteSource, found: GGUFSurvey, *, strict: bool) -> Parse[None]:
    """Fills `found`; unless `strict`, tensors that can't be read are passed over and their faults noted."""
    window = Window(source.name, source.size)
    found.version = yield from _version(window)
    tensor_count = yield from window.u64("the tensor count")
    key_count = yield from window.u64("the metadata count")
    # The least that an entry takes: a key's length, a type, a byte; a name's length, dimensions, a type, an offset.
    _check_count(window, key_count, _MAX_KEYS, 13, "metadata entries")
    _check_count(window, tensor_count, _MAX_TENSORS, 24, "tensors")

    metadata = found.metadata
    for index in range(key_count):
        key = yield from window.name_string(f"metadata key {index}")
        if key in metadata:
            raise window.damaged(f"it has the metadata key {show(key)} twice")
        found.kinds[key] = yield from window.u32(f"the type of {show(key)}")
        metadata[key] = yield from window.value(found.kinds[key], key)
    alignment = found.alignment = _alignment(window, metadata)

    entries: dict[str, _Entry | None] = {}
    for index in range(tensor_count):
        name, shape, type_id, offset = yield from _declaration(window, index)
        if name in entries:
            raise window.damaged(f"it has the tensor {show(name)} twice")
        try:
            entries[name] = _entry(window, name, shape, type_id, offset)
        except EngineError as error:
            if strict:
                raise
            entries[name] = None
            type_name = GGML_NAMES.get(type_id, f"type {type_id}")
            found.unreadable.append(UnreadableTensor(name, type_name, shape, error))
    found.whole = True
    data_start = -(-window.offset // alignment) * alignment
    readable = [entry for entry in entries.values() if entry is not None]
    found.tensors |= {
        entry.name: TensorInfo(entry.name, entry.type, entry.shape, source, data_start + entry.offset, entry.nbytes)
        for entry in readable
    }
    _check_data(window, readable, data_start, alignment)


def _version(window: Window) -> Parse[int]:
    head = yield from window.peek(1024)
    if not head.startswith(b"GGUF"):
        raise ModelFileError(f"{window.name} is not a GGUF file: {guess(head, window.size)}")
    yield from window.raw(4, "the magic")
    version = yield from window.u32("the version")
    if version in (2, 3):
        return version
    if version and version & 0xFFFF == 0:
        raise UnsupportedModelError(
            f"{window.name} is a big-endian GGUF file: convert it with `gguf-convert-endian FILE little` from the "
            f"Python package gguf"
        )
    remedy = "update wgpu_engine" if version > 3 else "get a newer conversion of the model"
    raise UnsupportedModelError(
        f"{window.name} is a GGUF file of version {version}, and versions 2 and 3 can be read: {remedy}"
    )


def _check_count(window: Window, count: int, most: int, each: int, what: str) -> None:
    if count > most or count * each > window.size:
        raise window.damaged(f"it claims to hold {count} {what} in {window.size} bytes")


def _alignment(window: Window, metadata: dict[str, Value]) -> int:
    alignment = metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
    if type(alignment) is not int or not 0 < alignment <= _MAX_ALIGNMENT or alignment & (alignment - 1):
        raise window.damaged(f"its alignment is {show(str(alignment))}, not a power of two up to {_MAX_ALIGNMENT}")
    return alignment


def _declaration(window: Window, index: int) -> Parse[tuple[str, tuple[int, ...], int, int]]:
    """Name, shape, type and offset of a tensor, as the header has them."""
    name = yield from window.name_string(f"the name of tensor {index}")
    what = f"the tensor {show(name)}"
    dimensions = yield from window.u32(what)
    if dimensions > _MAX_DIMENSIONS:
        raise window.damaged(f"{what} has {dimensions} dimensions, and {_MAX_DIMENSIONS} is the most")
    reversed_shape = []
    for _ in range(dimensions):
        reversed_shape.append((yield from window.u64(what)))
    type_id = yield from window.u32(what)
    offset = yield from window.u64(what)
    return name, tuple(reversed(reversed_shape)), type_id, offset


def _entry(window: Window, name: str, shape: tuple[int, ...], type_id: int, offset: int) -> _Entry:
    what = f"the tensor {show(name)}"
    if 0 in shape or prod(shape) > _MAX_ELEMENTS:
        raise window.damaged(f"{what} has the impossible shape {list(shape)}")
    if type_id not in GGML_NAMES:
        raise window.damaged(f"{what} has the unknown type {type_id}")
    if type_id not in BY_GGML_ID:
        raise UnsupportedModelError(
            f"{window.name} can't run: {what} is of type {GGML_NAMES[type_id]}, and those supported are "
            f"{supported_types()}; choose a file of such a type"
        )
    quant = BY_GGML_ID[type_id]
    columns = shape[-1] if shape else 1
    if columns % quant.block:
        raise window.damaged(f"{what} has rows of {columns} elements, not a multiple of {quant.name}'s {quant.block}")
    return _Entry(name, quant, shape, offset, prod(shape[:-1]) * quant.row_bytes(columns))


def _check_data(window: Window, entries: list[_Entry], data_start: int, alignment: int) -> None:
    """Refuse tensors whose bytes are misaligned, overlap or go past the end of the file."""
    for entry in entries:
        if entry.offset % alignment:
            raise window.damaged(
                f"the tensor {show(entry.name)} begins at {entry.offset}, not a multiple of {alignment}"
            )
    by_offset = sorted(entries, key=lambda entry: entry.offset)
    for before, after in pairwise(by_offset):
        if before.offset + before.nbytes > after.offset:
            raise window.damaged(f"the tensors {show(before.name)} and {show(after.name)} overlap")
    if by_offset:
        missing = data_start + by_offset[-1].offset + by_offset[-1].nbytes - window.size
        if missing > 0:
            raise ModelFileError(f"{window.name} is truncated: {missing} bytes are missing; download it again")
