"""Blocks of the paged cache."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wgpu_engine.engine.blocks import BlockPool
from wgpu_engine.errors import OutOfMemoryError
from wgpu_engine.ops.kv import KV_BLOCK


def test_a_slot_that_grows() -> None:
    pool = BlockPool(4, 2)
    assert pool.reserve(0, 1)
    assert not pool.reserve(0, KV_BLOCK)
    first = list(pool.table(0))
    assert pool.reserve(0, KV_BLOCK + 1)
    assert pool.table(0)[:1] == first
    assert pool.free == 2


def test_more_than_there_is() -> None:
    pool = BlockPool(2, 2)
    pool.reserve(0, KV_BLOCK)
    before = list(pool.table(1))
    with pytest.raises(OutOfMemoryError, match="--ctx-size"):
        pool.reserve(1, 2 * KV_BLOCK)
    assert pool.table(1) == before
    assert pool.free == 1


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40 * KV_BLOCK)), max_size=40))
def test_no_block_is_held_twice(requests: list[tuple[int, int]]) -> None:
    """Whatever is reserved and released (a request of no position), each block is free or in one table."""
    pool = BlockPool(64, 4)
    for slot, positions in requests:
        if positions == 0:
            pool.release(slot)
            assert pool.table(slot) == []
            continue
        try:
            pool.reserve(slot, positions)
        except OutOfMemoryError:
            continue
        assert len(pool.table(slot)) * KV_BLOCK >= positions
        held = [block for each in range(4) for block in pool.table(each)]
        assert len(set(held)) == len(held) == 64 - pool.free
        assert set(held) <= set(range(64))
