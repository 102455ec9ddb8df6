"""What repacking should give: the bytes of each field, side by side in planes."""

import struct
from functools import cache
from random import Random

from wgpu_engine.files.gguf import TensorInfo
from wgpu_engine.files.quants import QUANT_TYPES, QuantType
from wgpu_engine.ops.known_answers.blocks import random_rows
from wgpu_engine.ops.known_answers.trial import Trial
from wgpu_engine.ops.repack import Loader

FEATURES, K = 64, 256
"""of the small matrices; 256 is a whole block of every type"""


class BytesSource:
    """A byte source in memory."""

    def __init__(self, data: bytes) -> None:
        self.name, self.size, self.data = "known answer", len(data), data

    async def read(self, offset: int, length: int) -> bytes:
        return self.data[offset : offset + length]

    def close(self) -> None:
        pass


def small_tensor(quant: QuantType, start: int = 0, stop: int = FEATURES) -> TensorInfo:
    """Rows start..stop of a matrix [FEATURES, K], the same for every call, as a tensor of their own."""
    data = _matrix(quant)
    row = quant.row_bytes(K)
    source = BytesSource(data)
    return TensorInfo(quant.name, quant, (stop - start, K), source, start * row, (stop - start) * row)


@cache
def _matrix(quant: QuantType) -> bytes:
    return random_rows(quant, FEATURES, K, Random(quant.name))


async def repack_error(trial: Trial, loader: Loader, quant: QuantType) -> float:
    """Loads a small matrix of a type; the part of its planes' rows that are wrong."""
    tensor = small_tensor(quant)
    (part,) = (await loader.weight(quant.name, [[tensor]])).parts
    trial.hold(part.buffer)
    data = await trial.read(part.buffer, 0, part.buffer.size // 4)
    raw = await tensor.source.read(0, tensor.nbytes)
    wrong, row_bytes = 0, quant.row_bytes(K)
    for row in range(FEATURES):
        starts = range(row * row_bytes, (row + 1) * row_bytes, quant.block_bytes)
        for field in quant.fields:
            plane, stride = part.planes[field.name]
            firsts = [start + field.offset for start in starts]
            wanted = b"".join(raw[first : first + field.size] for first in firsts)
            at = 4 * (plane + row * stride)
            wrong += data[at : at + len(wanted)] != wanted
    return wrong / (FEATURES * len(quant.fields))


async def halving_error(trial: Trial) -> float:
    """Loads a small matrix of F32 as F16, in which it is exact; the part of the rows that are wrong."""
    loader = Loader(trial.device, lambda count: None, halve=True)
    tensor = small_tensor(QUANT_TYPES["F32"])
    try:
        (part,) = (await loader.weight("halves", [[tensor]])).parts
    finally:
        loader.close()
    trial.hold(part.buffer)
    data = await trial.read(part.buffer, 0, part.buffer.size // 4)
    values = struct.unpack(f"<{FEATURES * K}f", await tensor.source.read(0, tensor.nbytes))
    plane, stride = part.planes["values"]
    wrong = 0
    for row in range(FEATURES):
        wanted = struct.pack(f"<{K}e", *values[row * K : (row + 1) * K])
        at = 4 * (plane + row * stride)
        wrong += data[at : at + len(wanted)] != wanted
    return wrong / FEATURES
