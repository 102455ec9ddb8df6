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


@given(st.data())
def test_what_is_adopted_is_what_was_written(data: st.DataObject) -> None:
    """Slots that start, write and end in any order: what a slot is given holds its own tokens, and stays so."""
    pool = BlockPool(12, 3)
    written = {block: [0] * KV_BLOCK for block in range(12)}
    texts = [[1] * 200, [1] * 40 + [2] * 160, [3] * 200, [1] * 64 + [3] * 100]
    running: dict[int, list[int]] = {}
    for _ in range(data.draw(st.integers(1, 30))):
        slot = data.draw(st.integers(0, 2))
        if slot in running and data.draw(st.booleans()):
            pool.release(slot, running.pop(slot))
            continue
        if slot not in running:
            text = data.draw(st.sampled_from(texts))[: data.draw(st.integers(1, 130))]
            most = min(pool.known(text), data.draw(st.integers(0, 130)))
            if not pool.fits(text):
                continue
            cached = pool.adopt(slot, text, most)
            assert cached <= most < len(text)
            pool.reserve(slot, len(text))
            running[slot] = text
            for position in range(cached, len(text)):
                written[pool.table(slot)[position // KV_BLOCK]][position % KV_BLOCK] = text[position]
            pool.remember(slot, text)
        for each, text in running.items():
            held = [written[block][i] for block in pool.table(each) for i in range(KV_BLOCK)]
            assert held[: len(text)] == text
        assert pool.free + pool.used == 12


def test_blocks_that_nobody_holds_go_first_to_last() -> None:
    """The least recently used text is forgotten first, from its end on."""
    pool = BlockPool(4, 1)
    old, new = [1] * 2 * KV_BLOCK, [2] * 2 * KV_BLOCK
    for text in (old, new):
        pool.reserve(0, len(text))
        pool.release(0, text)
    assert pool.free == 4
    assert (pool.known([*old, 0]), pool.known([*new, 0])) == (2 * KV_BLOCK, 2 * KV_BLOCK)
    pool.reserve(0, 1)
    pool.release(0)
    assert (pool.known([*old, 0]), pool.known([*new, 0])) == (KV_BLOCK, 2 * KV_BLOCK)
    pool.clear()
    assert pool.known([*new, 0]) == 0
