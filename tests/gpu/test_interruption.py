"""Ctrl-C around and amid calls of the GPU library."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from wgpu_engine.gpu.interruption import InterruptionDeferred


@pytest.fixture(autouse=True)
def ctrl_c_raises() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press() -> None:
    signal.raise_signal(signal.SIGINT)


def test_it_strikes_at_the_end() -> None:
    steps = []
    with pytest.raises(KeyboardInterrupt):
        with InterruptionDeferred():
            with InterruptionDeferred():
                press()
                press()
                steps.append("inside")
            steps.append("between")
        steps.append("after")
    assert steps == ["inside", "between"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_error_goes_on_unless_it_strikes() -> None:
    with pytest.raises(ValueError, match="wrong"), InterruptionDeferred():
        raise ValueError("wrong")
    with pytest.raises(KeyboardInterrupt), InterruptionDeferred():
        press()
        raise ValueError("wrong")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_threads_and_ignored_signals() -> None:
    done = []

    def work() -> None:
        with InterruptionDeferred():
            done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with InterruptionDeferred():
        press()
    assert done and signal.getsignal(signal.SIGINT) is signal.SIG_IGN


PRESSED_IN_A_CALLBACK = """
import signal, sys, time
from wgpu_engine.gpu.native import open_device
from wgpu_engine.platform.drive import drive
presses = 0
def press(frame, event, argument):
    global presses
    if event == "call" and frame.f_code.co_name in ("_on_mapped", "buffer_map_callback") and presses < 3:
        presses += 1
        signal.raise_signal(signal.SIGINT)
device = drive(open_device())
buffer = device.buffer(16, "words")
sys.setprofile(press)
strikes = 0
end = time.monotonic() + 20
while presses < 3 and time.monotonic() < end:
    pending = []
    # a read that is queued brings the callbacks of those before it to this thread
    for _ in range(8):
        try:
            pending.append(device.read(buffer, 0, 16))
        except KeyboardInterrupt:
            strikes += 1
    for read in pending:
        try:
            drive(device.receive(read))
        except KeyboardInterrupt:
            strikes += 1
sys.setprofile(None)
device.close()
print(presses, strikes)
"""


def test_a_read_interrupted_in_a_callback() -> None:
    """The library drops what is raised there, and would wait for ever for what the callback was to tell."""
    ran = subprocess.run([sys.executable, "-c", PRESSED_IN_A_CALLBACK], capture_output=True, text=True, timeout=60)
    assert ran.stdout.split() == ["3", "3"], ran.stderr[-2000:]
    assert ran.returncode == 0
