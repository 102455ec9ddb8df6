"""Fixtures that every room's tests share."""

import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from wgpu_engine.gpu.native import NativeDevice, open_device
from wgpu_engine.ops.builder import SLOT_WORDS, PlanBuilder, ScratchPool
from wgpu_engine.platform.drive import drive

ROOT = Path(__file__).parent.parent

BuilderFactory = Callable[..., PlanBuilder]


@pytest.fixture(scope="session")
def conformance() -> Path:
    """Folder of inputs and expected values from independent implementations; skips where it is absent."""
    folder = Path(os.environ.get("WGPU_ENGINE_CONFORMANCE", ROOT.parent / "shared" / "conformance"))
    if not folder.is_dir():
        pytest.skip("conformance data is absent: set WGPU_ENGINE_CONFORMANCE to its folder")
    return folder


@pytest.fixture(scope="session")
def device() -> Iterator[NativeDevice]:
    """The one device of a test run; tests that break a device open their own."""
    opened = drive(open_device())
    yield opened
    opened.close()


@pytest.fixture
def builder(device: NativeDevice) -> Iterator[BuilderFactory]:
    """Makes plan builders with scratch memory of their own: `builder(rows, outputs=0, precision="exact", slots=1)`.

    All their buffers are freed after the test.
    """
    made: list[PlanBuilder] = []

    def make(
        rows: int, outputs: int = 0, precision: Literal["exact", "fast"] = "exact", slots: int = 1
    ) -> PlanBuilder:
        slot_words = device.buffer(4 * SLOT_WORDS * slots, "slots")
        made.append(PlanBuilder(device, rows, outputs, precision, slot_words, ScratchPool(device)))
        return made[-1]

    yield make
    for each in made:
        each.pool.free()
        device.free(each.slots)
        device.free(each.state)


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers from a fresh seed, which a failing test shows; WGPU_ENGINE_SEED=<seed> repeats it."""
    seed = int(os.environ.get("WGPU_ENGINE_SEED", secrets.randbits(32)))
    print(f"WGPU_ENGINE_SEED={seed}")
    return np.random.default_rng(seed)
