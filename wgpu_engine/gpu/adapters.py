"""Which adapter to run on: the discrete GPU first, or the one that was asked for by index or name."""

import os
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from wgpu_engine.errors import NoAdapterError
from wgpu_engine.gpu.device import AdapterInfo, Limits

_KINDS = {"DiscreteGPU": "discrete", "IntegratedGPU": "integrated", "CPU": "cpu"}
_PREFERENCE = ("discrete", "integrated", "other", "cpu")
_FEATURES = ("shader-f16", "subgroup", "subgroups", "timestamp-query")
_HOW_TO_GET_ONE = "install a Vulkan driver (Debian: mesa-vulkan-drivers) or run `wgpu-engine doctor`"


def wgpu_module() -> Any:
    """wgpu-py, or its twin over Dawn where WGPU_ENGINE_BACKEND=dawn."""
    # without it every Vulkan loader call on Linux prints a warning
    os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())
    if os.environ.get("WGPU_ENGINE_BACKEND") == "dawn":
        import wgpudawn

        return wgpudawn
    import wgpu

    _set_up(wgpu)
    return wgpu


@cache
def _set_up(wgpu: Any) -> None:
    """Leaves OpenGL out, which costs time and prints errors on machines without a screen; before the first adapter."""
    from wgpu.backends.wgpu_native.extras import set_instance_extras

    dxc = Path(wgpu.__file__).with_name("resources") / "dxcompiler.dll"
    set_instance_extras(
        backends=("Vulkan", "Metal", "DX12"),
        # Direct3D's old compiler lacks subgroups and packed dot products
        dx12_compiler="dxc" if dxc.exists() else "fxc",
    )


def library_version() -> str:
    """Which library drives the adapters, and its version."""
    module = wgpu_module()
    return f"{module.__name__} {module.__version__}"


def _describe(index: int, adapter: Any) -> AdapterInfo:
    info, limits = adapter.info, adapter.limits
    return AdapterInfo(
        index=index,
        name=info.get("device") or info.get("description") or "unknown",
        kind=_KINDS.get(info.get("adapter_type", ""), "other"),
        backend=info.get("backend_type", ""),
        driver=info.get("description", ""),
        features=frozenset(f for f in _FEATURES if f in adapter.features),
        limits=Limits(
            buffer_bytes=limits["max-buffer-size"],
            binding_bytes=limits["max-storage-buffer-binding-size"],
            storage_buffers=limits["max-storage-buffers-per-shader-stage"],
            invocations=limits["max-compute-invocations-per-workgroup"],
            workgroup_bytes=limits["max-compute-workgroup-storage-size"],
        ),
    )


def _enumerate() -> list[tuple[AdapterInfo, Any]]:
    adapters = [a for a in wgpu_module().gpu.enumerate_adapters_sync() if a.info["backend_type"] != "OpenGL"]
    return [(_describe(index, adapter), adapter) for index, adapter in enumerate(adapters)]


def list_adapters() -> list[AdapterInfo]:
    """Every adapter that WebGPU can use here, in the driver's order; without OpenGL's, which compute only in part."""
    return [info for info, _ in _enumerate()]


def choose_adapter(selector: str | int | None = None) -> tuple[AdapterInfo, Any]:
    """The adapter with this index or with this text in its name; without a selector the most capable kind.

    Of a GPU that is there twice, as on Windows, the one with the better compiler (not Direct3D) is taken.

    Raises:
        NoAdapterError: there is none at all, or none that the selector fits.
    """
    found = _enumerate()
    if not found:
        raise NoAdapterError(f"no WebGPU adapter was found: {_HOW_TO_GET_ONE}")
    text = "" if selector is None else str(selector).strip()
    if not text:
        return min(found, key=lambda pair: (_PREFERENCE.index(pair[0].kind), pair[0].backend == "D3D12"))
    for info, adapter in found:
        if text == str(info.index) if text.isdigit() else text.lower() in info.name.lower():
            return info, adapter
    names = ", ".join(f"{info.index}: {info.name}" for info, _ in found)
    raise NoAdapterError(f"no adapter fits --device {text!r}; choose by number or name one of these: {names}")
