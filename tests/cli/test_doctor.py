"""`wgpu-engine doctor`: adapters, known answers and the verdict."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from typer.testing import Result

from wgpu_engine.cli import drivers
from wgpu_engine.errors import DeviceLostError, NoAdapterError
from wgpu_engine.gpu.device import AdapterInfo, Limits

Cli = Callable[..., Result]


@dataclass
class Answer:
    kernel: str
    passed: bool
    error: str


@dataclass
class Machine:
    """What the stand-ins for the driver and the kernels say."""

    adapters: list[AdapterInfo]
    answers: list[Answer] = field(
        default_factory=lambda: [Answer("rms_norm", True, "1e-06"), Answer("rope", True, "0")]
    )
    error: Exception | None = None
    closed: int = 0


GPU = AdapterInfo(
    0, "Blue[bold] GPU", "discrete", "Vulkan", "blue 1.2", frozenset({"shader-f16", "subgroup"}), Limits()
)
CPU = AdapterInfo(1, "Soft Raster", "cpu", "Vulkan", "soft 3.4")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    state = Machine([GPU, CPU])

    def choose(selector: str | None) -> tuple[AdapterInfo, Any]:
        for adapter in state.adapters:
            if selector in (None, str(adapter.index)):
                return adapter, None
        raise NoAdapterError("no adapter fits: choose another")

    def close() -> None:
        state.closed += 1

    async def open_device(selector: int) -> Any:
        return SimpleNamespace(close=close)

    async def run(device: Any, progress: Callable[[str, int, int | None], None]) -> list[Answer]:
        progress("kernels", 1, 2)
        if state.error:
            raise state.error
        return state.answers

    def module(name: str, **members: Any) -> None:
        made = ModuleType(name)
        vars(made).update(members)
        monkeypatch.setitem(sys.modules, name, made)

    module("wgpu_engine.gpu.adapters", list_adapters=lambda: state.adapters, choose_adapter=choose)
    module("wgpu_engine.gpu.native", open_device=open_device)
    module("wgpu_engine.ops.known_answers", run_known_answers=run)
    return state


def test_all_is_well(cli: Cli, machine: Machine) -> None:
    result = cli("doctor", env={"COLUMNS": "120"})
    assert result.exit_code == 0 and machine.closed == 1
    assert "Blue[bold] GPU" in result.stdout and "Soft Raster" in result.stdout
    assert "shader-f16, subgroup" in result.stdout and "128.0 MiB" in result.stdout
    assert "OK: models run rightly on Blue[bold] GPU: all 2 kernels give the known answers." in result.stdout


def test_wrong_numbers_are_no_verdict_to_live_with(cli: Cli, machine: Machine) -> None:
    machine.answers.append(Answer("matmul_q4_k", False, "0.25, of 0.01 allowed"))
    result = cli("doctor", env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert "NOT OK: 1 of 3 kernels give wrong answers on Blue[bold] GPU, first matmul_q4_k." in result.stdout
    assert "WRONG" in result.stdout and "0.25, of 0.01 allowed" in result.stdout
    assert "Update the driver (blue 1.2)" in result.stdout


def test_many_forms_of_a_kernel_are_one_line(cli: Cli, machine: Machine) -> None:
    errors = {"Q4_0 exact": "3e-08", "Q4_1 exact": "2e-07", "Q8_0 fast": "0"}
    machine.answers = [Answer(f"matmul {form}", True, error) for form, error in errors.items()]
    machine.answers += [Answer("rope norm", True, "0"), Answer("matmul Q6_K fast", False, "off by 0.5")]
    lines = [line.split() for line in cli("doctor", env={"COLUMNS": "120"}).stdout.splitlines()]
    assert ["matmul", "4", "3", "2e-07"] in lines and ["rope", "1", "1", "0"] in lines
    assert ["matmul", "Q6_K", "fast", "off", "by", "0.5"] in lines and ["matmul", "Q4_0", "exact", "3e-08"] not in lines


def test_an_adapter_that_fails_is_told_of(cli: Cli, machine: Machine) -> None:
    machine.error = DeviceLostError("the device is gone")
    result = cli("doctor", env={"COLUMNS": "200"})
    assert result.exit_code == 2 and "NOT OK: the device is gone." in result.stdout and machine.closed == 1


def test_a_cpu_is_fine_but_slow(cli: Cli, machine: Machine) -> None:
    result = cli("doctor", "--device", "1", env={"COLUMNS": "200"})
    assert result.exit_code == 0 and "OK: " in result.stdout and "It is no GPU" in result.stdout


def test_no_adapter(cli: Cli, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.adapters = []
    monkeypatch.setattr("wgpu_engine.cli.doctor.remedy", lambda: "install one")
    result = cli("doctor")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "error: no WebGPU adapter was found: install one\n"

    report = json.loads(cli("doctor", "--json").stdout)
    assert report["adapters"] == [] and report["chosen"] is None
    assert report["verdict"] == {"ok": False, "summary": "no WebGPU adapter was found", "remedy": "install one"}


def test_a_device_that_is_not_there(cli: Cli, machine: Machine) -> None:
    result = cli("doctor", "--device", "7")
    assert result.exit_code == 2 and result.stderr == "error: no adapter fits: choose another\n"


def test_json(cli: Cli, machine: Machine) -> None:
    report = json.loads(cli("doctor", "--json").stdout)
    assert [adapter["name"] for adapter in report["adapters"]] == ["Blue[bold] GPU", "Soft Raster"]
    assert report["adapters"][0]["features"] == ["shader-f16", "subgroup"]
    assert report["adapters"][0]["limits"]["storage_buffers"] == 8
    assert report["chosen"] == 0 and report["verdict"]["ok"] is True
    assert report["known_answers"][0] == {"kernel": "rms_norm", "passed": True, "error": "1e-06"}


@pytest.mark.parametrize(
    ("platform", "words"), [("darwin", "Metal"), ("win32", "NVIDIA, AMD or Intel"), ("linux", "mesa-vulkan-drivers")]
)
def test_remedies_by_system(monkeypatch: pytest.MonkeyPatch, platform: str, words: str) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(drivers, "_is_wsl", lambda: False)
    monkeypatch.setattr(drivers, "_of_nvidia", lambda: None)
    monkeypatch.setattr(drivers, "_distribution", lambda: {"debian"})
    assert words in drivers.remedy()


@pytest.mark.parametrize(
    ("family", "words"),
    [
        ({"linuxmint", "ubuntu"}, "apt-get"),
        ({"nobara", "fedora"}, "dnf"),
        ({"arch"}, "pacman"),
        ({"opensuse-leap", "suse"}, "zypper"),
        ({"alpine"}, "glibc"),
        (set(), "Vulkan loader"),
    ],
)
def test_remedies_by_distribution(monkeypatch: pytest.MonkeyPatch, family: set[str], words: str) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(drivers, "_is_wsl", lambda: False)
    monkeypatch.setattr(drivers, "_of_nvidia", lambda: None)
    monkeypatch.setattr(drivers, "_distribution", lambda: family)
    assert words in drivers.remedy()


def test_wsl_is_told_of_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(drivers, "_is_wsl", lambda: True)
    assert "Windows" in drivers.remedy()


def test_what_keeps_a_gpu_from_being_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(drivers, "_is_wsl", lambda: False)
    monkeypatch.setattr(drivers, "_of_nvidia", lambda: None)
    monkeypatch.setattr(drivers, "_RENDER_NODES", tmp_path)

    monkeypatch.setattr(drivers, "_in_container", lambda: True)
    assert "into the container" in drivers.gpu_remedy()
    monkeypatch.setattr(drivers, "_in_container", lambda: False)
    assert drivers.gpu_remedy() == "install the Vulkan driver of its maker"

    (tmp_path / "renderD128").touch()
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert "usermod" in drivers.gpu_remedy() and "renderD128" in drivers.gpu_remedy()
    monkeypatch.setattr("os.access", lambda path, mode: True)
    assert drivers.gpu_remedy() == "install the Vulkan driver of its maker"
