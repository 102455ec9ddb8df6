"""The device in a browser: `navigator.gpu` through web/engine/device.js, which holds everything by number."""

import time
from array import array
from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from weakref import finalize

from wgpu_engine.errors import DeviceError, DeviceLostError, EngineError, NoAdapterError, OutOfMemoryError
from wgpu_engine.gpu.device import AdapterInfo, Buffer, Dispatch, Limits, Pending, Plan, Shader
from wgpu_engine.gpu.probe import probe_subgroup_size
from wgpu_engine.gpu.wgsl import binding_types
from wgpu_engine.platform.browser_source import translated
from wgpu_engine.platform.source import ByteSource

_T = TypeVar("_T")
_CHUNK = 16 << 20
_AHEAD = 3
_SLOW_READ_S = 0.02
_AHEAD_OF_SLOW_READS = 12
"""Firefox takes up to 0.1 s for a read-back, whatever it waits for"""


class BrowserBuffer:
    """A buffer's number and size."""

    def __init__(self, number: int, size: int) -> None:
        self.number = number
        self.size = size


class BrowserPlan:
    """A plan's number and length."""

    def __init__(self, number: int, dispatches: int, label: str) -> None:
        self.number = number
        self.dispatches = dispatches
        self.label = label


class BrowserPending:
    """The ticket of bytes on their way."""

    def __init__(self, ticket: int) -> None:
        self.ticket = ticket


class BrowserDevice:
    """See `wgpu_engine.gpu.device.Device`.

    WebGPU tells of most errors some time after the call; they are raised by the next one, at the latest by `receive`.
    """

    dialect = "tint"

    def __init__(self, gpu: Any) -> None:
        """Takes the `GPU` of web/engine/device.js."""
        self._gpu = gpu
        info = gpu.info.to_py()
        limits = info["limits"]
        self.library = str(info["library"])
        self.limits = Limits(
            buffer_bytes=int(limits["maxBufferSize"]),
            binding_bytes=int(limits["maxStorageBufferBindingSize"]),
            storage_buffers=int(limits["maxStorageBuffersPerShaderStage"]),
            invocations=int(min(limits["maxComputeInvocationsPerWorkgroup"], limits["maxComputeWorkgroupSizeX"])),
            workgroup_bytes=int(limits["maxComputeWorkgroupStorageSize"]),
        )
        features = frozenset(info["features"])
        self.adapter = AdapterInfo(0, info["name"], info["kind"], "WebGPU", info["driver"], features, self.limits)
        self.steps_ahead = _AHEAD
        self.subgroup_size = 0
        self._kernels: dict[str, int] = {}

    @property
    def buffers(self) -> int:
        """How many buffers are alive."""
        return int(self._gpu.buffers)

    def buffer(self, size: int, label: str) -> Buffer:
        size = max(16, size + -size % 16)
        if size > self.limits.buffer_bytes:
            raise OutOfMemoryError(
                f"a buffer of {size >> 20} MiB ({label}) is more than the {self.limits.buffer_bytes >> 20} MiB that "
                "this browser allows: use a smaller model or a smaller context"
            )
        return BrowserBuffer(_guarded(label, lambda: self._gpu.buffer(size, label)), size)

    def free(self, buffer: Buffer) -> None:
        assert isinstance(buffer, BrowserBuffer), "a buffer of another device"
        self._gpu.free(buffer.number)

    def write(self, buffer: Buffer, offset: int, data: bytes | bytearray | memoryview) -> None:
        assert isinstance(buffer, BrowserBuffer), "a buffer of another device"
        _guarded("write", lambda: self._gpu.write(buffer.number, offset, data))

    async def upload(self, buffer: Buffer, offset: int, source: ByteSource, start: int, length: int) -> None:
        assert isinstance(buffer, BrowserBuffer), "a buffer of another device"
        if (stream := getattr(source, "js", None)) is not None:
            try:
                await self._gpu.upload(buffer.number, offset, stream, start, length)
            except Exception as error:
                raise _translated("upload", error) from error
            return
        for done in range(0, length, _CHUNK):
            data = bytes(await source.read(start + done, min(_CHUNK, length - done)))
            self.write(buffer, offset + done, data.ljust(len(data) + -len(data) % 4, b"\0"))
            await self.flush()

    async def flush(self) -> None:
        try:
            await self._gpu.flush()
        except Exception as error:
            raise _translated("flush", error) from error

    async def plan(self, dispatches: Sequence[Dispatch], label: str) -> BrowserPlan:
        words = array("I")
        for dispatch in dispatches:
            numbers = [buffer.number for buffer in dispatch.buffers if isinstance(buffer, BrowserBuffer)]
            words.extend((self._kernel(dispatch.shader), *dispatch.grid, len(numbers), *numbers))
        try:
            number = await self._gpu.plan(words, label)
        except Exception as error:
            raise _translated(label, error) from error
        plan = BrowserPlan(number, len(dispatches), label)
        finalize(plan, self._gpu.forget, number)
        return plan

    def _kernel(self, shader: Shader) -> int:
        number = self._kernels.get(shader.source)
        if number is None:
            types = " ".join(binding_types(shader.source))
            number = _guarded(shader.name, lambda: self._gpu.kernel(shader.name, shader.source, types))
            self._kernels[shader.source] = number
        return number

    def run(self, plan: Plan) -> None:
        assert isinstance(plan, BrowserPlan), "a plan of another device"
        _guarded(plan.label, lambda: self._gpu.run(plan.number))

    def run_and_read(self, plan: Plan, buffer: Buffer, offset: int, size: int) -> BrowserPending:
        assert isinstance(plan, BrowserPlan) and isinstance(buffer, BrowserBuffer), "of another device"
        return BrowserPending(
            _guarded(plan.label, lambda: self._gpu.runAndRead(plan.number, buffer.number, offset, size))
        )

    def read(self, buffer: Buffer, offset: int, size: int) -> BrowserPending:
        assert isinstance(buffer, BrowserBuffer), "a buffer of another device"
        return BrowserPending(_guarded("read", lambda: self._gpu.read(buffer.number, offset, size)))

    async def receive(self, pending: Pending) -> bytes:
        assert isinstance(pending, BrowserPending), "a read of another device"
        try:
            data = await self._gpu.receive(pending.ticket)
        except Exception as error:
            raise _translated("read", error) from error
        return bytes(data.to_bytes())

    async def replay_cost(self, plan: Plan, replays: int) -> float:
        """µs of this thread that a replay takes to be encoded and submitted."""
        assert isinstance(plan, BrowserPlan), "a plan of another device"
        return float(await self._gpu.replayCost(plan.number, replays))

    def close(self) -> None:
        self._gpu.close()


async def open_browser_device(gpu: Any) -> BrowserDevice:
    """The device over a `GPU` of web/engine/device.js, with its subgroups tried."""
    device = BrowserDevice(gpu)
    probe = device.buffer(16, "probe")
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        await device.receive(device.read(probe, 0, 16))
        seconds.append(time.perf_counter() - start)
    device.free(probe)
    if min(seconds) > _SLOW_READ_S:
        device.steps_ahead = _AHEAD_OF_SLOW_READS
    if "subgroups" in device.adapter.features:
        device.subgroup_size = await probe_subgroup_size(device)
    return device


def _guarded(what: str, call: Callable[[], _T]) -> _T:
    try:
        return call()
    except EngineError:
        raise
    except Exception as error:
        raise _translated(what, error) from error


def _translated(what: str, error: Exception) -> Exception:
    """Our exception for one of JavaScript's, of the device or of a source that it reads from."""
    name, text = getattr(error, "name", ""), " ".join(str(getattr(error, "message", error)).split())
    if name == "DeviceLostError":
        return DeviceLostError(f"the GPU device was lost ({text or what}): load the model again")
    if name == "OutOfMemoryError":
        return OutOfMemoryError(f"the GPU is out of memory ({what}): use a smaller model or a smaller context")
    if name == "NoAdapterError":
        return NoAdapterError(text)
    if name == "DeviceError":
        return DeviceError(f"the device refused {what}: {text[:400]}")
    return translated(error)
