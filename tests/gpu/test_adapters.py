"""The choice of an adapter, among adapters that are made up."""

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from wgpu_engine.errors import NoAdapterError
from wgpu_engine.gpu import adapters
from wgpu_engine.gpu.adapters import choose_adapter, list_adapters
from wgpu_engine.gpu.device import Limits

LIMITS = {
    "max-buffer-size": 1 << 30,
    "max-storage-buffer-binding-size": 1 << 29,
    "max-storage-buffers-per-shader-stage": 10,
    "max-compute-invocations-per-workgroup": 512,
    "max-compute-workgroup-storage-size": 32768,
    "max-bind-groups": 4,
}


def adapter(name: str, kind: str, backend: str = "Vulkan", features: tuple[str, ...] = ()) -> Any:
    info = {"device": name, "adapter_type": kind, "backend_type": backend, "description": f"driver of {name}"}
    return SimpleNamespace(info=info, limits=LIMITS, features={*features, "depth-clip-control"})


MACHINE = [
    adapter("llvmpipe (LLVM 15.0.6, 256 bits)", "CPU"),
    adapter("Screen via GL", "DiscreteGPU", "OpenGL"),
    adapter("Radeon 780M", "IntegratedGPU", features=("subgroup",)),
    adapter("GeForce RTX 4090", "DiscreteGPU", "D3D12"),
    adapter("GeForce RTX 4090", "DiscreteGPU", features=("shader-f16", "subgroup", "timestamp-query")),
    adapter("Something odd", "Unknown"),
]


@pytest.fixture
def machine(monkeypatch: Any) -> Any:
    """Sets which adapters there are."""

    def set_up(found: list[Any]) -> None:
        library = SimpleNamespace(gpu=SimpleNamespace(enumerate_adapters_sync=lambda: found))
        monkeypatch.setattr(adapters, "wgpu_module", lambda: library)

    set_up(MACHINE)
    return set_up


def test_adapters_are_described(machine: Any) -> None:
    found = list_adapters()
    assert [info.index for info in found] == [0, 1, 2, 3, 4], "OpenGL's are left out and not counted"
    assert [info.kind for info in found] == ["cpu", "integrated", "discrete", "discrete", "other"]
    best = found[3]
    assert (best.name, best.backend, best.driver) == ("GeForce RTX 4090", "Vulkan", "driver of GeForce RTX 4090")
    assert best.features == {"shader-f16", "subgroup", "timestamp-query"}
    assert best.limits == Limits(1 << 30, 1 << 29, 10, 512, 32768)


def test_the_discrete_one_comes_first(machine: Any) -> None:
    info, native = choose_adapter()
    assert (info.index, native) == (3, MACHINE[4])


@pytest.mark.parametrize(
    ("kinds", "chosen"),
    [
        (["CPU", "IntegratedGPU", "DiscreteGPU"], 2),
        (["CPU", "IntegratedGPU", "Unknown"], 1),
        (["CPU", "Unknown"], 1),
        (["CPU"], 0),
        (["CPU", "CPU"], 0),
        (["DiscreteGPU", "DiscreteGPU"], 0),
    ],
)
def test_the_most_capable_kind_is_chosen(kinds: list[str], chosen: int, machine: Any) -> None:
    machine([adapter(f"GPU {i}", kind) for i, kind in enumerate(kinds)])
    assert choose_adapter()[0].index == chosen


@pytest.mark.parametrize(
    ("selector", "index"),
    [(0, 0), ("0", 0), (2, 2), ("4", 4), ("llvmpipe", 0), ("LLVM 15", 0), ("radeon", 1), ("rtx 4090", 2), ("odd", 4)],
)
def test_one_is_asked_for_by_index_or_name(selector: str | int, index: int, machine: Any) -> None:
    assert choose_adapter(selector)[0].index == index


@pytest.mark.parametrize("selector", ["", "  ", None])
def test_an_empty_selector_is_none(selector: str | None, machine: Any) -> None:
    assert choose_adapter(selector)[0].index == 3


@pytest.mark.parametrize("selector", ["5", 5, "17", "voodoo", "-1"])
def test_one_that_is_not_there(selector: str | int, machine: Any) -> None:
    with pytest.raises(NoAdapterError) as caught:
        choose_adapter(selector)
    message = str(caught.value)
    assert repr(str(selector)) in message
    assert "0: llvmpipe" in message and "3: GeForce RTX 4090" in message
    assert "GL" not in message


@pytest.mark.parametrize("found", [[], [MACHINE[1]]], ids=["nothing", "only OpenGL"])
@pytest.mark.parametrize("selector", [None, 0, "radeon"])
def test_none_at_all_comes_with_a_remedy(found: list[Any], selector: Any, machine: Any) -> None:
    machine(found)
    assert list_adapters() == []
    with pytest.raises(NoAdapterError, match=r"mesa-vulkan-drivers.*wgpu-engine doctor"):
        choose_adapter(selector)


def test_an_adapter_without_a_name(machine: Any) -> None:
    bare = adapter("", "CPU")
    machine([bare])
    assert list_adapters()[0].name == "driver of "
    bare.info["description"] = ""
    assert list_adapters()[0].name == "unknown"


def test_real_adapters_are_found(device: Any) -> None:
    assert device.adapter in list_adapters()
    info, _ = choose_adapter(device.adapter.name)
    assert info.name == device.adapter.name
    assert choose_adapter(device.adapter.index)[0] == device.adapter


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere drivers are part of the system")
def test_no_driver_in_a_process_of_its_own() -> None:
    """Where the Vulkan loader finds no driver, the sentence appears and nothing crashes."""
    program = (
        "from wgpu_engine.gpu.adapters import choose_adapter\n"
        "from wgpu_engine.errors import NoAdapterError\n"
        "try:\n    choose_adapter()\n"
        "except NoAdapterError as error:\n    print('refused:', error)\n"
    )
    hidden = {**os.environ, "VK_ICD_FILENAMES": "/nonexistent.json", "VK_DRIVER_FILES": "/nonexistent.json"}
    run = subprocess.run([sys.executable, "-c", program], env=hidden, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("refused: no WebGPU adapter was found")
