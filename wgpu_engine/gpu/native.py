"""The device on the desktop, through wgpu-py."""

import threading
from collections.abc import Callable, Sequence
from traceback import clear_frames
from typing import Any, TypeVar

from wgpu_engine.errors import DeviceError, DeviceLostError, EngineError, OutOfMemoryError
from wgpu_engine.gpu.adapters import choose_adapter, library_version, wgpu_module
from wgpu_engine.gpu.device import AdapterInfo, Buffer, Dispatch, Limits, Pending, Plan, Shader
from wgpu_engine.gpu.interruption import InterruptionDeferred
from wgpu_engine.gpu.probe import probe_subgroup_size
from wgpu_engine.gpu.submission import Copy, submitter
from wgpu_engine.gpu.wgsl import binding_types
from wgpu_engine.platform.source import ByteSource

UPLOAD_CHUNK = 16 << 20
"""bytes uploaded between two waits: staging memory lasts until a write is done"""

_T = TypeVar("_T")


class NativePlan:
    """Pipelines, bind groups and grids in order."""

    def __init__(self, steps: list[Any], kept: list[Any], label: str) -> None:
        self.steps = steps
        self.kept = kept
        """what the steps refer to"""
        self.label = label

    @property
    def dispatches(self) -> int:
        return len(self.steps)


class NativePending:
    """A mapped copy on its way."""

    def __init__(self, copy: Copy, ticket: Any) -> None:
        self.copy, self.ticket = copy, ticket


class NativeDevice:
    """See `wgpu_engine.gpu.device.Device`. Any thread may close it while another one uses it."""

    def __init__(self, info: AdapterInfo, device: Any, limits: Limits, dialect: str) -> None:
        self.adapter = info
        self.limits = limits
        self.dialect = dialect
        # where steps run on the host's cores a submit waits for the one before it, and what is encoded meanwhile only
        # disturbs that one
        self.steps_ahead = 0 if info.kind == "cpu" else 3
        self.subgroup_size = 0
        self.library = library_version()
        self._wgpu = wgpu_module()
        self._device = device
        self._queue = device.queue
        self._buffers: set[Any] = set()
        self._kernels: dict[str, tuple[Any, Any]] = {}
        self._staging: dict[int, list[Any]] = {}
        self._submitter = submitter(self._wgpu, device)
        self._staged = 0
        # the library ends the process where a buffer is destroyed amid a call that uses it; reentrant, since the
        # garbage collector may close a generator, which makes a call within a call
        self._lock = threading.RLock()
        self._closed = False
        self._fence = self.buffer(16, "fence")

    @property
    def buffers(self) -> int:
        """How many buffers are alive."""
        return len(self._buffers)

    def buffer(self, size: int, label: str) -> Buffer:
        size = max(16, size + -size % 16)
        if size > self.limits.buffer_bytes:
            raise OutOfMemoryError(
                f"a buffer of {size >> 20} MiB ({label}) is more than the {self.limits.buffer_bytes >> 20} MiB that "
                "this adapter allows: use a smaller model or --ctx-size"
            )
        kinds = self._wgpu.BufferUsage
        usage = kinds.STORAGE | kinds.UNIFORM | kinds.COPY_SRC | kinds.COPY_DST
        return self._guard(label, lambda: self._create(label, size, usage))  # type: ignore[no-any-return]

    def _create(self, label: str, size: int, usage: int) -> Any:
        buffer = self._device.create_buffer(label=label, size=size, usage=usage)
        self._buffers.add(buffer)
        return buffer

    def free(self, buffer: Buffer) -> None:
        with self._lock, InterruptionDeferred():
            self._buffers.discard(buffer)
            buffer.destroy()  # type: ignore[attr-defined]

    def write(self, buffer: Buffer, offset: int, data: bytes | bytearray | memoryview) -> None:
        self._guard("write", lambda: self._queue.write_buffer(buffer, offset, data))

    async def upload(self, buffer: Buffer, offset: int, source: ByteSource, start: int, length: int) -> None:
        for done in range(0, length, UPLOAD_CHUNK):
            size = min(UPLOAD_CHUNK, length - done)
            data = await source.read(start + done, size)
            whole = size & ~3
            if whole:
                self.write(buffer, offset + done, data[:whole])
            if size > whole:
                self.write(buffer, offset + done + whole, bytes(data[whole:]).ljust(4, b"\0"))
            self._staged += size
            if self._staged >= UPLOAD_CHUNK:
                await self.flush()

    async def flush(self) -> None:
        # a read-back is the one wait that every backend of the library has right
        await self.receive(self.read(self._fence, 0, 16))
        self._staged = 0

    async def plan(self, dispatches: Sequence[Dispatch], label: str) -> NativePlan:
        recorded = [self._record(dispatch) for dispatch in dispatches]
        steps = [
            self._submitter.step(*kept, dispatch.grid) for kept, dispatch in zip(recorded, dispatches, strict=True)
        ]
        return NativePlan(steps, recorded, label)

    def _record(self, dispatch: Dispatch) -> tuple[Any, Any]:
        """Pipeline and bind group."""
        pipeline, layout = self._kernel(dispatch.shader)
        entries = [
            {"binding": number, "resource": {"buffer": buffer, "offset": 0, "size": buffer.size}}
            for number, buffer in enumerate(dispatch.buffers)
        ]
        name = dispatch.shader.name
        group = self._guard(name, lambda: self._device.create_bind_group(label=name, layout=layout, entries=entries))
        return pipeline, group

    def _kernel(self, shader: Shader) -> tuple[Any, Any]:
        kernel = self._kernels.get(shader.source)
        if kernel is None:
            kernel = self._kernels[shader.source] = self._guard(shader.name, lambda: self._compile(shader))
        return kernel

    def _compile(self, shader: Shader) -> tuple[Any, Any]:
        device = self._device
        types = binding_types(shader.source)
        layout = device.create_bind_group_layout(
            label=shader.name,
            entries=[
                {"binding": number, "visibility": self._wgpu.ShaderStage.COMPUTE, "buffer": {"type": kind}}
                for number, kind in enumerate(types)
            ],
        )
        module = device.create_shader_module(label=shader.name, code=shader.source)
        pipeline = device.create_compute_pipeline(
            label=shader.name,
            layout=device.create_pipeline_layout(bind_group_layouts=[layout]),
            compute={"module": module, "entry_point": "main"},
        )
        return pipeline, layout

    def run(self, plan: Plan) -> None:
        assert isinstance(plan, NativePlan), "a plan of another device"
        self._guard(plan.label, lambda: self._submitter.submit(plan.steps, None))

    def run_and_read(self, plan: Plan, buffer: Buffer, offset: int, size: int) -> NativePending:
        assert isinstance(plan, NativePlan), "a plan of another device"
        return self._guard(plan.label, lambda: self._read(plan.steps, buffer, offset, size))

    def read(self, buffer: Buffer, offset: int, size: int) -> NativePending:
        return self._guard("read", lambda: self._read((), buffer, offset, size))

    def _read(self, steps: Sequence[Any], buffer: Buffer, offset: int, size: int) -> NativePending:
        spare = self._staging.setdefault(size, [])
        if spare:
            staging = spare.pop()
        else:
            usage = self._wgpu.BufferUsage
            staging = self._create("read", size, usage.MAP_READ | usage.COPY_DST)
        copy = Copy(buffer, offset, staging, size)
        return NativePending(copy, self._submitter.submit(steps, copy))

    async def receive(self, pending: Pending) -> bytes:
        assert isinstance(pending, NativePending), "a read of another device"
        return self._guard("read", lambda: self._receive(pending))

    def _receive(self, pending: NativePending) -> bytes:
        copy = pending.copy
        data = self._submitter.receive(copy, pending.ticket)
        if copy.size <= 1 << 20:
            self._staging[copy.size].append(copy.staging)
        else:
            self.free(copy.staging)
        return data

    def close(self) -> None:
        with self._lock, InterruptionDeferred():
            self._closed = True
            for buffer in self._buffers:
                buffer.destroy()
            self._buffers.clear()
            self._staging.clear()
            self._kernels.clear()
            self._device.destroy()

    def _guard(self, what: str, call: Callable[[], _T]) -> _T:
        """Makes a call to the library while the device stays open, and turns the library's errors into ours.

        One class of these stands for many kinds, told apart by their text.
        """
        with self._lock, InterruptionDeferred():
            if self._closed:
                # the library would wait for ever, or end the process
                raise DeviceLostError("the GPU device was closed: load the model again")
            return self._translated(what, call)

    def _translated(self, what: str, call: Callable[[], _T]) -> _T:
        try:
            return call()
        except (EngineError, KeyboardInterrupt):
            raise
        except Exception as error:
            # the library's frames hold views of the data, in cycles that CPython 3.11 may crash on when it collects
            clear_frames(error.__traceback__)
            text = " ".join(str(error).split())
            if "lost" in text.lower() or "destroyed" in text.lower():
                raise DeviceLostError(f"the GPU device was lost ({what}): load the model again") from error
            if "memory" in text.lower() and "out of" in text.lower():
                raise OutOfMemoryError(
                    f"the adapter is out of memory ({what}): use a smaller model or --ctx-size"
                ) from error
            raise DeviceError(f"the device refused {what}: {text[:400]}") from error


async def open_device(selector: str | int | None = None, limits: Limits | None = None) -> NativeDevice:
    """Opens an adapter with everything that it offers, or with `limits` where tests force smaller ones.

    Raises:
        NoAdapterError: no adapter fits the selector.
        DeviceError: the driver refuses to open it.
    """
    with InterruptionDeferred():
        info, adapter = choose_adapter(selector)
    limits = limits or info.limits
    features = [f for f in ("shader-f16", "subgroup", "subgroups") if f in info.features]
    try:
        with InterruptionDeferred():
            device = adapter.request_device_sync(
                label="wgpu_engine",
                required_features=features,
                required_limits={
                    "max-buffer-size": limits.buffer_bytes,
                    "max-storage-buffer-binding-size": limits.binding_bytes,
                    "max-storage-buffers-per-shader-stage": limits.storage_buffers,
                    "max-compute-invocations-per-workgroup": limits.invocations,
                    "max-compute-workgroup-storage-size": limits.workgroup_bytes,
                },
            )
    except Exception as error:
        text = " ".join(str(error).split())[:400]
        raise DeviceError(f"the adapter {info.name} can't be opened ({text}): choose another with --device") from error
    dialect = "tint" if wgpu_module().__name__ == "wgpudawn" else "naga"
    native = NativeDevice(info, device, limits, dialect)
    if features:
        native.subgroup_size = await probe_subgroup_size(native)
    return native
