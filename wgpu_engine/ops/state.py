"""The rows of a step: which token of which sequence stands where, as `shaders/state.wgsl` reads it."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

FROM_SLOT = 0xFFFFFFFF
"""as a token or position: what the sampler left in the row's slot"""
_HEAD_WORDS = 4
_ROW_WORDS = 4


@dataclass(frozen=True)
class Row:
    """A token at a position of a slot's sequence."""

    token: int
    position: int
    slot: int
    sees: int | None = None
    """the last position that it sees where attention isn't causal; by default its own"""


def decode_row(slot: int) -> Row:
    """The row that follows what was sampled last in a slot."""
    return Row(FROM_SLOT, FROM_SLOT, slot)


def state_bytes(rows: int, outputs: int) -> int:
    """Size of the state of a plan with room for so many rows and outputs."""
    return 4 * (_HEAD_WORDS + _ROW_WORDS * rows + outputs)


def pack_state(rows: Sequence[Row], outputs: Sequence[int]) -> bytes:
    """The state for these rows, and for the rows (by number) whose logits are wanted.

    u32 words: rows, outputs, 0, 0; for each row token, position, slot, last position seen; for each output its row.
    """
    words = [len(rows), len(outputs), 0, 0]
    for row in rows:
        words += (row.token, row.position, row.slot, row.position if row.sees is None else row.sees)
    words += outputs
    return struct.pack(f"<{len(words)}I", *words)
