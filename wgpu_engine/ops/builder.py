"""The builder that ops add their dispatches to, and the few buffers that every plan shares.

A plan is for up to `rows` token rows. What changes between steps lies in two buffers that shaders read:

- `state`, of the plan, written by the host before a step (see `ops/state.py`). A token or position of FROM_SLOT is
  taken from the row's slot, so that decode steps can be queued without a write.
- `slots`, of the engine: SLOT_WORDS words a sequence slot (see `shaders/state.wgsl`), advanced by the sampler.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, cast

from wgpu_engine.gpu.device import WORKGROUPS_PER_DIMENSION, Buffer, Device, Dispatch, Shader
from wgpu_engine.gpu.wgsl import assemble, binding_types
from wgpu_engine.ops.state import state_bytes

Codec = Literal["f32", "q8"]
"""how activations are kept: floats, or int8 blocks of 32 with a scale and sums (`shaders/activation.wgsl`)"""

SLOT_WORDS = 16
Q8_BLOCK_WORDS = 12

_P = ParamSpec("_P")
_T = TypeVar("_T")


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


@dataclass(frozen=True)
class Activation:
    """Activations [rows, width] on the device.

    Where `squares` is set, the RMS norm's factor is still to be applied: it holds, for each row, sums of squares of 32
    values each, and readers multiply their results by 1 / sqrt(sum / width + eps). The norm's gain is in already.
    """

    buffer: Buffer
    width: int
    codec: Codec
    squares: Buffer | None = None
    eps: float = 0.0


@dataclass(frozen=True)
class OpCall:
    """A call of an op on a builder that notes them."""

    op: str
    arguments: Mapping[str, Any]
    """by the names of the op's parameters"""
    result: Any
    dispatches: tuple[Dispatch, ...]
    """what it added"""


class ScratchPool:
    """Buffers that plans share, since one runs at a time: a label and size always mean the same buffer."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._buffers: dict[tuple[str, int], Buffer] = {}

    def buffer(self, size: int, label: str) -> Buffer:
        buffer = self._buffers.get((label, size))
        if buffer is None:
            buffer = self._buffers[label, size] = self.device.buffer(size, label)
        return buffer

    def table(self, data: bytes, label: str) -> Buffer:
        """A buffer that holds `data`, which nobody overwrites; a label always means the same."""
        known = (label, len(data)) in self._buffers
        buffer = self.buffer(len(data), label)
        if not known:
            self.device.write(buffer, 0, data)
        return buffer

    def free(self) -> None:
        for buffer in self._buffers.values():
            self.device.free(buffer)
        self._buffers.clear()


@dataclass
class PlanBuilder:
    """Collects the dispatches of one plan."""

    device: Device
    rows: int
    """token rows that the plan has room for"""
    outputs: int
    """rows of logits that the plan has room for"""
    precision: Literal["exact", "fast"]
    slots: Buffer
    pool: ScratchPool
    tuning: Mapping[Any, Any] = field(default_factory=dict)
    """the fastest variant of each problem that the tuner has timed on this adapter"""
    trials: dict[Any, dict[Any, list[Dispatch]]] | None = None
    """where the dispatches of every variant of every problem are collected, for the tuner"""
    state: Buffer = field(init=False)
    dispatches: list[Dispatch] = field(default_factory=list)
    calls: list[OpCall] | None = None
    """ops that were called, where somebody wants to know"""

    def __post_init__(self) -> None:
        self.state = self.device.buffer(state_bytes(self.rows, self.outputs), "state")

    @property
    def shuffle(self) -> bool:
        """Whether eight lanes can pass values to each other without workgroup memory."""
        return self.device.subgroup_size >= 8

    def buffer(self, size: int, label: str) -> Buffer:
        """Scratch memory; a later request of the same label and size, in this plan or another, is the same memory."""
        return self.pool.buffer(size, label)

    def floats(self, width: int, label: str, rows: int | None = None) -> Buffer:
        """Scratch [rows, width] in f32; rows are padded to 16 bytes."""
        return self.buffer(4 * (rows or self.rows) * row_floats(width), label)

    def logits(self, vocab: int) -> Buffer:
        """Scratch [outputs, vocab] in f32; rows are padded to 16 bytes."""
        return self.buffer(4 * self.outputs * row_floats(vocab), "logits")

    def activation(self, width: int, codec: Codec, label: str, rows: int | None = None) -> Buffer:
        """Scratch for activations [rows, width] in a codec."""
        if codec == "f32":
            return self.floats(width, label, rows)
        assert width % 32 == 0, "int8 activations come in blocks of 32"
        return self.buffer(4 * (rows or self.rows) * (width // 32) * Q8_BLOCK_WORDS, label)

    def squares(self, width: int) -> Buffer:
        """Scratch for the sums of squares of an activation of this width."""
        return self.buffer(4 * self.rows * square_words(width), "squares")

    def shader(self, template: str, label: str, **values: Any) -> Shader:
        """Assembles a template; `values` are joined by what every template may ask for."""
        return assemble(
            template,
            dialect=self.device.dialect,
            label=label,
            shuffle=self.shuffle,
            **values,
        )

    def add(self, shader: Shader, buffers: tuple[Buffer, ...], grid: tuple[int, int, int]) -> None:
        assert max(grid) <= WORKGROUPS_PER_DIMENSION, f"{shader.name}: grid {grid} is too large"
        assert len(set(map(id, buffers))) == len(buffers), f"{shader.name}: a buffer is bound twice"
        uniform = binding_types(shader.source).count("uniform")
        assert len(buffers) - uniform <= self.device.limits.storage_buffers, f"{shader.name}: too many buffers"
        self.dispatches.append(Dispatch(shader, buffers, grid))


def op(function: Callable[Concatenate[PlanBuilder, _P], _T]) -> Callable[Concatenate[PlanBuilder, _P], _T]:
    """Has calls of an op noted in `calls`; what it calls itself is part of it."""
    signature = inspect.signature(function)

    @wraps(function)
    def noted(builder: PlanBuilder, *args: _P.args, **keywords: _P.kwargs) -> _T:
        calls, builder.calls = builder.calls, None
        start = len(builder.dispatches)
        try:
            result = function(builder, *args, **keywords)
        finally:
            builder.calls = calls
        if calls is not None:
            bound = signature.bind(builder, *args, **keywords)
            bound.apply_defaults()
            added = tuple(builder.dispatches[start:])
            calls.append(OpCall(function.__name__, bound.arguments, result, added))
        return result

    return cast(Callable[Concatenate[PlanBuilder, _P], _T], noted)


def row_floats(width: int) -> int:
    """Floats in a padded row."""
    return width + -width % 4


def square_words(width: int) -> int:
    """Words in a row of sums of squares: one for 32 values, padded to 16 bytes."""
    return row_floats(ceil_div(width, 32))
