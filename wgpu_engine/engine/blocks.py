"""Hands out the blocks of the paged KV cache."""

from wgpu_engine.errors import OutOfMemoryError
from wgpu_engine.ops.builder import ceil_div
from wgpu_engine.ops.kv import KV_BLOCK


class BlockPool:
    """Free blocks of the cache, and which of them each slot holds."""

    def __init__(self, blocks: int, slots: int) -> None:
        self._free = list(range(blocks - 1, -1, -1))
        self._held: list[list[int]] = [[] for _ in range(slots)]

    @property
    def free(self) -> int:
        """How many blocks nobody holds."""
        return len(self._free)

    def table(self, slot: int) -> list[int]:
        """The slot's blocks, in order of the positions that they hold."""
        return self._held[slot]

    def reserve(self, slot: int, positions: int) -> bool:
        """Gives the slot blocks for so many positions; tells whether its table changed.

        Raises:
            OutOfMemoryError: there are too few free blocks; nothing was taken.
        """
        held = self._held[slot]
        missing = ceil_div(positions, KV_BLOCK) - len(held)
        if missing > len(self._free):
            raise OutOfMemoryError("the KV cache is full: shorten the prompt or raise --ctx-size")
        for _ in range(missing):
            held.append(self._free.pop())
        return missing > 0

    def release(self, slot: int) -> None:
        """Takes all blocks of a slot back."""
        self._free += reversed(self._held[slot])
        self._held[slot] = []
