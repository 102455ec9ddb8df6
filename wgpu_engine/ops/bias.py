"""What a sequence adds to the logits of some tokens before it samples."""

import struct
from collections.abc import Sequence

from wgpu_engine.gpu.device import Buffer
from wgpu_engine.ops.builder import SLOT_WORDS, PlanBuilder, ceil_div, op, row_floats

MOST_BIASES = 300
"""tokens of a slot that have one, as many as OpenAI's API takes"""
BIAS_BYTES = 8
"""of a token's"""

_LANES = 64


@op
def add_bias(builder: PlanBuilder, logits: Buffer, vocab: int, biases: Buffer) -> Buffer:
    """Logits f32 [outputs, row_floats(vocab)] with what the outputs' slots add to them; `logits` stay as they are.

    Args:
        logits: f32 [outputs, row_floats(vocab)].
        biases: [slots, MOST_BIASES] of `pack_biases`; the first so many count as word 12 of the slot says.
    """
    slots = builder.slots.size // (4 * SLOT_WORDS)
    assert logits.size >= 4 * builder.outputs * row_floats(vocab), "logits are too small"
    assert biases.size >= BIAS_BYTES * MOST_BIASES * slots, "biases are too small"
    biased = builder.buffer(4 * builder.outputs * row_floats(vocab), "biased logits")
    units = ceil_div(vocab, 4)
    shader = builder.shader("sample/bias.wgsl", f"v{vocab}", units=units, most=MOST_BIASES, lanes=_LANES)
    buffers = (builder.state, builder.slots, biases, logits, biased)
    builder.add(shader, buffers, (ceil_div(units, _LANES), builder.outputs, 1))
    return biased


def pack_biases(pairs: Sequence[tuple[int, float]]) -> bytes:
    """Up to MOST_BIASES tokens in ascending order, each once, with what is added to their logits: u32 and f32."""
    return b"".join(struct.pack("<If", token, bias) for token, bias in pairs)
