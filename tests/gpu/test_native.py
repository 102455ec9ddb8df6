"""The device on the desktop: memory, kernels, plans, and what becomes of errors."""

import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from wgpu_engine.errors import DeviceError, DeviceLostError, OutOfMemoryError
from wgpu_engine.gpu import native
from wgpu_engine.gpu.device import Dispatch, Limits, Shader
from wgpu_engine.gpu.native import NativeDevice, open_device
from wgpu_engine.gpu.submission import DirectSubmitter, MethodSubmitter, submitter
from wgpu_engine.platform.drive import drive
from wgpu_engine.platform.memory_source import MemorySource

COUNT_UP = Shader(
    "count up",
    """
@group(0) @binding(0) var<storage, read_write> counts: array<u32>;
@group(0) @binding(1) var<storage, read> step: array<u32>;
@compute @workgroup_size(4)
fn main(@builtin(global_invocation_id) thread: vec3<u32>) {
  counts[thread.x] = counts[thread.x] + step[thread.y];
}
""",
)


@pytest.fixture
def fresh() -> Iterator[NativeDevice]:
    """A device of the test's own, to be broken."""
    opened = drive(open_device())
    yield opened
    opened.close()


def read_words(device: NativeDevice, buffer: Any, count: int) -> list[int]:
    return list(struct.unpack(f"<{count}I", drive(device.receive(device.read(buffer, 0, 4 * count)))))


def buffers_of(device: NativeDevice, *words: list[int]) -> list[Any]:
    made = []
    for each in words:
        buffer = device.buffer(4 * len(each), "words")
        device.write(buffer, 0, struct.pack(f"<{len(each)}I", *each))
        made.append(buffer)
    return made


# memory


def test_buffers_are_zeroed_and_rounded_up(device: NativeDevice) -> None:
    for size, rounded in ((0, 16), (1, 16), (16, 16), (17, 32), (1000, 1008)):
        buffer = device.buffer(size, "zeros")
        assert buffer.size == rounded
        assert read_words(device, buffer, rounded // 4) == [0] * (rounded // 4)
        device.free(buffer)


def test_buffers_are_counted(fresh: NativeDevice) -> None:
    before = fresh.buffers
    made = [fresh.buffer(64, f"buffer {i}") for i in range(5)]
    assert fresh.buffers == before + 5
    for buffer in made[:3]:
        fresh.free(buffer)
    assert fresh.buffers == before + 2
    fresh.close()
    assert fresh.buffers == 0


def test_reads_leave_no_buffers_behind(fresh: NativeDevice) -> None:
    small, large = fresh.buffer(64, "small"), fresh.buffer(3 << 20, "large")
    read_words(fresh, small, 16)
    before = fresh.buffers
    for _ in range(20):
        read_words(fresh, small, 16)
        read_words(fresh, large, (3 << 20) // 4)
    assert fresh.buffers == before, "small ones are used again, large ones are given back"


def test_a_buffer_over_the_limit(device: NativeDevice) -> None:
    before = device.buffers
    with pytest.raises(OutOfMemoryError, match=r"blk\.0\.ffn_up.* --ctx-size"):
        device.buffer(device.limits.buffer_bytes + 1, "blk.0.ffn_up")
    assert device.buffers == before


@pytest.mark.parametrize("length", [0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 21, 40])
@pytest.mark.parametrize("start", [0, 1, 6])
def test_uploads_of_any_length(length: int, start: int, device: NativeDevice, monkeypatch: Any) -> None:
    monkeypatch.setattr(native, "UPLOAD_CHUNK", 8)
    data = bytes(range(1, 100))
    buffer = device.buffer(64, "raw")
    device.write(buffer, 0, b"\xee" * 64)
    drive(device.upload(buffer, 12, MemorySource("memory", data), start, length))
    found = drive(device.receive(device.read(buffer, 0, 64)))
    assert found[:12] == b"\xee" * 12
    assert found[12 : 12 + length] == data[start : start + length]
    padding = -length % 4
    assert found[12 + length :] == b"\0" * padding + b"\xee" * (52 - length - padding)
    device.free(buffer)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_writes_take_any_kind_of_bytes(kind: Callable[[bytes], Any], device: NativeDevice) -> None:
    (buffer,) = buffers_of(device, [1, 2, 3, 4])
    device.write(buffer, 4, kind(struct.pack("<2I", 7, 8)))
    assert read_words(device, buffer, 4) == [1, 7, 8, 4]
    device.free(buffer)


# plans


def test_a_plan_is_replayed(device: NativeDevice) -> None:
    counts, step, other = buffers_of(device, [1] * 8, [10, 100], [5] * 8)
    plan = drive(
        device.plan(
            [Dispatch(COUNT_UP, (counts, step), (2, 1, 1)), Dispatch(COUNT_UP, (other, step), (1, 1, 1))], "twice"
        )
    )
    assert plan.dispatches == 2
    for _ in range(3):
        device.run(plan)
    assert read_words(device, counts, 8) == [31] * 8
    assert read_words(device, other, 8) == [35] * 4 + [5] * 4
    for buffer in (counts, step, other):
        device.free(buffer)


def test_dispatches_see_what_those_before_them_wrote(device: NativeDevice) -> None:
    """A chain through three buffers, each read by the next dispatch in the same pass."""
    a, b, c = buffers_of(device, [1], [0], [0])
    plan = drive(
        device.plan([Dispatch(COUNT_UP, pair, (1, 1, 1)) for pair in ((b, a), (c, b), (b, c), (c, b))], "chain")
    )
    device.run(plan)
    # b = 1, c = 1, b = 2, c = 3
    assert (read_words(device, b, 1), read_words(device, c, 1)) == ([2], [3])
    for buffer in (a, b, c):
        device.free(buffer)


def test_reads_are_of_the_step_they_were_asked_with(device: NativeDevice) -> None:
    """Several steps queued before any is waited for, and received in any order."""
    counts, step = buffers_of(device, [0] * 4, [1])
    plan = drive(device.plan([Dispatch(COUNT_UP, (counts, step), (1, 1, 1))], "count"))
    pending = [device.run_and_read(plan, counts, 4, 8) for _ in range(5)]
    device.run(plan)
    after = device.read(counts, 0, 16)
    device.write(counts, 0, bytes(16))
    found = [struct.unpack("<2I", drive(device.receive(each))) for each in reversed(pending)]
    assert found == [(5, 5), (4, 4), (3, 3), (2, 2), (1, 1)]
    assert drive(device.receive(after)) == struct.pack("<4I", 6, 6, 6, 6)
    assert read_words(device, counts, 4) == [0] * 4
    for buffer in (counts, step):
        device.free(buffer)


def test_the_librarys_methods_do_the_same(fresh: NativeDevice) -> None:
    """Where its C functions can't be called directly."""
    fresh._submitter = MethodSubmitter(fresh._device)
    counts, step = buffers_of(fresh, [0] * 8, [3])
    plan = drive(fresh.plan([Dispatch(COUNT_UP, (counts, step), (2, 1, 1))] * 2, "count"))
    fresh.run(plan)
    pending = [fresh.run_and_read(plan, counts, 16, 8) for _ in range(3)]
    assert [struct.unpack("<2I", drive(fresh.receive(each))) for each in pending] == [(12, 12), (18, 18), (24, 24)]
    assert read_words(fresh, counts, 8) == [24] * 8


def test_c_functions_where_the_library_has_them(device: NativeDevice) -> None:
    library = native.wgpu_module()
    found = submitter(library, device._device)
    assert isinstance(found, DirectSubmitter if library.__name__ == "wgpu" else MethodSubmitter)


def test_an_error_in_a_submission_is_raised(fresh: NativeDevice) -> None:
    """And the next submission works."""
    counts, step = buffers_of(fresh, [0] * 4, [1])
    plan = drive(fresh.plan([Dispatch(COUNT_UP, (counts, step), (1, 1, 1))], "count"))
    with pytest.raises(DeviceError, match=r"^the device refused read: .*"):
        fresh.read(counts, 8, 16)
    with pytest.raises(DeviceError, match=r"^the device refused count: .*"):
        fresh.run_and_read(plan, counts, 8, 16)
    fresh.run(plan)
    assert read_words(fresh, counts, 4) == [1] * 4


def test_flush_waits_for_what_was_submitted(device: NativeDevice) -> None:
    counts, step = buffers_of(device, [0] * 4, [1])
    device.run(drive(device.plan([Dispatch(COUNT_UP, (counts, step), (1, 1, 1))], "count")))
    drive(device.flush())
    assert read_words(device, counts, 4) == [1] * 4
    for buffer in (counts, step):
        device.free(buffer)


# errors


BROKEN: dict[str, Callable[[str], str]] = {
    "not WGSL": lambda source: "@compute nonsense",
    "unknown name": lambda source: source.replace("step[", "stop["),
    "no entry point": lambda source: source.replace("fn main", "fn other"),
    "too many threads": lambda source: source.replace("size(4)", "size(4096)"),
}


@pytest.mark.parametrize("what", [*BROKEN, "too few buffers", "one buffer twice"])
def test_errors_carry_the_kernels_name(what: str, device: NativeDevice) -> None:
    counts, step = buffers_of(device, [0] * 4, [1])
    buffers = {"too few buffers": (counts,), "one buffer twice": (counts, counts)}.get(what, (counts, step))
    source = BROKEN[what](COUNT_UP.source) if what in BROKEN else COUNT_UP.source
    with pytest.raises(DeviceError, match=r"broken (kernel|plan)") as caught:
        device.run(drive(device.plan([Dispatch(Shader("broken kernel", source), buffers, (1, 1, 1))], "broken plan")))
    assert not isinstance(caught.value, DeviceLostError | OutOfMemoryError)
    assert "\n" not in str(caught.value)
    # and the device still works
    device.run(drive(device.plan([Dispatch(COUNT_UP, (counts, step), (1, 1, 1))], "count")))
    assert read_words(device, counts, 4) == [1] * 4
    for buffer in (counts, step):
        device.free(buffer)


def test_a_grid_that_is_too_large(device: NativeDevice) -> None:
    counts, step = buffers_of(device, [0] * 4, [1])
    plan = drive(device.plan([Dispatch(COUNT_UP, (counts, step), (65_536, 1, 1))], "broken plan"))
    with pytest.raises(DeviceError, match="broken plan"):
        device.run(plan)
    for buffer in (counts, step):
        device.free(buffer)


@pytest.mark.parametrize(
    "act",
    [
        lambda device, buffer: device.write(buffer, 0, b"abc"),
        lambda device, buffer: device.write(buffer, 8, bytes(12)),
        lambda device, buffer: device.read(buffer, 8, 12),
        lambda device, buffer: device.read(buffer, 0, 3),
    ],
    ids=["write odd", "write past", "read past", "read odd"],
)
def test_misuse_of_a_buffer_is_refused(act: Callable[[Any, Any], Any], device: NativeDevice) -> None:
    (buffer,) = buffers_of(device, [1, 2, 3, 4])
    with pytest.raises(DeviceError, match=r"refused (write|read)"):
        act(device, buffer)
    assert read_words(device, buffer, 4) == [1, 2, 3, 4]
    device.free(buffer)


@pytest.mark.parametrize(
    "act",
    [
        lambda device, buffer, plan: device.run(plan),
        lambda device, buffer, plan: device.run_and_read(plan, buffer, 0, 16),
        lambda device, buffer, plan: device.read(buffer, 0, 16),
        lambda device, buffer, plan: device.write(buffer, 0, bytes(16)),
        lambda device, buffer, plan: device.buffer(16, "more"),
        lambda device, buffer, plan: drive(device.plan([Dispatch(COUNT_UP, (buffer, buffer), (1, 1, 1))], "more")),
        lambda device, buffer, plan: drive(device.flush()),
    ],
    ids=["run", "run_and_read", "read", "write", "buffer", "plan", "flush"],
)
def test_a_lost_device_says_so(act: Callable[..., Any], fresh: NativeDevice) -> None:
    counts, step = buffers_of(fresh, [0] * 4, [1])
    plan = drive(fresh.plan([Dispatch(COUNT_UP, (counts, step), (1, 1, 1))], "count"))
    fresh.run(plan)
    drive(fresh.flush())
    fresh._device.destroy()
    for _ in range(2):
        with pytest.raises(DeviceLostError, match="load the model again"):
            act(fresh, counts, plan)
    fresh.close()
    assert fresh.buffers == 0


def test_another_device_goes_on_when_one_is_lost(fresh: NativeDevice, device: NativeDevice) -> None:
    fresh._device.destroy()
    (buffer,) = buffers_of(device, [1, 2, 3])
    assert read_words(device, buffer, 3) == [1, 2, 3]
    device.free(buffer)


# opening


def test_opens_with_the_least_limits() -> None:
    """What every WebGPU implementation grants must do."""
    opened = drive(open_device(limits=Limits()))
    assert opened.limits == Limits()
    counts, step = buffers_of(opened, [0] * 4, [1])
    opened.run(drive(opened.plan([Dispatch(COUNT_UP, (counts, step), (1, 1, 1))], "count")))
    assert read_words(opened, counts, 4) == [1] * 4
    with pytest.raises(OutOfMemoryError):
        opened.buffer((256 << 20) + 1, "large")
    opened.close()
    assert opened.buffers == 0


def test_limits_that_an_adapter_lacks_are_refused() -> None:
    with pytest.raises(DeviceError, match=r"can't be opened.*--device"):
        drive(open_device(limits=Limits(buffer_bytes=1 << 60)))


def test_another_thread_closes_the_device(fresh: NativeDevice) -> None:
    """What is under way ends first: the library would end the process, were its buffers taken from it."""
    counts, step = buffers_of(fresh, [0] * 64, [1])
    plan = drive(fresh.plan([Dispatch(COUNT_UP, (counts, step), (1, 1, 1))], "count"))
    began = threading.Event()
    ends: list[BaseException] = []

    def work() -> None:
        try:
            while True:
                drive(fresh.receive(fresh.run_and_read(plan, counts, 0, 256)))
                began.set()
        except BaseException as error:
            ends.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert began.wait(30)
    fresh.close()
    thread.join(30)
    assert [type(error) for error in ends] == [DeviceLostError]
    assert "closed" in str(ends[0])
    assert fresh.buffers == 0


def test_a_read_that_is_pending_when_the_device_closes(fresh: NativeDevice) -> None:
    pending = fresh.read(fresh.buffer(16, "words"), 0, 16)
    fresh.close()
    with pytest.raises(DeviceLostError, match="closed"):
        drive(fresh.receive(pending))


def test_closing_twice_is_fine(fresh: NativeDevice) -> None:
    fresh.close()
    fresh.close()
    assert fresh.buffers == 0
