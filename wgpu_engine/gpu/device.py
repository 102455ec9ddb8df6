"""What the engine asks of a GPU: the interface that native (wgpu-py) and browser devices both implement."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from wgpu_engine.platform.source import ByteSource

WORKGROUPS_PER_DIMENSION = 65535
"""the limit that every WebGPU implementation grants"""


@dataclass(frozen=True)
class Limits:
    """The limits that shape kernels and buffers; defaults are those that WebGPU guarantees."""

    buffer_bytes: int = 256 << 20
    binding_bytes: int = 128 << 20
    storage_buffers: int = 8
    invocations: int = 256
    workgroup_bytes: int = 16 << 10


@dataclass(frozen=True)
class AdapterInfo:
    """An adapter as its driver describes it."""

    index: int
    name: str
    kind: str
    """one of discrete, integrated, cpu, other"""
    backend: str
    driver: str
    features: frozenset[str] = frozenset()
    limits: Limits = field(default_factory=Limits)


class Buffer(Protocol):
    """Device memory, in bytes; zeroed when made."""

    @property
    def size(self) -> int: ...


@dataclass(frozen=True)
class Shader:
    """Assembled WGSL with one entry point `main`; bindings are those of group 0, in order of their numbers."""

    name: str
    source: str


@dataclass(frozen=True)
class Dispatch:
    """One kernel on its buffers, over a grid of workgroups."""

    shader: Shader
    buffers: tuple[Buffer, ...]
    grid: tuple[int, int, int]


class Plan(Protocol):
    """Dispatches recorded once (pipelines and bind groups made), to be replayed."""

    @property
    def dispatches(self) -> int: ...


class Pending(Protocol):
    """Bytes on their way back from the device."""


class Device(Protocol):
    """A WebGPU device. Methods raise DeviceError, DeviceLostError or OutOfMemoryError."""

    adapter: AdapterInfo
    library: str
    """which library drives it, and its version"""
    dialect: str
    """naga or tint"""
    limits: Limits
    steps_ahead: int
    """decode steps worth queueing behind the one whose tokens are awaited: enough to hide a read-back, few enough that
    a stop wastes little"""
    subgroup_size: int
    """lanes that shuffle with each other, in order of the local index; 0 where subgroups can't be used"""

    @property
    def buffers(self) -> int:
        """How many buffers are alive."""

    def buffer(self, size: int, label: str) -> Buffer:
        """A zeroed storage buffer of `size` bytes, rounded up to 16."""

    def free(self, buffer: Buffer) -> None:
        """Gives the buffer's memory back."""

    def write(self, buffer: Buffer, offset: int, data: bytes | bytearray | memoryview) -> None:
        """Queues a small write; offset and length in bytes, multiples of 4."""

    async def upload(self, buffer: Buffer, offset: int, source: ByteSource, start: int, length: int) -> None:
        """Streams a byte range of a source into a buffer; what is staged on the way stays bounded."""

    async def flush(self) -> None:
        """Waits until everything that was submitted is done and its staging memory is free."""

    async def plan(self, dispatches: Sequence[Dispatch], label: str) -> Plan:
        """Compiles what is new, side by side where the API can, and records the dispatches."""

    def run(self, plan: Plan) -> None:
        """Submits one replay of the plan."""

    def run_and_read(self, plan: Plan, buffer: Buffer, offset: int, size: int) -> Pending:
        """Submits one replay and asks for bytes as it leaves them, with the same submit; does not wait."""

    def read(self, buffer: Buffer, offset: int, size: int) -> Pending:
        """Asks for bytes as they are after everything submitted so far; does not wait."""

    async def receive(self, pending: Pending) -> bytes:
        """Waits for what was requested."""

    def close(self) -> None:
        """Frees every buffer and the device."""
