"""What a model takes, and whether that is there."""

from typing import Any

import pytest

from wgpu_engine.engine.memory import check_budget, context_size, footprint, memory_budget
from wgpu_engine.engine.states import rewind, ring
from wgpu_engine.errors import OutOfMemoryError
from wgpu_engine.gpu.device import AdapterInfo
from wgpu_engine.models.model import Description, PagedKV, ShortConv

MIB = 1 << 20


def description(**changes: Any) -> Description:
    values = {
        "architecture": "llama",
        "name": "x",
        "parameters": 9,
        "active_parameters": 9,
        "layers": 2,
        "width": 64,
        "vocab": 5,
        "context": 8192,
    }
    return Description(**(values | {"states": (PagedKV(2, 32), PagedKV(4, 16))} | changes))


def test_context() -> None:
    assert context_size(description(), None) == 4096
    assert context_size(description(context=512), None) == 512
    assert context_size(description(context=512), 1000) == 1000


def test_bytes_of_the_cache() -> None:
    """Keys and values of 64 numbers in each of two layers, in whole blocks of 32 positions."""
    halves = footprint(description(), 1000, 33, "f16")
    assert (halves.weights, halves.kv) == (1000, 64 * 2 * 2 * 64 * 2)
    assert footprint(description(), 1000, 33, "f32").kv == 2 * halves.kv
    assert footprint(description(), 1000, 33, "f16", slots=3).kv == 3 * halves.kv
    assert halves.total > 1000 + halves.kv


def test_budget() -> None:
    need = footprint(description(), 500 * MIB, 4096, "f16")
    check_budget(need, None, 4096)
    check_budget(need, need.total, 4096)
    with pytest.raises(OutOfMemoryError) as caught:
        check_budget(need, need.total - 1, 4096)
    text = str(caught.value)
    assert "500 for weights" in text
    assert "context of 4096" in text
    assert "--memory-budget" in text


@pytest.mark.parametrize(
    ("kind", "known"), [("cpu", True), ("integrated", True), ("discrete", False), ("other", False)]
)
def test_memory_of_an_adapter(kind: str, known: bool) -> None:
    """Those that share the machine's memory have what is free of it; of others nothing is known."""
    found = memory_budget(AdapterInfo(0, "x", kind, "Vulkan", ""))
    assert (found is not None and found > MIB) if known else found is None


def test_bytes_of_convolutions() -> None:
    """A ring holds what a plan of 128 rows writes and the two positions before, whatever the context."""
    states = (ShortConv(64, 3), PagedKV(2, 32), ShortConv(64, 1))
    need = footprint(description(states=states), 0, 33, "f16", slots=3)
    assert need.kv == 3 * 4 * 64 * (130 + 128) + 3 * 64 * 2 * 64 * 2
    assert [ring(state, 33) for state in states] == [130, 0, 128]
    assert rewind(states, 33) == 128 and rewind((PagedKV(2, 32),), 33) is None


def test_bytes_of_windows() -> None:
    """Blocks for a window and what a plan writes, wherever the context takes more."""
    states = (PagedKV(2, 32, 100), PagedKV(4, 16))
    assert [ring(states[0], ctx_size) for ctx_size in (1, 256, 257, 1 << 20)] == [0, 0, 256, 256]
    need = footprint(description(states=states), 0, 1024, "f16", slots=3)
    assert need.kv == 3 * 2 * 64 * 2 * (256 + 1024)
    # a row sees 99 positions before its own
    assert rewind(states, 1024) == 256 - 99 and rewind(states, 256) is None
    assert rewind((PagedKV(2, 32, 1), states[0]), 1024) == 128
