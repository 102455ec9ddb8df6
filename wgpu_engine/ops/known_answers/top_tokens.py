"""Which tokens should be likeliest, and how likely."""

import math
import struct

from wgpu_engine.ops.builder import SLOT_WORDS, row_floats
from wgpu_engine.ops.known_answers.trial import SLOTS, Trial, largest_error
from wgpu_engine.ops.state import Row
from wgpu_engine.ops.top_tokens import MOST_TOP, TOP_BYTES, read_log_probs, read_token, top_tokens

_SLOT = SLOTS - 1
_FLAGS = 2


async def top_tokens_error(trial: Trial, vocab: int) -> float:
    """The largest error of the logarithms, infinite where other tokens are found; some logits are equal."""
    builder = trial.builder(1, 1)
    trial.stage(builder, [Row(0, 0, _SLOT)], (0,))
    # what pads a row would be likeliest
    row = [(i * 97 % 251 - 200) / 16 if i < vocab else 99.0 for i in range(row_floats(vocab))]
    sampled = vocab // 2
    slot = struct.pack("<14I", sampled, *[0] * 10, _FLAGS, 0, MOST_TOP)
    trial.device.write(builder.slots, 4 * SLOT_WORDS * _SLOT, slot.ljust(4 * SLOT_WORDS, b"\0"))
    result = top_tokens(builder, trial.floats(row, "logits"), vocab)
    await trial.run(builder.dispatches)
    data = await trial.read(result, 0, TOP_BYTES // 4)
    found = read_log_probs(data, 0, MOST_TOP)
    best = max(row[:vocab])
    scale = best + math.log(math.fsum(math.exp(value - best) for value in row[:vocab]))
    order = sorted(range(vocab), key=lambda token: (-row[token], token))[:MOST_TOP]
    if read_token(data, 0) != sampled or [token for token, _ in found.top] != order:
        return math.inf
    values = [found.log_prob, *(value for _, value in found.top)]
    return largest_error(values, [row[token] - scale for token in (sampled, *order)], 1.0)
