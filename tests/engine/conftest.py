"""Models that many tests share, and a count of what is asked of the wgpu library."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from wgpu_engine import LLM
from wgpu_engine.gpu.adapters import wgpu_module


@pytest.fixture(scope="session")
def tiny(tiny_llama: Callable[..., Path]) -> Iterator[LLM]:
    """A random llama, exact, with a context of 640."""
    with LLM(tiny_llama(), precision="exact", ctx_size=640) as llm:
        yield llm


@pytest.fixture(scope="session")
def tale(stories: Path) -> Iterator[LLM]:
    """The stories model, exact, with its own context of 2048."""
    with LLM(stories, precision="exact") as llm:
        yield llm


@pytest.fixture(scope="session")
def smollm2_exact(smollm2: Path) -> Iterator[LLM]:
    with LLM(smollm2, precision="exact", ctx_size=512) as llm:
        yield llm


@pytest.fixture(scope="session")
def smollm2_fast(smollm2: Path) -> Iterator[LLM]:
    with LLM(smollm2, precision="fast", ctx_size=512) as llm:
        yield llm


@dataclass(frozen=True)
class Expected:
    """What another implementation makes of a prompt."""

    ids: list[int]
    answer: list[int]
    """greedy"""
    text: str
    """of the answer"""
    logits: NDArray[np.float32]


@pytest.fixture(scope="session")
def story(conformance: Path) -> Expected:
    """llama.cpp's greedy story of 121 tokens."""
    folder = conformance / "logits"
    data = json.loads((folder / "stories260K.llamacpp.json").read_text(encoding="utf-8"))
    logits = np.load(folder / "stories260K.llamacpp.logits.npy")
    return Expected(data["ids"][:1], data["ids"][1:], data["text"].removeprefix(" "), logits)


@pytest.fixture(scope="session")
def capital(conformance: Path) -> Expected:
    """What transformers makes of SmolLM2 and "The capital of France is"."""
    folder = conformance / "logits"
    data = json.loads((folder / "smollm2-q4_1.hf.json").read_text(encoding="utf-8"))
    ids, both = data["ids"], data["greedy24"]
    text = data["text"].removeprefix(data["prompt"])
    return Expected(ids, both[len(ids) :], text, np.load(folder / "smollm2-q4_1.hf.logits.npy"))


@dataclass
class Census:
    """Calls of the wgpu library, told apart by submits: `submits[i]` are those since the submit before."""

    submits: list[Counter[str]] = field(default_factory=list)
    open: Counter[str] = field(default_factory=Counter)
    """since the last submit"""

    @property
    def total(self) -> Counter[str]:
        return sum(self.submits, self.open.copy())

    def note(self, name: str) -> None:
        self.open[name] += 1
        if name == "submit":
            self.submits.append(self.open.copy())
            self.open.clear()


_DEVICE_CALLS = (
    "create_buffer",
    "create_bind_group",
    "create_bind_group_layout",
    "create_pipeline_layout",
    "create_shader_module",
    "create_compute_pipeline",
    "create_command_encoder",
)
_C_CALLS = {
    "wgpuDeviceCreateCommandEncoder": "create_command_encoder",
    "wgpuCommandEncoderBeginComputePass": "begin_compute_pass",
    "wgpuCommandEncoderCopyBufferToBuffer": "copy_buffer_to_buffer",
    "wgpuComputePassEncoderDispatchWorkgroups": "dispatch_workgroups",
    "wgpuQueueSubmit": "submit",
    "wgpuQueueSubmitForIndex": "submit",
}
"""of wgpu-native, by what they are called in WebGPU"""


@pytest.fixture
def census(monkeypatch: pytest.MonkeyPatch) -> Callable[[LLM], Any]:
    """`with census(llm) as counted:` counts calls of the library's own classes, below everything that is ours.

    C functions that are called directly are counted too, for LLMs that are made within the test.
    """
    counted = Census()

    def counting(call: Callable[..., Any], name: str) -> Callable[..., Any]:
        def wrapper(*args: Any, **keywords: Any) -> Any:
            counted.note(name)
            return call(*args, **keywords)

        return wrapper

    class Library:
        """The C functions that a device calls directly."""

        def __init__(self, lib: Any) -> None:
            self._lib = lib

        def __getattr__(self, name: str) -> Any:
            found = getattr(self._lib, name)
            return counting(found, _C_CALLS[name]) if name in _C_CALLS else found

    with suppress(ImportError):
        ffi = import_module(f"{wgpu_module().__name__}.backends.wgpu_native._ffi")
        monkeypatch.setattr(ffi, "lib", Library(ffi.lib))

    @contextmanager
    def count(llm: LLM) -> Iterator[Census]:
        device = llm._device._device
        encoder = device.create_command_encoder()
        compute = encoder.begin_compute_pass()
        compute.end()
        watched = (
            (device, _DEVICE_CALLS),
            (device.queue, ("submit", "write_buffer", "read_buffer")),
            (encoder, ("begin_compute_pass", "copy_buffer_to_buffer", "clear_buffer")),
            (compute, ("dispatch_workgroups", "dispatch_workgroups_indirect")),
        )
        with monkeypatch.context() as patch:
            for thing, names in watched:
                for name in names:
                    patch.setattr(type(thing), name, counting(getattr(type(thing), name), name))
            counted.submits.clear()
            counted.open.clear()
            yield Census(counted.submits, counted.open)
        encoder.finish()

    return count
