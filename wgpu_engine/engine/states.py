"""What layers keep of a sequence between steps: how much room it takes, and how far back it reaches."""

from collections.abc import Iterable

from wgpu_engine.models.model import PagedKV, State
from wgpu_engine.ops.builder import ceil_div
from wgpu_engine.ops.kv import KV_BLOCK, KVType, kv_block_bytes

MOST_ROWS = 128
"""rows of a prefill plan: enough to use each weight often"""


def ring(state: State, ctx_size: int) -> int:
    """Positions in the ring of a layer: those that a plan writes, and those before them that it reads; 0: no ring.

    Keys and values have one of whole blocks where a window makes it smaller than a context of `ctx_size` positions.
    """
    least = MOST_ROWS + _reach(state)
    if not isinstance(state, PagedKV):
        return least
    blocks = ceil_div(least, KV_BLOCK)
    return KV_BLOCK * blocks if state.window and blocks < ceil_div(ctx_size, KV_BLOCK) else 0


def state_bytes(state: State, ctx_size: int, slots: int, blocks: int, kv_type: KVType) -> int:
    """Bytes of the state of a layer for `slots` sequences of up to `ctx_size` positions that share so many blocks."""
    positions = slots * ring(state, ctx_size)
    if isinstance(state, PagedKV):
        return (positions // KV_BLOCK or blocks) * kv_block_bytes(state.heads, state.head_dim, kv_type)
    return positions * 4 * state.width


def rewind(states: Iterable[State], ctx_size: int) -> int | None:
    """How many positions back a sequence can be taken up again, since rings hold no more; None: any number."""
    sizes = [(ring(state, ctx_size), _reach(state)) for state in states]
    return min((size - reach for size, reach in sizes if size), default=None)


def _reach(state: State) -> int:
    """Positions before its own that a row of a layer with a ring reads."""
    return (state.window if isinstance(state, PagedKV) else state.kernel) - 1
