"""Encodes a plan's dispatches, submits them and waits for bytes that they leave.

wgpu-py wraps every C call in error handling and waits for mapped bytes in a thread of its own, which together take most
of the host's time in a decode step. Where the library offers its C functions they are called directly, with one error
handler round a whole submission; elsewhere its public methods are.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import count
from typing import Any, NamedTuple, Protocol

_MOST_POLLS = 1000
"""a wait returns once the submission is done; a device that is lost may never say so"""


class Copy(NamedTuple):
    """Bytes of a buffer that a submission copies into a staging buffer of this size."""

    source: Any
    offset: int
    staging: Any
    size: int


class Submitter(Protocol):
    """Both take and give the library's own objects and raise its errors."""

    def step(self, pipeline: Any, group: Any, grid: tuple[int, int, int]) -> Any:
        """A dispatch as `submit` takes it; the caller keeps pipeline and group alive."""

    def submit(self, steps: Sequence[Any], copy: Copy | None) -> Any:
        """Submits steps in one pass, then the copy; returns what `receive` waits for."""

    def receive(self, copy: Copy, ticket: Any) -> bytes:
        """Waits for the bytes of a submitted copy; its staging buffer is free afterwards."""


def submitter(library: Any, device: Any) -> Submitter:
    """The fastest way that this library has."""
    try:
        return DirectSubmitter(library, device)
    except (ImportError, AttributeError):
        return MethodSubmitter(device)


class MethodSubmitter:
    """Through the public methods of wgpu-py."""

    def __init__(self, device: Any) -> None:
        self._device, self._queue = device, device.queue

    def step(self, pipeline: Any, group: Any, grid: tuple[int, int, int]) -> Any:
        return pipeline, group, grid

    def submit(self, steps: Sequence[Any], copy: Copy | None) -> Any:
        encoder = self._device.create_command_encoder()
        if steps:
            compute = encoder.begin_compute_pass()
            for pipeline, group, grid in steps:
                compute.set_pipeline(pipeline)
                compute.set_bind_group(0, group)
                compute.dispatch_workgroups(*grid)
            compute.end()
        if copy:
            encoder.copy_buffer_to_buffer(copy.source, copy.offset, copy.staging, 0, copy.size)
        self._queue.submit([encoder.finish()])
        # a plain READ submits once more before it maps, against a bug that a copy submitted just before doesn't meet
        return copy.staging.map_async("READ_NOSYNC") if copy else None

    def receive(self, copy: Copy, ticket: Any) -> bytes:
        ticket.sync_wait()
        data = bytes(copy.staging.read_mapped(copy=False))
        copy.staging.unmap()
        return data


class DirectSubmitter:
    """Through the C functions of wgpu-native."""

    def __init__(self, library: Any, device: Any) -> None:
        backend = f"{library.__name__}.backends.wgpu_native"
        self._lib = lib = import_module(f"{backend}._ffi").lib
        self._ffi = ffi = import_module(f"{backend}._ffi").ffi
        self._errors = import_module(f"{backend}._api").error_handler
        self._device, self._queue = device._internal, device.queue._internal
        self._set_pipeline = lib.wgpuComputePassEncoderSetPipeline
        self._set_group = lib.wgpuComputePassEncoderSetBindGroup
        self._dispatch = lib.wgpuComputePassEncoderDispatchWorkgroups
        self._submit = lib.wgpuQueueSubmitForIndex
        self._numbers = count(1)
        self._mapped: dict[int, int] = {}
        """status of each copy that is done, by number"""
        self._callback = ffi.callback("void(WGPUMapAsyncStatus, WGPUStringView, void *, void *)", self._on_mapped)
        self._mapping = ffi.new("WGPUBufferMapCallbackInfo *")
        self._mapping.mode = lib.WGPUCallbackMode_AllowProcessEvents
        self._mapping.callback = self._callback
        self._commands = ffi.new("WGPUCommandBuffer[1]")
        self._index = ffi.new("WGPUSubmissionIndex *")

    def _on_mapped(self, status: int, message: Any, number: Any, _unused: Any) -> None:
        self._mapped[int(self._ffi.cast("intptr_t", number))] = status

    def step(self, pipeline: Any, group: Any, grid: tuple[int, int, int]) -> Any:
        return (pipeline._internal, group._internal, *grid)

    @contextmanager
    def _checked(self) -> Iterator[None]:
        """Raises what the library notes within the block."""
        self._errors.capture("submission")
        try:
            yield
        finally:
            error = self._errors.release("submission")
        if error:
            raise RuntimeError(error[1])

    def submit(self, steps: Sequence[Any], copy: Copy | None) -> Any:
        lib = self._lib
        # the library ends the process where a recording with an error in it is submitted
        with self._checked():
            commands = self._encode(steps, copy)
        with self._checked():
            self._commands[0] = commands
            index = self._submit(self._queue, 1, self._commands)
            lib.wgpuCommandBufferRelease(commands)
            if not copy:
                return None
            number = next(self._numbers)
            self._mapping.userdata1 = self._ffi.cast("void *", number)
            lib.wgpuBufferMapAsync(copy.staging._internal, lib.WGPUMapMode_Read, 0, copy.size, self._mapping[0])
        return index, number

    def _encode(self, steps: Sequence[Any], copy: Copy | None) -> Any:
        lib, null = self._lib, self._ffi.NULL
        encoder = lib.wgpuDeviceCreateCommandEncoder(self._device, null)
        if steps:
            compute = lib.wgpuCommandEncoderBeginComputePass(encoder, null)
            set_pipeline, set_group, dispatch = self._set_pipeline, self._set_group, self._dispatch
            for pipeline, group, x, y, z in steps:
                set_pipeline(compute, pipeline)
                set_group(compute, 0, group, 0, null)
                dispatch(compute, x, y, z)
            lib.wgpuComputePassEncoderEnd(compute)
            lib.wgpuComputePassEncoderRelease(compute)
        if copy:
            lib.wgpuCommandEncoderCopyBufferToBuffer(
                encoder, copy.source._internal, copy.offset, copy.staging._internal, 0, copy.size
            )
        commands = lib.wgpuCommandEncoderFinish(encoder, null)
        lib.wgpuCommandEncoderRelease(encoder)
        return commands

    def receive(self, copy: Copy, ticket: Any) -> bytes:
        index, number = ticket
        lib = self._lib
        staging = copy.staging._internal
        self._index[0] = index
        polls = 0
        while number not in self._mapped:
            lib.wgpuDevicePoll(self._device, True, self._index)
            polls += 1
            if polls == _MOST_POLLS:
                raise RuntimeError("the device was lost: it never finished what was submitted")
        if self._mapped.pop(number) != lib.WGPUMapAsyncStatus_Success:
            raise RuntimeError("the device was lost before it gave the bytes")
        data = bytes(self._ffi.buffer(lib.wgpuBufferGetConstMappedRange(staging, 0, copy.size), copy.size))
        lib.wgpuBufferUnmap(staging)
        return data
