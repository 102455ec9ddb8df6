"""Subgroups are used only where a trial shows that lanes shuffle and lie in order."""

import struct
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from wgpu_engine.errors import DeviceError, DeviceLostError
from wgpu_engine.gpu.probe import probe_subgroup_size
from wgpu_engine.platform.drive import drive

THREADS = 64
Lane = Callable[[int], tuple[int, int, int]]


class FakeDevice:
    """A device whose probe kernel says what a test wants it to say."""

    dialect = "naga"

    def __init__(self, lane: Lane, fail_in: str = "", error: type[Exception] = DeviceError) -> None:
        self.lane, self.fail_in, self.error = lane, fail_in, error
        self.buffers: list[Any] = []

    def _step(self, name: str) -> None:
        if name == self.fail_in:
            raise self.error(name)

    def buffer(self, size: int, label: str) -> Any:
        self.buffers.append(SimpleNamespace(size=size))
        return self.buffers[-1]

    def free(self, buffer: Any) -> None:
        self.buffers.remove(buffer)

    async def plan(self, dispatches: Any, label: str) -> str:
        self._step("plan")
        (dispatch,) = dispatches
        assert dispatch.buffers == tuple(self.buffers) and "subgroup" in dispatch.shader.source
        return "plan"

    def run_and_read(self, plan: str, buffer: Any, offset: int, size: int) -> int:
        self._step("run")
        assert offset == 0 and size <= buffer.size
        return size

    async def receive(self, pending: int) -> bytes:
        self._step("receive")
        words = [word for thread in range(THREADS) for word in self.lane(thread)]
        assert pending == 4 * len(words)
        return struct.pack(f"<{len(words)}I", *words)


def sound(size: int) -> Lane:
    return lambda thread: (size, thread % size, thread ^ 3)


def probe(device: FakeDevice) -> int:
    found: int = drive(probe_subgroup_size(device))  # type: ignore[arg-type]
    assert device.buffers == [], "the probe's buffer is left behind"
    return found


@pytest.mark.parametrize("size", [4, 8, 16, 32, 64])
def test_sound_subgroups(size: int) -> None:
    assert probe(FakeDevice(sound(size))) == size


@pytest.mark.parametrize(
    "lane",
    [
        lambda thread: (0, 0, 0),
        lambda thread: (1, 0, thread),
        lambda thread: (2, thread % 2, thread ^ 3),
        lambda thread: (32, thread % 16, thread ^ 3),
        lambda thread: (8, 7 - thread % 8, thread ^ 3),
        lambda thread: (8, thread // 8, thread ^ 3),
        lambda thread: (8, thread % 8, thread),
        lambda thread: (8, thread % 8, 0),
        lambda thread: (8 if thread < 32 else 16, thread % 8, thread ^ 3),
        lambda thread: (8, thread % 8, thread ^ 3 if thread != 63 else 0),
    ],
    ids=[
        "none", "one lane", "two lanes", "lanes of another size", "backwards", "strided", "no shuffle", "zeros",
        "unequal sizes", "last one wrong",
    ],
)  # fmt: skip
def test_anything_else_goes_without(lane: Lane) -> None:
    assert probe(FakeDevice(lane)) == 0


@pytest.mark.parametrize("step", ["plan", "run", "receive"])
def test_a_refused_kernel_goes_without(step: str) -> None:
    assert probe(FakeDevice(sound(8), step)) == 0


def test_a_device_that_is_lost_meanwhile() -> None:
    """The next call on the device will say it."""
    assert probe(FakeDevice(sound(8), "receive", DeviceLostError)) == 0


def test_the_device_here_was_probed(device: Any) -> None:
    assert drive(probe_subgroup_size(device)) == device.subgroup_size
    if device.subgroup_size:
        assert {"subgroup", "subgroups"} & device.adapter.features
