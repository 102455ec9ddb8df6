"""The rows of a step: which token of which sequence stands where."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from wgpu_engine.ops.builder import FROM_SLOT, state_words


@dataclass(frozen=True)
class Row:
    """A token at a position of a slot's sequence; FROM_SLOT takes both from the slot, as decode steps do."""

    token: int
    position: int
    slot: int


def decode_row(slot: int) -> Row:
    """The row that follows what was sampled last."""
    return Row(FROM_SLOT, FROM_SLOT, slot)


def pack_state(rows: Sequence[Row], outputs: Sequence[int], room: int, output_room: int) -> bytes:
    """A plan's state buffer for these rows and the rows whose logits are wanted (see `ops/builder.py`)."""
    words = [len(rows), len(outputs), 0, 0]
    for row in rows:
        words += (row.token, row.position, row.slot, 0)
    words += [0] * (4 * (room - len(rows)))
    words += outputs
    words += [0] * (output_room - len(outputs))
    assert len(words) == state_words(room, output_room)
    return struct.pack(f"<{len(words)}I", *words)
