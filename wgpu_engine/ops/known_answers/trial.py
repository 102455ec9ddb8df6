"""A trial of kernels on a device: stages to run ops on, and what they read and wrote, brought back as numbers."""

import math
import struct
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat

from wgpu_engine.errors import DeviceError, DeviceLostError, OutOfMemoryError
from wgpu_engine.gpu.device import Buffer, Device, Dispatch
from wgpu_engine.ops.builder import Q8_BLOCK_WORDS, SLOT_WORDS, Activation, PlanBuilder, ScratchPool, row_floats
from wgpu_engine.ops.known_answers.blocks import decoded
from wgpu_engine.ops.state import Row, pack_state
from wgpu_engine.ops.weight import Weight, WeightPart

SLOTS = 2
TOLERANCE = 4e-6
"""of errors, as a part of what was added up; sums of thousands in f32 stay below a tenth of it"""


@dataclass(frozen=True)
class KnownAnswer:
    """Whether a kernel gave the answer that was known beforehand."""

    kernel: str
    passed: bool
    error: str
    """how far the answer was off, as a part of what was added up, or why there was none"""


async def answer(kernel: str, attempt: Callable[[], Awaitable[float]]) -> KnownAnswer:
    """What comes of an attempt, which returns its error. Only the loss of the device and of memory end everything."""
    try:
        error = await attempt()
    except (DeviceLostError, OutOfMemoryError):
        raise
    except DeviceError as refusal:
        return KnownAnswer(kernel, False, str(refusal))
    if error <= TOLERANCE:
        return KnownAnswer(kernel, True, f"{error:.1e}" if error else "0")
    return KnownAnswer(kernel, False, f"off by {error:.1e} where {TOLERANCE:.0e} is allowed")


def largest_error(
    found: Iterable[float], wanted: Iterable[float], size: float, slack: Iterable[float] | None = None
) -> float:
    """The largest error beyond its slack, as a part of `size`; infinite where a number was wanted and none found.

    Where what was wanted is no number itself, anything will do.
    """
    worst = 0.0
    for value, other, free in zip(found, wanted, repeat(0.0) if slack is None else slack, strict=slack is not None):
        if math.isfinite(other):
            error = abs(value - other) - free
            worst = max(worst, error) if math.isfinite(error) else math.inf
    return worst / size if size and math.isfinite(size) else worst


@dataclass(frozen=True)
class Stage:
    """A builder, with the rows that its plan is tried on."""

    builder: PlanBuilder
    rows: tuple[Row, ...]
    outputs: tuple[int, ...]

    def sources(self, outputs_only: bool) -> Sequence[int]:
        """The row that each column of a product reads."""
        return self.outputs if outputs_only else range(len(self.rows))


@dataclass(frozen=True)
class Values:
    """Rows of activations, and by how much rounding them to a codec may have changed each."""

    rows: list[list[float]]
    slack: list[list[float]]


class Trial:
    """Buffers on a device that are freed together, and numbers back from it."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.pool = ScratchPool(device)
        self._held: list[Buffer] = []
        self._weights: dict[tuple[int, int, int], list[list[float]]] = {}
        """rows of weights that were read: by buffer, first row and number"""
        self.slots = self.hold(device.buffer(4 * SLOTS * SLOT_WORDS, "slots"))

    def free(self) -> None:
        self.pool.free()
        for buffer in self._held:
            self.device.free(buffer)
        self._held.clear()

    def hold(self, buffer: Buffer) -> Buffer:
        """Has the buffer freed with the others."""
        self._held.append(buffer)
        return buffer

    def filled(self, data: bytes, label: str) -> Buffer:
        """A buffer that holds `data`."""
        buffer = self.hold(self.device.buffer(len(data), label))
        self.device.write(buffer, 0, data)
        return buffer

    def words(self, values: Sequence[int], label: str) -> Buffer:
        """A buffer of u32."""
        return self.filled(struct.pack(f"<{len(values)}I", *values), label)

    def floats(self, values: Sequence[float], label: str) -> Buffer:
        """A buffer of f32."""
        return self.filled(struct.pack(f"<{len(values)}f", *values), label)

    def builder(self, rows: int, outputs: int) -> PlanBuilder:
        """A builder whose buffers are freed with the others."""
        return PlanBuilder(self.device, rows, outputs, "exact", self.slots, self.pool)

    def stage(self, builder: PlanBuilder, rows: Sequence[Row], outputs: Sequence[int] = ()) -> Stage:
        """A builder with rows in use, which notes calls of ops; its state is freed with the other buffers."""
        self.hold(builder.state)
        builder.calls = []
        self.device.write(builder.state, 0, pack_state(rows, outputs))
        return Stage(builder, tuple(rows), tuple(outputs))

    async def run(self, dispatches: Sequence[Dispatch]) -> None:
        self.device.run(await self.device.plan(dispatches, "known answers"))

    async def read(self, buffer: Buffer, start: int, words: int) -> bytes:
        """Words of a buffer."""
        return await self.device.receive(self.device.read(buffer, 4 * start, 4 * words))

    async def vector(self, buffer: Buffer, count: int) -> list[float]:
        """The first values of an f32 buffer."""
        return list(struct.unpack(f"<{count}f", await self.read(buffer, 0, count)))

    async def rows(self, buffer: Buffer, rows: int, width: int) -> list[list[float]]:
        """The first rows of an f32 buffer whose rows are padded to 16 bytes."""
        stride = row_floats(width)
        data = await self.read(buffer, 0, rows * stride)
        return [list(struct.unpack_from(f"<{width}f", data, 4 * row * stride)) for row in range(rows)]

    async def activations(self, a: Activation, rows: int) -> Values:
        """The first rows of activations, without their norm's factor."""
        if a.codec == "f32":
            values = await self.rows(a.buffer, rows, a.width)
            return Values(values, [[0.0] * a.width] * rows)
        blocks = a.width // 32
        data = await self.read(a.buffer, 0, rows * blocks * Q8_BLOCK_WORDS)
        size = 4 * Q8_BLOCK_WORDS
        found = [_int8_block(data[start : start + size]) for start in range(0, len(data), size)]
        by_row = [found[row * blocks : (row + 1) * blocks] for row in range(rows)]
        return Values(
            [[value for values, _ in row for value in values] for row in by_row],
            [[step / 2 for _, step in row for _ in range(32)] for row in by_row],
        )

    async def weights(self, weight: Weight, features: Sequence[int], port: int = 0) -> dict[int, list[float]]:
        """The values of rows of a weight, put together from their planes."""
        found: dict[int, list[float]] = {}
        for part in weight.parts:
            inside = [feature for feature in features if part.start <= feature < part.stop]
            for first, count in _runs(inside):
                row = port * part.features + first - part.start
                key = (id(part.buffer), row, count)
                if key not in self._weights:
                    self._weights[key] = await self._weight_rows(weight, part, row, count)
                found.update(zip(range(first, first + count), self._weights[key], strict=True))
        return found

    async def _weight_rows(self, weight: Weight, part: WeightPart, row: int, count: int) -> list[list[float]]:
        """Rows of a part's planes as values."""
        quant, planes = weight.quant, []
        for field in quant.fields:
            start, stride = part.planes[field.name]
            data = await self.read(part.buffer, start + row * stride, count * stride)
            planes.append((data, 4 * stride, field.size))
        blocks = range(quant.blocks(weight.k))
        rows = []
        for i in range(count):
            starts = [(data, i * row_bytes, size) for data, row_bytes, size in planes]
            raw = b"".join(data[at + j * size : at + (j + 1) * size] for j in blocks for data, at, size in starts)
            rows.append(decoded(quant, raw)[: weight.k])
        return rows


def _runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """First number and length of each run of neighbours."""
    runs: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if runs and number == sum(runs[-1]):
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((number, 1))
    return runs


def _int8_block(data: bytes) -> tuple[list[float], float]:
    """The values and the scale of a block, laid out as `shaders/activation.wgsl` says; NaN where it contradicts itself.

    The sums must be those of the quants, and the largest quant must be 127.
    """
    *quants, scale, low, high, both = struct.unpack("<32b4f", data)
    sums = (scale * sum(quants[:16]), scale * sum(quants[16:]), scale * sum(quants))
    sound = all(abs(a - b) <= TOLERANCE * 127 * abs(scale) for a, b in zip((low, high, both), sums, strict=True))
    sound = sound and max(map(abs, quants)) == (127 if scale else 0)
    return [scale * quant if sound else math.nan for quant in quants], abs(scale)
