"""Brings tensors from a file onto the device: raw blocks go up in chunks, a shader repacks them into planes."""

import math
import struct
from array import array
from collections.abc import Callable, Sequence
from itertools import cycle, groupby
from math import gcd
from operator import mul

from wgpu_engine.errors import UnsupportedModelError
from wgpu_engine.files.gguf import TensorInfo
from wgpu_engine.files.grids import grid
from wgpu_engine.files.quants import QUANT_TYPES, Field, QuantType
from wgpu_engine.gpu.device import WORKGROUPS_PER_DIMENSION, Buffer, Device, Dispatch, Shader
from wgpu_engine.gpu.wgsl import assemble
from wgpu_engine.ops.builder import ceil_div
from wgpu_engine.ops.weight import Weight, WeightPart, plane_layout, split_features
from wgpu_engine.platform.memory_source import MemorySource

CHUNK = 16 << 20
"""bytes of raw blocks on the device at a time"""
_SHAPE_WORDS = 7
_FORMATS = {"F64": "d", "F32": "f", "F16": "e", "I8": "b", "I16": "h", "I32": "i", "I64": "q"}
"""of `struct`, by type"""


class Loader:
    """Uploads weights and vectors; keeps one chunk of raw blocks on the device until it is closed.

    Args:
        progress: called with the bytes that were read.
        halve: keep matrices of F32 as F16.
    """

    def __init__(self, device: Device, progress: Callable[[int], None], *, halve: bool = False) -> None:
        self.device = device
        self.progress = progress
        self.halve = halve
        self.warnings: list[str] = []
        self._raw = device.buffer(CHUNK, "raw blocks")
        self._shape = device.buffer(4 * _SHAPE_WORDS, "shape of a chunk")
        self._flaws = device.buffer(16, "flaws")
        self._names = [""]

    async def finish(self) -> None:
        """Notes weights that are no numbers in `warnings`, and closes.

        Raises:
            UnsupportedModelError: weights that are too large for what they were to be kept as.
        """
        flaws = await self.device.receive(self.device.read(self._flaws, 0, 16))
        self.close()
        flawed, too_large = struct.unpack_from("<2I", flaws)
        if flawed:
            self._warn(self._names[flawed])
        if too_large:
            raise UnsupportedModelError(
                f"the tensor {self._names[too_large]} holds values beyond 65504, too large for the 16 bits of `fast`: "
                "load the model with precision exact"
            )

    def close(self) -> None:
        """Frees what loading took."""
        for buffer in (self._raw, self._shape, self._flaws):
            self.device.free(buffer)

    def _warn(self, name: str) -> None:
        self.warnings.append(
            f"the tensor {name} holds NaN or infinite values: expect broken output, or get a sound file"
        )

    async def weight(self, name: str, ports: Sequence[Sequence[TensorInfo]], *, experts: int = 1) -> Weight:
        """A weight of one or two ports, each made of tensors [features, k] of one type laid one below the other.

        The features of `experts` experts are one expert's after another's.
        """
        given = ports[0][0].type
        kept = QUANT_TYPES["F16"] if self.halve and given.name == "F32" else given
        return await self._weight(name, ports, experts, kept)

    async def _weight(self, name: str, ports: Sequence[Sequence[TensorInfo]], experts: int, quant: QuantType) -> Weight:
        """The same, kept as `quant`."""
        first = ports[0][0]
        features, k = sum(tensor.rows for tensor in ports[0]) // experts, first.columns
        limit = min(self.device.limits.binding_bytes, self.device.limits.buffer_bytes)
        parts = []
        for start, stop in split_features(quant, features, k, len(ports), limit, experts):
            rows = (stop - start) * len(ports)
            planes, words = plane_layout(quant, k, rows)
            part = WeightPart(start, stop, self.device.buffer(4 * words, name), planes)
            for port, tensors in enumerate(ports):
                at = 0
                for tensor in tensors:
                    low, high = max(start, at), min(stop, at + tensor.rows)
                    if low < high:
                        row = port * (stop - start) + low - start
                        await self._rows(part, quant, row, tensor, low - at, high - low)
                    at += tensor.rows
            if quant.grid:
                self.device.write(part.buffer, 4 * planes["grid"][0], grid(quant.grid))
            parts.append(part)
        return Weight(
            name, quant, features, k, tuple(parts), len(ports), experts, await self._factors(name, ports, experts)
        )

    async def _factors(self, name: str, ports: Sequence[Sequence[TensorInfo]], experts: int) -> Buffer | None:
        """The scales of tensors, for each feature of each port of each expert."""
        if not any(tensor.scale for port in ports for tensor in port):
            return None
        by_port: list[list[float]] = []
        for tensors in ports:
            by_port.append([])
            for tensor in tensors:
                # one for all of the tensor, or one an expert
                scales = await self.floats(tensor.scale) if tensor.scale else [1.0]
                for scale in scales:
                    by_port[-1] += [scale] * (tensor.rows // len(scales))
        features = len(by_port[0]) // experts
        if experts > 1 and features % 4:
            raise UnsupportedModelError(
                f"the experts of {name} have scales and {features} features, not a multiple of 4, which is not "
                "supported: use another version of the model"
            )
        starts = range(0, experts * features, features)
        factors = [factor for start in starts for port in by_port for factor in port[start : start + features]]
        return self._floats(f"{name} scale", factors)

    async def stacked(self, name: str, tensors: Sequence[TensorInfo]) -> tuple[Weight, ...]:
        """The features of all tensors, one below the other: a weight for each run of tensors of the same type."""
        runs = [list(run) for _, run in groupby(tensors, key=lambda tensor: tensor.type.name)]
        return tuple([await self.weight(name if len(runs) == 1 else run[0].name, [run]) for run in runs])

    async def paired(self, name: str, tensors: Sequence[TensorInfo]) -> tuple[Weight, ...]:
        """One weight with a port for each tensor, if the types agree; else a weight each."""
        if len({tensor.type.name for tensor in tensors}) == 1:
            return (await self.weight(name, [[tensor] for tensor in tensors]),)
        return tuple([await self.weight(tensor.name, [[tensor]]) for tensor in tensors])

    async def router(self, tensor: TensorInfo, gain: TensorInfo) -> Weight:
        """An unquantized matrix, its columns times a norm's gain, for what reads the values before that norm."""
        scaled = await self._scaled(tensor, gain)
        self.progress(tensor.nbytes - scaled.nbytes)
        return await self._weight(tensor.name, [[scaled]], 1, scaled.type)

    async def _scaled(self, tensor: TensorInfo, gain: TensorInfo) -> TensorInfo:
        """In memory, as f32."""
        values = map(mul, await self._values(tensor), cycle(await self._values(gain)))
        data = array("f", values).tobytes()
        source = MemorySource(tensor.name, data)
        return TensorInfo(tensor.name, QUANT_TYPES["F32"], tensor.shape, source, 0, len(data), tensor.scale)

    async def floats(self, tensor: TensorInfo) -> list[float]:
        """The values of a small unquantized tensor, as f32."""
        self.progress(tensor.nbytes)
        return await self._values(tensor)

    async def _values(self, tensor: TensorInfo) -> list[float]:
        data = await tensor.source.read(tensor.offset, tensor.nbytes)
        count = tensor.rows * tensor.columns
        if tensor.type.name == "BF16":
            halves = struct.unpack(f"<{count}H", data)
            return list(struct.unpack(f"<{count}f", struct.pack(f"<{count}I", *(half << 16 for half in halves))))
        if tensor.type.name in _FORMATS:
            return array("f", struct.unpack(f"<{count}{_FORMATS[tensor.type.name]}", data)).tolist()
        raise UnsupportedModelError(
            f"the tensor {tensor.name} is {tensor.type.name}, where only unquantized types are supported: convert the "
            "model again, or get another version of it"
        )

    async def vector(self, tensor: TensorInfo) -> Buffer:
        """A float tensor of one dimension as f32, padded with zeros to 16 bytes."""
        return await self.joined_vector([(tensor, tensor.columns)])

    async def joined_vector(self, tensors: Sequence[tuple[TensorInfo | None, int]], *, offset: float = 0.0) -> Buffer:
        """Float tensors one behind the other as f32, `offset` added to each value.

        A missing one is zeros of the length that is given with it.
        """
        values: list[float] = []
        for tensor, size in tensors:
            values += [value + offset for value in await self.floats(tensor)] if tensor else [0.0] * size
        return self._floats(next(tensor.name for tensor, _ in tensors if tensor), values)

    async def convolution(self, taps: TensorInfo, bias: TensorInfo | None) -> Buffer:
        """The taps [width, kernel] and bias [width] of a convolution in the form of `ops/short_conv.py`."""
        values, kernel = await self.floats(taps), taps.columns
        rows = [value for tap in range(kernel) for value in values[tap::kernel]]
        rows += await self.floats(bias) if bias else [0.0] * taps.rows
        return self._floats(taps.name, rows)

    def _floats(self, name: str, values: Sequence[float]) -> Buffer:
        """f32 values on the device; `name` is that of the tensor that they come from."""
        if not all(map(math.isfinite, values)):
            self._warn(name)
        buffer = self.device.buffer(4 * len(values), name)
        self.device.write(buffer, 0, struct.pack(f"<{len(values)}f", *values))
        return buffer

    async def _rows(
        self, part: WeightPart, quant: QuantType, row: int, tensor: TensorInfo, first: int, count: int
    ) -> None:
        """Repacks rows first..first+count of a tensor into rows of the part's planes from `row` on, as `quant`."""
        row_bytes = tensor.type.row_bytes(tensor.columns)
        step = max(1, CHUNK // row_bytes)
        self._names.append(tensor.name)
        for done in range(0, count, step):
            rows = min(step, count - done)
            start = tensor.offset + (first + done) * row_bytes
            await self.device.upload(self._raw, 0, tensor.source, start, rows * row_bytes)
            for field in quant.fields:
                plane_start, plane_row = part.planes[field.name]
                field_bytes = quant.blocks(tensor.columns) * field.size
                shape = (rows, row + done, plane_start, plane_row, field_bytes, row_bytes, len(self._names) - 1)
                self.device.write(self._shape, 0, struct.pack(f"<{_SHAPE_WORDS}I", *shape))
                shader = self._repacking(tensor.type, quant, field)
                await self._run(part.buffer, shader, bool(field.floats), rows * ceil_div(field_bytes, 4))
            self.progress(rows * row_bytes)

    def _repacking(self, given: QuantType, kept: QuantType, field: Field) -> Shader:
        if given is not kept:
            return assemble("repack/halve.wgsl", dialect=self.device.dialect, floats=given.fields[0].floats)
        return assemble(
            "repack/field.wgsl",
            dialect=self.device.dialect,
            label=f"{given.name}.{field.name}",
            granule=gcd(4, field.offset, field.size, given.block_bytes),
            size=field.size,
            offset=field.offset,
            block_bytes=given.block_bytes,
            floats=field.floats,
        )

    async def _run(self, plane: Buffer, shader: Shader, has_floats: bool, words: int) -> None:
        flaws = (self._flaws,) if has_floats else ()
        groups = ceil_div(words, 64)
        grid = (min(groups, WORKGROUPS_PER_DIMENSION), ceil_div(groups, WORKGROUPS_PER_DIMENSION), 1)
        dispatch = Dispatch(shader, (self._raw, plane, self._shape, *flaws), grid)
        self.device.run(await self.device.plan([dispatch], "repack"))
