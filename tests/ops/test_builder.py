"""What plans share, and what the builder refuses."""

from typing import Any

import pytest

from wgpu_engine.gpu.device import Shader
from wgpu_engine.ops.builder import Q8_BLOCK_WORDS, ScratchPool, ceil_div, row_floats, square_words
from wgpu_engine.ops.matmul import project
from wgpu_engine.ops.state import FROM_SLOT, Row, decode_row, pack_state, state_bytes
from wgpu_engine.platform.drive import drive


def test_scratch_of_a_label_and_size_is_shared(device: Any) -> None:
    pool = ScratchPool(device)
    before = device.buffers
    one = pool.buffer(64, "normed")
    assert pool.buffer(64, "normed") is one
    assert pool.buffer(128, "normed") is not one
    assert pool.buffer(64, "gated") is not one
    assert device.buffers == before + 3
    pool.free()
    assert device.buffers == before
    assert pool.buffer(64, "normed") is not one
    pool.free()


def test_a_table_is_written_once(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pool, data = ScratchPool(device), bytes(range(64))
    table = pool.table(data, "grid")
    assert drive(device.receive(device.read(table, 0, 64))) == data
    monkeypatch.setattr(device, "write", None)
    assert pool.table(data, "grid") is table
    pool.free()


def test_sizes_of_scratch(builder: Any) -> None:
    plan = builder(3, outputs=2)
    assert plan.floats(5, "x").size == 4 * 3 * 8
    assert plan.logits(7).size == 4 * 2 * 8
    assert plan.activation(64, "f32", "h").size == 4 * 3 * 64
    assert plan.activation(64, "q8", "h").size == 4 * 3 * 2 * Q8_BLOCK_WORDS
    assert plan.squares(33).size == 4 * 3 * 4
    with pytest.raises(AssertionError, match="blocks of 32"):
        plan.activation(40, "q8", "h")


def test_rows_are_padded_to_vectors() -> None:
    assert [row_floats(width) for width in (1, 4, 5, 49_152)] == [4, 4, 8, 49_152]
    assert [square_words(width) for width in (1, 32, 128, 129, 576)] == [4, 4, 4, 8, 20]
    assert [ceil_div(a, 32) for a in (0, 1, 32, 33)] == [0, 1, 1, 2]


def test_state() -> None:
    words = memoryview(pack_state([Row(5, 6, 7), decode_row(2)], [1])).cast("I").tolist()
    assert words == [2, 1, 0, 0, 5, 6, 7, 6, FROM_SLOT, FROM_SLOT, 2, FROM_SLOT, 1]
    assert state_bytes(2, 1) == 4 * len(words)
    assert memoryview(pack_state([Row(5, 6, 7, sees=9)], [])).cast("I").tolist()[4:] == [5, 6, 7, 9]


def test_a_plan_holds_the_state_of_all_its_rows(builder: Any) -> None:
    plan = builder(5, outputs=3)
    full = pack_state([Row(0, 0, 0)] * 5, [0, 1, 2])
    assert plan.state.size >= len(full)


def test_wrong_dispatches_are_refused(device: Any, builder: Any) -> None:
    plan = builder(1)
    shader = Shader("kernel", "")
    a, b = plan.buffer(16, "a"), plan.buffer(16, "b")
    plan.add(shader, (a, b), (65_535, 1, 1))
    with pytest.raises(AssertionError, match=r"kernel: grid .* is too large"):
        plan.add(shader, (a, b), (1, 65_536, 1))
    with pytest.raises(AssertionError, match="kernel: a buffer is bound twice"):
        plan.add(shader, (a, b, a), (1, 1, 1))
    buffers = tuple(plan.buffer(16, str(i)) for i in range(device.limits.storage_buffers + 1))
    plan.add(shader, buffers[1:], (1, 1, 1))
    with pytest.raises(AssertionError, match="kernel: too many buffers"):
        plan.add(shader, buffers, (1, 1, 1))
    assert len(plan.dispatches) == 2


@pytest.mark.parametrize(("subgroup_size", "shuffle"), [(0, False), (4, False), (8, True), (16, True), (64, True)])
def test_eight_lanes_make_a_cluster(subgroup_size: int, shuffle: bool, builder: Any, monkeypatch: Any) -> None:
    plan = builder(1)
    monkeypatch.setattr(plan.device, "subgroup_size", subgroup_size)
    assert plan.shuffle is shuffle


def test_ops_are_noted_where_somebody_wants_to_know(lab: Any, builder: Any) -> None:
    plan = builder(2)
    weight = lab.load(lab.matrix("F32", 8, 16))
    a, _ = lab.activation(plan, lab.rng.standard_normal((2, 16)), "f32")
    out = plan.floats(8, "out")
    project(plan, (weight,), a, out, 8)
    plan.calls = []
    project(plan, (weight,), a, out, 8)
    (call,) = plan.calls
    assert call.op == "project"
    assert call.arguments["out"] is out and call.arguments["bias"] is None
    assert call.dispatches == (plan.dispatches[1],)


def test_builders_of_a_smaller_device_see_its_limits(lab: Any, builder: Any) -> None:
    with lab.limits(storage_buffers=1):
        plan = builder(1)
        with pytest.raises(AssertionError, match="too many buffers"):
            plan.add(Shader("kernel", ""), (plan.buffer(16, "a"), plan.buffer(16, "b")), (1, 1, 1))
