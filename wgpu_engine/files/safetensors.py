"""safetensors files: names, types, shapes and byte ranges of tensors, as they stand; no tensor is read.

Every length, offset and shape is checked before it is used, since model files come from strangers. What the types are
good for is not known here: a quantized weight may be integers of which other tensors hold the scales.

Format: README.md of the safetensors repository. It allows no holes and no overlaps: tensors cover the data exactly.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any, TypeGuard

from wgpu_engine.errors import ModelFileError, UnsupportedModelError
from wgpu_engine.files.disguise import guess
from wgpu_engine.files.gguf_window import show
from wgpu_engine.platform.source import ByteSource

MAX_HEADER = 1 << 25
"""bytes; a header takes about 150 a tensor"""
_MAX_TENSORS = 1 << 18
_MAX_DIMENSIONS = 8
_MAX_ELEMENTS = 1 << 62

_TYPES = {
    4: "F4",
    6: "F6_E2M3 F6_E3M2",
    8: "BOOL I8 U8 F8_E4M3 F8_E5M2 F8_E8M0 F8_E4M3FNUZ F8_E5M2FNUZ",
    16: "I16 U16 F16 BF16",
    32: "I32 U32 F32",
    64: "I64 U64 F64 C64",
}
BITS = {name: bits for bits, names in _TYPES.items() for name in names.split()}
"""of an element, by dtype: safetensors/src/tensor.rs, `enum Dtype`"""


@dataclass(frozen=True)
class StoredTensor:
    """A tensor as a safetensors file declares it, its bytes not yet read."""

    name: str
    dtype: str
    """a key of BITS"""
    shape: tuple[int, ...]
    """elements, row-major; a dimension may be 0"""
    source: ByteSource
    offset: int
    """bytes from the start of the source"""
    nbytes: int


@dataclass(frozen=True)
class SafeTensors:
    """What a safetensors file holds."""

    metadata: dict[str, str]
    tensors: dict[str, StoredTensor]
    """in the order of the header"""


class _Twice(ValueError):
    """A key that an object has already."""


async def read_safetensors(source: ByteSource) -> SafeTensors:
    """Read the header of a safetensors file and check all of it.

    Raises:
        ModelFileError: not safetensors, or a damaged or truncated file.
        UnsupportedModelError: a tensor of a type that the format didn't have when this version was written.
    """
    head = bytes(await source.read(0, min(source.size, 1024)))
    if head[8:9] != b"{":
        raise ModelFileError(f"{source.name} is not a safetensors file: {guess(head, source.size)}")
    length = int.from_bytes(head[:8], "little")
    if length > MAX_HEADER:
        raise _damaged(source, f"its header should have {length} bytes, and {MAX_HEADER} is the most")
    if length > source.size - 8:
        raise ModelFileError(
            f"{source.name} is truncated or damaged: its header should end at byte {8 + length}, but the file has "
            f"{source.size}; download it again"
        )
    header = _header(source, bytes(await source.read(8, length)))
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise _damaged(source, "its __metadata__ is more than texts by name")
    if len(header) > _MAX_TENSORS:
        raise _damaged(source, f"it claims to hold {len(header)} tensors, and {_MAX_TENSORS} is the most")
    tensors = {name: _tensor(source, name, entry, 8 + length) for name, entry in header.items()}
    _check_data(source, tensors.values(), 8 + length)
    return SafeTensors(metadata, tensors)


def _damaged(source: ByteSource, what: str) -> ModelFileError:
    return ModelFileError(f"{source.name} is damaged: {what}; download it again")


def _header(source: ByteSource, raw: bytes) -> dict[str, Any]:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in pairs:
            if name in found:
                raise _Twice(name)
            found[name] = value
        return found

    try:
        header = json.loads(raw.decode(), object_pairs_hook=once)
    except _Twice as error:
        raise _damaged(source, f"its header has the key {show(str(error))} twice") from None
    except (ValueError, RecursionError):
        raise _damaged(source, "its header is no JSON") from None
    if not isinstance(header, dict):
        raise _damaged(source, "its header is no JSON object")
    return header


def _tensor(source: ByteSource, name: str, entry: Any, data_start: int) -> StoredTensor:
    what = f"the tensor {show(name)}"
    if not isinstance(entry, dict):
        raise _damaged(source, f"{what} is no JSON object")
    dtype, shape, offsets = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if not isinstance(dtype, str):
        raise _damaged(source, f"{what} has no type")
    if dtype not in BITS:
        raise UnsupportedModelError(
            f"{source.name} can't run: {what} is of type {show(dtype)}, which is not known here; update wgpu_engine or "
            "choose another model"
        )
    if not _are_sizes(shape) or len(shape) > _MAX_DIMENSIONS or prod(shape) > _MAX_ELEMENTS:
        raise _damaged(source, f"{what} has an impossible shape")
    if not _are_sizes(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise _damaged(source, f"{what} has an impossible range of bytes")
    start, end = offsets
    bits = prod(shape) * BITS[dtype]
    if 8 * (end - start) != bits:
        raise _damaged(source, f"{what} of type {dtype} and shape {list(shape)} has {end - start} bytes")
    return StoredTensor(name, dtype, tuple(shape), source, data_start + start, end - start)


def _are_sizes(values: Any) -> TypeGuard[list[int]]:
    return isinstance(values, list) and all(type(value) is int and 0 <= value <= _MAX_ELEMENTS for value in values)


def _check_data(source: ByteSource, tensors: Iterable[StoredTensor], data_start: int) -> None:
    """Refuse tensors that don't cover the data from its first byte to its last, each byte once."""
    by_offset = sorted(tensors, key=lambda tensor: (tensor.offset, tensor.nbytes))
    if by_offset and by_offset[0].offset > data_start:
        raise _damaged(source, f"no tensor has the {by_offset[0].offset - data_start} bytes after its header")
    for before, after in pairwise(by_offset):
        end = before.offset + before.nbytes
        if end > after.offset:
            raise _damaged(source, f"the tensors {show(before.name)} and {show(after.name)} overlap")
        if end < after.offset:
            raise _damaged(source, f"no tensor has the {after.offset - end} bytes before {show(after.name)}")
    end = by_offset[-1].offset + by_offset[-1].nbytes if by_offset else data_start
    if end > source.size:
        raise ModelFileError(f"{source.name} is truncated: {end - source.size} bytes are missing; download it again")
    if end < source.size:
        raise _damaged(source, f"{source.size - end} bytes follow its last tensor")
