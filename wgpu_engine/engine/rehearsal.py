"""Loads a model onto no device at all, to find what stands in its way: every tensor is asked for and every plan made,
by the code that does it in earnest, but no weight is read and nothing is allocated or compiled.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from wgpu_engine.engine.engine import Engine
from wgpu_engine.engine.memory import context_size
from wgpu_engine.errors import EngineError
from wgpu_engine.files.gguf import TensorInfo, UnreadableTensor
from wgpu_engine.files.quants import QUANT_TYPES, QuantType
from wgpu_engine.gpu.device import AdapterInfo, Buffer, Dispatch, Pending, Plan
from wgpu_engine.models.model import Description
from wgpu_engine.models.registry import describe, load_described
from wgpu_engine.models.tensors import Tensors
from wgpu_engine.ops.kv import KVType
from wgpu_engine.ops.repack import Loader
from wgpu_engine.ops.weight import WeightPart
from wgpu_engine.platform.source import ByteSource

_NO_ADAPTER = AdapterInfo(0, "none", "other", "", "")
_MOST_OBSTACLES = 8
"""sentences; the rest are counted"""
_MOST_STAND_INS = 500
_LONGEST_STAND_IN = 1 << 16
"""values of a vector: hostile settings ask for more"""


@dataclass
class Rehearsal:
    """What came of it."""

    description: Description | None = None
    """None where not even the settings can be read"""
    obstacles: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    """tensors of the file that the model does without"""
    dispatches: int | None = None
    """of a decode step"""


async def rehearse(
    metadata: Mapping[str, Any],
    tensors: Mapping[str, TensorInfo],
    unreadable: Sequence[UnreadableTensor],
    adapter: AdapterInfo | None,
    *,
    ctx_size: int | None,
    precision: Literal["exact", "fast"],
    kv_type: KVType,
) -> Rehearsal:
    """Loads a model and makes its plans, as on `adapter`.

    What is wrong with `unreadable` tensors has been said before: here they pass for sound ones.
    """
    found = Rehearsal()
    known = {**tensors, **{tensor.name: _stand_in(tensor.name, tensor.shape) for tensor in unreadable}}
    for name, tensor in known.items():
        if tensor.offset + tensor.nbytes > tensor.source.size:
            known[name] = _stand_in(name, tensor.shape)
    wanted = _WantedTensors(known)
    device = _NoDevice(adapter or _NO_ADAPTER)
    try:
        found.description = describe(metadata, known)
        loader = _Reader(device, lambda count: None, halve=precision == "fast")
        model = await load_described(device, metadata, wanted, found.description, loader)
        await loader.finish()
        found.warnings = loader.warnings
        if not wanted.faults:
            found.unused = wanted.unused
            size = context_size(found.description, ctx_size)
            engine = Engine(device, model, ctx_size=size, precision=precision, kv_type=kv_type)
            for rows in engine.plan_rows:
                model.forward(engine.builder(rows, 1), engine.cache, engine.bucket(size))
            found.dispatches = None if found.description.encodes else (await engine.decode_plan()).dispatches
    except EngineError as error:
        wanted.faults.append(str(error))
    except AssertionError as error:
        wanted.faults.append(f"its shapes are none that kernels are made for here ({error}): choose another model")
    found.obstacles = wanted.faults[:_MOST_OBSTACLES]
    if len(wanted.faults) > _MOST_OBSTACLES:
        found.obstacles.append(
            f"further tensors that are missing or of another shape: {len(wanted.faults) - _MOST_OBSTACLES}"
        )
    return found


class _WantedTensors(Tensors):
    """Notes which tensors are taken, and what is wrong with some, for which it hands out others that are sound."""

    def __init__(self, tensors: Mapping[str, TensorInfo]) -> None:
        super().__init__(tensors)
        self.faults: list[str] = []

    def take(self, name: str, *shape: int) -> TensorInfo:
        try:
            return super().take(name, *shape)
        except EngineError as error:
            if len(self.faults) >= _MOST_STAND_INS or (len(shape) == 1 and shape[0] > _LONGEST_STAND_IN):
                raise
            # some are asked for twice
            if str(error) not in self.faults:
                self.faults.append(str(error))
            return _stand_in(name, shape)


class _Reader(Loader):
    """Reads vectors, since what is in them may stand in the way, but no rows of weights."""

    async def _rows(
        self, part: WeightPart, quant: QuantType, row: int, tensor: TensorInfo, first: int, count: int
    ) -> None:
        pass

    async def _scaled(self, tensor: TensorInfo, gain: TensorInfo) -> TensorInfo:
        # for its type's sake alone: settings ask for as many values as they like
        await self._values(replace(tensor, shape=(0,), nbytes=0))
        return _stand_in(tensor.name, tensor.shape)


class _Ones:
    """A source of as many f32 of 1 as one likes."""

    name = "nothing"
    size = 1 << 62

    async def read(self, offset: int, length: int) -> bytes:
        return (b"\0\0\x80\x3f" * (length // 4 + 1))[:length]

    def close(self) -> None:
        """Nothing is held."""


def _stand_in(name: str, shape: tuple[int, ...]) -> TensorInfo:
    """A sound tensor of this shape."""
    quant = QUANT_TYPES["F32"]
    tensor = TensorInfo(name, quant, shape, _Ones(), 0, 0)
    return TensorInfo(name, quant, shape, tensor.source, 0, tensor.rows * quant.row_bytes(tensor.columns))


@dataclass(frozen=True)
class _Nothing:
    """A buffer without memory, a plan without kernels, or bytes that are all 0."""

    size: int = 0
    dispatches: int = 0


class _NoDevice:
    """Takes everything that a device takes, and does nothing."""

    library = "none"
    dialect = "naga"
    buffers = 0
    steps_ahead = 0

    def __init__(self, adapter: AdapterInfo) -> None:
        self.adapter = adapter
        self.limits = adapter.limits
        self.subgroup_size = 0

    def buffer(self, size: int, label: str) -> Buffer:
        return _Nothing(size + -size % 16)

    def free(self, buffer: Buffer) -> None:
        """Nothing is held."""

    def write(self, buffer: Buffer, offset: int, data: bytes | bytearray | memoryview) -> None:
        """Nothing is written."""

    async def upload(self, buffer: Buffer, offset: int, source: ByteSource, start: int, length: int) -> None:
        """Nothing is read."""

    async def flush(self) -> None:
        """Nothing is under way."""

    async def plan(self, dispatches: Sequence[Dispatch], label: str) -> Plan:
        return _Nothing(dispatches=len(dispatches))

    def run(self, plan: Plan) -> None:
        """Nothing runs."""

    def run_and_read(self, plan: Plan, buffer: Buffer, offset: int, size: int) -> Pending:
        return _Nothing(size)

    def read(self, buffer: Buffer, offset: int, size: int) -> Pending:
        return _Nothing(size)

    async def receive(self, pending: Pending) -> bytes:
        assert isinstance(pending, _Nothing)
        return bytes(pending.size)

    def close(self) -> None:
        """Nothing is held."""
