"""Rows of a quantized matrix as blocks that the loader takes, made from a published layout as they are asked for.

For desktops: NumPy does the work, and is imported where it is needed.
"""

from typing import TYPE_CHECKING, Any, Protocol

from wgpu_engine.errors import ModelFileError
from wgpu_engine.files.gguf import TensorInfo
from wgpu_engine.files.gguf_window import show
from wgpu_engine.files.quants import QuantType
from wgpu_engine.files.safetensors import StoredTensor

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_BATCH = 1 << 20
"""elements that are taken apart at a time, which bounds the memory that takes"""
_NUMPY_TYPES = {"F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "U32": "<u4", "I8": "i1"}
"""by dtype of safetensors; bytes of other types are taken as they are"""


class Rows(Protocol):
    """A matrix whose rows can be made into blocks."""

    @property
    def quant(self) -> QuantType: ...

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns, in elements."""

    async def blocks(self, first: int, count: int) -> "NDArray[np.uint8]":
        """The bytes of rows first..first+count, [count, row bytes].

        Raises:
            ModelFileError: a scale is no number.
        """


class PackedSource:
    """A byte source over the blocks of all rows, one row behind the other; no more than a few rows are held."""

    def __init__(self, name: str, rows: Rows) -> None:
        self.name = name
        self._rows = rows
        self._row_bytes = rows.quant.row_bytes(rows.shape[1])
        self.size = rows.shape[0] * self._row_bytes

    async def read(self, offset: int, length: int) -> memoryview:
        """Blocks made anew: `length` bytes from `offset`. Raises as `Rows.blocks` does."""
        if offset < 0 or length < 0 or offset + length > self.size:
            raise ModelFileError(
                f"{self.name} has {self.size} bytes and bytes {offset} to {offset + length} were asked for: "
                "download the model again"
            )
        out = bytearray(length)
        row, end = offset // self._row_bytes, -(-(offset + length) // self._row_bytes)
        step = max(1, _BATCH // self._rows.shape[1])
        while row < end:
            count = min(step, end - row)
            start = row * self._row_bytes - offset
            data = (await self._rows.blocks(row, count)).reshape(-1).data
            low, high = max(0, -start), min(len(data), length - start)
            out[start + low : start + high] = data[low:high]
            row += count
        return memoryview(out)

    def close(self) -> None:
        """The files are closed by whoever opened them."""


def packed_tensor(name: str, rows: Rows, file: str) -> TensorInfo:
    """Rows as a tensor like those of files; `file` is what to call their source in a message."""
    source = PackedSource(file, rows)
    return TensorInfo(name, rows.quant, rows.shape, source, 0, source.size)


async def read_rows(tensor: StoredTensor, first: int, count: int) -> "NDArray[Any]":
    """Rows of a matrix, or elements of a vector, as an array; without a copy where the source needs none."""
    each = tensor.nbytes // tensor.shape[0]
    return await _read(tensor, first * each, (count, *tensor.shape[1:]), count * each)


async def read_all(tensor: StoredTensor) -> "NDArray[Any]":
    """A whole tensor as an array of its shape."""
    return await _read(tensor, 0, tensor.shape, tensor.nbytes)


async def _read(tensor: StoredTensor, start: int, shape: tuple[int, ...], nbytes: int) -> "NDArray[Any]":
    import numpy as np

    data = await tensor.source.read(tensor.offset + start, nbytes)
    return np.frombuffer(data, _NUMPY_TYPES.get(tensor.dtype, "u1")).reshape(shape)


def scales_of(tensor: StoredTensor, values: "NDArray[Any]") -> "NDArray[np.float32]":
    """Values of a tensor of F32, F16 or BF16 as f32.

    Raises:
        ModelFileError: one is NaN or infinite.
    """
    import numpy as np

    if tensor.dtype == "BF16":
        values = (values.astype("<u4") << 16).view("<f4")
    if not np.isfinite(values).all():
        raise ModelFileError(
            f"{tensor.source.name} is damaged: the tensor {show(tensor.name)} holds a scale that is no number; "
            "download it again"
        )
    return values.astype(np.float32)


def padded(values: "NDArray[Any]", columns: int) -> "NDArray[Any]":
    """Rows [count, …] with zeros behind up to `columns`."""
    import numpy as np

    missing = columns - values.shape[1]
    return np.pad(values, ((0, 0), (0, missing))) if missing else values


def as_bytes(values: "NDArray[Any]") -> "NDArray[np.uint8]":
    """The last axis of little-endian values as bytes."""
    import numpy as np

    return np.ascontiguousarray(values).view(np.uint8)
