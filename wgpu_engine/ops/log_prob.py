"""How likely given tokens are, so that not the whole vocabulary's logits have to come back for one number a row."""

import math
import struct

from wgpu_engine.gpu.device import Buffer
from wgpu_engine.ops.builder import PlanBuilder, ceil_div, op, row_floats

_LANES = 64
PARTS_BYTES = 16
"""of an output's result"""


@op
def log_prob(builder: PlanBuilder, logits: Buffer, vocab: int, wanted: Buffer) -> Buffer:
    """For each of the plan's outputs what `read_log_prob` makes a logarithm of: f32 [outputs, 4].

    Args:
        logits: f32 [outputs, row_floats(vocab)].
        wanted: u32 [outputs], the token of each output whose probability is asked for.
    """
    assert logits.size >= 4 * builder.outputs * row_floats(vocab), "logits are too small"
    assert wanted.size >= 4 * builder.outputs, "there are too few tokens"
    found = builder.buffer(PARTS_BYTES * builder.outputs, "probabilities")
    shader = builder.shader("sample/log_prob.wgsl", f"v{vocab}", vocab=vocab, units=ceil_div(vocab, 4), lanes=_LANES)
    builder.add(shader, (builder.state, logits, wanted, found), (builder.outputs, 1, 1))
    return found


def read_log_prob(data: bytes, output: int) -> float:
    """The natural logarithm of an output's probability, NaN where the model gave no numbers."""
    logit, top, total, _ = struct.unpack_from("<4f", data, PARTS_BYTES * output)
    # written so that NaN fails
    return logit - top - math.log(total) if 0 < total < math.inf else math.nan
