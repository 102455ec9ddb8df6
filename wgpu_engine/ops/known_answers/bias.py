"""What logits with biases should be."""

import struct

from wgpu_engine.ops.bias import BIAS_BYTES, MOST_BIASES, add_bias, pack_biases
from wgpu_engine.ops.builder import SLOT_WORDS, row_floats
from wgpu_engine.ops.known_answers.trial import SLOTS, Trial, largest_error
from wgpu_engine.ops.state import Row

_SLOT = SLOTS - 1
_LARGEST = 128.0


async def bias_error(trial: Trial, vocab: int) -> float:
    """The largest error of logits of a slot that adds to some of them: to neighbours, and to the first and the last."""
    builder = trial.builder(1, 1)
    trial.stage(builder, [Row(0, 0, _SLOT)], (0,))
    row = [(i * 97 % 1013 - 900) / 32 for i in range(row_floats(vocab))]
    tokens = sorted({max(0, token) for token in (0, 1, vocab // 3, vocab // 2, vocab - 2, vocab - 1)})
    pairs = {token: 25.0 * i - 60.0 for i, token in enumerate(tokens)}
    slot = struct.pack("<12I", *[0] * 12) + struct.pack("<I", len(pairs))
    trial.device.write(builder.slots, 4 * SLOT_WORDS * _SLOT, slot.ljust(4 * SLOT_WORDS, b"\0"))
    biases = trial.hold(trial.device.buffer(BIAS_BYTES * MOST_BIASES * SLOTS, "biases"))
    trial.device.write(biases, BIAS_BYTES * MOST_BIASES * _SLOT, pack_biases(list(pairs.items())))
    found = add_bias(builder, trial.floats(row, "logits"), vocab, biases)
    await trial.run(builder.dispatches)
    wanted = [value + pairs.get(token, 0.0) for token, value in enumerate(row[:vocab])]
    return largest_error((await trial.rows(found, 1, vocab))[0], wanted, _LARGEST)
