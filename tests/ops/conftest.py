"""A bench for single operations."""

from collections.abc import Iterator

import numpy as np
import pytest

from tests.ops.lab import Lab
from wgpu_engine.gpu.native import NativeDevice


@pytest.fixture
def lab(device: NativeDevice, rng: np.random.Generator) -> Iterator[Lab]:
    made = Lab(device, rng)
    yield made
    made.free()
