"""Hands out the blocks of the paged KV cache, and finds those that hold a prompt's beginning already.

A block is remembered under its tokens and the blocks before it, as in vLLM. Slots share full blocks, since nobody
writes into them; where nobody holds one it stays until its room is wanted, the least recently used going first. What a
prompt has in common with the beginning of a block goes to the one slot that takes the block over and writes on in it.
"""

from array import array
from collections import OrderedDict
from collections.abc import Sequence
from itertools import count

from wgpu_engine.errors import OutOfMemoryError
from wgpu_engine.ops.builder import ceil_div
from wgpu_engine.ops.kv import KV_BLOCK

_Key = tuple[int, bytes]
"""the chain up to the block before, and the block's tokens"""
_ROOT = 0


class BlockPool:
    """Free blocks of the cache, which of them each slot holds, and what full ones are remembered for."""

    def __init__(self, blocks: int, slots: int) -> None:
        self._blocks, self._slots = blocks, slots
        self.clear()

    def clear(self) -> None:
        """Takes all blocks back and forgets what they hold, as after an error that leaves it open."""
        self._free = list(range(self._blocks - 1, -1, -1))
        self._held: list[list[int]] = [[] for _ in range(self._slots)]
        self._holders = [0] * self._blocks
        self._known: dict[_Key, tuple[int, int]] = {}
        """block and number of the chain that ends with it"""
        self._keys: dict[int, _Key] = {}
        """of remembered blocks"""
        self._after: dict[int, set[int]] = {}
        """blocks that go on after a chain"""
        self._idle: OrderedDict[int, None] = OrderedDict()
        """remembered blocks that nobody holds, the least recently used first"""
        self._chains: list[list[int]] = [[_ROOT] for _ in range(self._slots)]
        """of each slot: the chains that its remembered beginning makes, block by block"""
        self._numbers = count(1)

    @property
    def free(self) -> int:
        """How many blocks nobody holds."""
        return len(self._free) + len(self._idle)

    @property
    def used(self) -> int:
        """How many blocks some slot holds."""
        return self._blocks - self.free

    def table(self, slot: int) -> list[int]:
        """The slot's blocks, in order of the positions that they hold."""
        return self._held[slot]

    def fits(self, ids: Sequence[int], more: int = 1) -> bool:
        """Whether a sequence that holds `ids` can have blocks for them and for so many more tokens."""
        shared = sum(self._holders[block] > 0 for block, _ in self._prefix(ids))
        return ceil_div(len(ids) + more, KV_BLOCK) - shared <= self.free

    def known(self, ids: Sequence[int]) -> int:
        """How many tokens at the beginning of `ids` blocks hold, the last one apart, whose logits are wanted."""
        found = self._prefix(ids)
        return KV_BLOCK * len(found) + self._tail(ids[:-1], found)[1]

    def adopt(self, slot: int, ids: Sequence[int], most: int) -> int:
        """Gives an empty slot what blocks hold of the first `most` of `ids`; returns how many tokens that is."""
        assert not self._held[slot], "the slot holds blocks already"
        found = self._prefix(ids)[: most // KV_BLOCK]
        for block, chain in found:
            self._hold(slot, block)
            self._chains[slot].append(chain)
        block, common = self._tail(ids[: min(most, len(ids) - 1)], found)
        if common:
            self._unregister(block)
            self._hold(slot, block)
        return KV_BLOCK * len(found) + common

    def reserve(self, slot: int, positions: int) -> bool:
        """Gives the slot blocks for so many positions; tells whether its table changed.

        Raises:
            OutOfMemoryError: there are too few free blocks; nothing was taken.
        """
        held = self._held[slot]
        missing = ceil_div(positions, KV_BLOCK) - len(held)
        if missing > self.free:
            raise OutOfMemoryError("the KV cache is full: shorten the prompt or raise --ctx-size")
        for _ in range(missing):
            block = self._free.pop() if self._free else self._evict()
            self._holders[block] = 1
            held.append(block)
        return missing > 0

    def remember(self, slot: int, ids: Sequence[int]) -> None:
        """Notes that the slot's full blocks hold keys and values of `ids`, or will before a later step reads them."""
        chains = self._chains[slot]
        for number in range(len(chains) - 1, len(ids) // KV_BLOCK):
            key = chains[-1], _tokens(ids, number)
            if key not in self._known:
                self._register(key, self._held[slot][number])
            chains.append(self._known[key][1])

    def release(self, slot: int, ids: Sequence[int] = ()) -> None:
        """Takes all blocks of a slot back; they hold keys and values of `ids`, which are remembered."""
        self.remember(slot, ids)
        number = len(ids) // KV_BLOCK
        key = self._chains[slot][-1], _tokens(ids, number)
        if key[1] and key not in self._known:
            self._register(key, self._held[slot][number])
        # a chain is of no use without its beginning, so ends go first
        for block in reversed(self._held[slot]):
            self._holders[block] -= 1
            if self._holders[block]:
                continue
            if block in self._keys:
                self._idle[block] = None
            else:
                self._free.append(block)
        self._held[slot] = []
        self._chains[slot] = [_ROOT]

    def _prefix(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        """Full blocks that hold the beginning of `ids`, the last token apart, each with its chain."""
        found: list[tuple[int, int]] = []
        chain = _ROOT
        for number in range((len(ids) - 1) // KV_BLOCK):
            entry = self._known.get((chain, _tokens(ids, number)))
            if entry is None:
                break
            found.append(entry)
            chain = entry[1]
        return found

    def _tail(self, ids: Sequence[int], prefix: list[tuple[int, int]]) -> tuple[int, int]:
        """An idle block that goes on after a prefix with the most tokens of `ids`, and how many these are."""
        wanted = _tokens(ids, len(prefix))
        best = 0, 0
        for block in self._after.get(prefix[-1][1] if prefix else _ROOT, ()):
            if not self._holders[block]:
                best = max(best, (block, _common(self._keys[block][1], wanted)), key=lambda found: found[1])
        return best

    def _hold(self, slot: int, block: int) -> None:
        self._idle.pop(block, None)
        self._holders[block] += 1
        self._held[slot].append(block)

    def _register(self, key: _Key, block: int) -> None:
        self._known[key] = block, next(self._numbers)
        self._keys[block] = key
        self._after.setdefault(key[0], set()).add(block)

    def _unregister(self, block: int) -> None:
        key = self._keys.pop(block)
        del self._known[key]
        self._after[key[0]].remove(block)
        if not self._after[key[0]]:
            del self._after[key[0]]

    def _evict(self) -> int:
        block, _ = self._idle.popitem(last=False)
        self._unregister(block)
        return block


def _tokens(ids: Sequence[int], number: int) -> bytes:
    return array("I", ids[KV_BLOCK * number : KV_BLOCK * (number + 1)]).tobytes()


def _common(a: bytes, b: bytes) -> int:
    """Tokens that two blocks begin with alike."""
    size = array("I").itemsize
    shorter = min(len(a), len(b))
    return next((i for i in range(shorter) if a[i] != b[i]), shorter) // size
