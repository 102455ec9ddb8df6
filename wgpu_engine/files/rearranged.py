"""Tensors whose bytes lie in another order in their file: transposed, or with their rows in another order.

Nothing is copied until it is read.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Literal

from wgpu_engine.errors import ModelFileError, UnsupportedModelError
from wgpu_engine.files.gguf import TensorInfo
from wgpu_engine.files.gguf_window import show
from wgpu_engine.platform.source import ByteSource

_WORDS: dict[int, Literal["H", "I"]] = {2: "H", 4: "I"}
"""of memoryviews, by bytes of an element"""


def transposed(tensor: TensorInfo) -> TensorInfo:
    """A matrix [n, k] as [k, n].

    Raises:
        UnsupportedModelError: its elements lie in blocks.
    """
    size = tensor.type.block_bytes
    if tensor.type.block != 1 or size not in _WORDS:
        raise UnsupportedModelError(
            f"{tensor.source.name} stores {show(tensor.name)} transposed and as {tensor.type.name}, which is not "
            "supported: use a model of F32, F16 or BF16"
        )
    source = _Transposed(tensor, _WORDS[size])
    return replace(tensor, shape=(tensor.columns, tensor.rows), source=source, offset=0)


def with_rows(tensor: TensorInfo, runs: Sequence[tuple[int, int]]) -> TensorInfo:
    """A matrix, or a vector, of other rows: runs of (first, count), one behind the other, as many as it has."""
    size = tensor.nbytes // tensor.shape[0]
    assert sum(count for _, count in runs) == tensor.shape[0], "rows are neither lost nor added"
    pieces = [(tensor.offset + first * size, count * size) for first, count in runs]
    return replace(tensor, source=_Pieces(tensor.source, pieces), offset=0)


class _Transposed:
    """A byte source over the columns of a matrix, one behind the other."""

    def __init__(self, tensor: TensorInfo, word: Literal["H", "I"]) -> None:
        self.name = tensor.source.name
        self.size = tensor.nbytes
        self._tensor = tensor
        self._word = word

    async def read(self, offset: int, length: int) -> bytes:
        _check(self, offset, length)
        tensor = self._tensor
        data = memoryview(await tensor.source.read(tensor.offset, tensor.nbytes)).cast("B").cast(self._word)
        size = tensor.rows * tensor.type.block_bytes
        first, end = offset // size, -(-(offset + length) // size)
        found = b"".join(data[column :: tensor.columns].tobytes() for column in range(first, end))
        start = offset - first * size
        return found[start : start + length]

    def close(self) -> None:
        """The file is closed by whoever opened it."""


class _Pieces:
    """A byte source over runs of bytes of another, one behind the other."""

    def __init__(self, source: ByteSource, pieces: Sequence[tuple[int, int]]) -> None:
        self.name = source.name
        self._source = source
        self._pieces = pieces
        self._ends = list(accumulate(length for _, length in pieces))
        self.size = self._ends[-1]

    async def read(self, offset: int, length: int) -> bytes:
        _check(self, offset, length)
        found = []
        for (start, size), end in zip(self._pieces, self._ends, strict=True):
            low, high = max(offset, end - size), min(offset + length, end)
            if low < high:
                found.append(await self._source.read(start + low - (end - size), high - low))
        return b"".join(found)

    def close(self) -> None:
        """The file is closed by whoever opened it."""


def _check(source: ByteSource, offset: int, length: int) -> None:
    if offset < 0 or length < 0 or offset + length > source.size:
        raise ModelFileError(
            f"{source.name} has a tensor of {source.size} bytes and bytes {offset} to {offset + length} of it were "
            "asked for: download the model again"
        )
