"""What layers keep of a sequence between steps: how much room it takes, and how far back it reaches."""

from collections.abc import Iterable

from wgpu_engine.models.model import PagedKV, State
from wgpu_engine.ops.builder import ceil_div
from wgpu_engine.ops.kv import KV_BLOCK, KVType, kv_block_bytes

MOST_ROWS = 128
"""rows of a prefill plan: enough to use each weight often"""


def ring(state: State) -> int:
    """Positions in the ring of a layer: those that a plan writes, and those before them that it reads; 0: no ring."""
    return 0 if isinstance(state, PagedKV) else MOST_ROWS + _reach(state)


def state_bytes(state: State, ctx_size: int, slots: int, kv_type: KVType) -> int:
    """Bytes of the state of a layer for `slots` sequences of up to `ctx_size` positions."""
    if isinstance(state, PagedKV):
        return slots * ceil_div(ctx_size, KV_BLOCK) * kv_block_bytes(state.heads, state.head_dim, kv_type)
    return slots * ring(state) * 4 * state.width


def rewind(states: Iterable[State]) -> int | None:
    """How many positions back a sequence can be taken up again, since rings hold no more; None: any number."""
    return min((ring(state) - _reach(state) for state in states if ring(state)), default=None)


def _reach(state: State) -> int:
    """Positions before its own that a row of a layer with a ring reads."""
    return 0 if isinstance(state, PagedKV) else state.kernel - 1
