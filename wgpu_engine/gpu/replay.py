"""Encodes a plan's dispatches into a compute pass.

wgpu-py wraps every C call of a pass in error handling, three quarters of the time that a decode step takes to encode.
Nothing can go wrong there that recording the plan or finishing the pass doesn't report, so the C functions are called
directly where the library offers them, and through its public methods elsewhere.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

Step = tuple[Any, Any, int, int, int]
"""pipeline, bind group, and the grid"""


def replayer(library: ModuleType) -> Callable[[Any, Sequence[Step]], None]:
    """A function that encodes steps into a pass of this library."""
    try:
        native = import_module(f"{library.__name__}.backends.wgpu_native._ffi")
        lib, null = native.lib, native.ffi.NULL
        set_pipeline = lib.wgpuComputePassEncoderSetPipeline
        set_group = lib.wgpuComputePassEncoderSetBindGroup
        dispatch = lib.wgpuComputePassEncoderDispatchWorkgroups
    except (ImportError, AttributeError):
        return _replay

    def replay(compute: Any, steps: Sequence[Step]) -> None:
        handle = compute._internal
        for pipeline, group, x, y, z in steps:
            set_pipeline(handle, pipeline._internal)
            set_group(handle, 0, group._internal, 0, null)
            dispatch(handle, x, y, z)

    return replay


def _replay(compute: Any, steps: Sequence[Step]) -> None:
    for pipeline, group, x, y, z in steps:
        compute.set_pipeline(pipeline)
        compute.set_bind_group(0, group)
        compute.dispatch_workgroups(x, y, z)
