"""Which tokens a model thinks likeliest, beside the one that was sampled."""

import math
import struct
from dataclasses import dataclass

from wgpu_engine.gpu.device import Buffer
from wgpu_engine.ops.builder import PlanBuilder, ceil_div, op, row_floats

MOST_TOP = 20
"""tokens that can be asked for, as in OpenAI's API"""
TOP_BYTES = 4 * (4 + 2 * MOST_TOP)
"""of an output's result"""

_LANES = 64
_NO_TOKEN = 0xFFFFFFFF


@dataclass(frozen=True)
class TokenLogProbs:
    """Natural logarithms of probabilities where a token was sampled; NaN where the model gave no numbers."""

    log_prob: float
    """of the token that was sampled"""
    top: list[tuple[int, float]]
    """the likeliest tokens with theirs, the best first, of equal ones the lowest token"""


@op
def top_tokens(builder: PlanBuilder, logits: Buffer, vocab: int) -> Buffer:
    """For each of the plan's outputs what `read_token` and `read_log_probs` read; goes after `sample`.

    Slots ask with bit 1 of their flags for what `read_log_probs` wants, and in word 13 for so many likeliest tokens.

    Args:
        logits: f32 [outputs, row_floats(vocab)] as the model gives them, without bias and penalties.
    """
    assert logits.size >= 4 * builder.outputs * row_floats(vocab), "logits are too small"
    found = builder.buffer(TOP_BYTES * builder.outputs, "likeliest tokens")
    values = {"vocab": vocab, "units": ceil_div(vocab, 4), "most": MOST_TOP, "words": TOP_BYTES // 4, "lanes": _LANES}
    shader = builder.shader("sample/top_tokens.wgsl", f"v{vocab}", **values)
    builder.add(shader, (builder.state, builder.slots, logits, found), (builder.outputs, 1, 1))
    return found


def read_token(data: bytes, output: int) -> int:
    """The token that an output's slot has sampled."""
    return int.from_bytes(data[TOP_BYTES * output :][:4], "little")


def read_log_probs(data: bytes, output: int, count: int) -> TokenLogProbs:
    """How likely an output's token was, and the `count` likeliest, or as many as there are, if its slot asked so."""
    _, logit, largest, total = struct.unpack_from("<I3f", data, TOP_BYTES * output)
    # written so that NaN fails
    rest = math.log(total) if 0 < total < math.inf else math.nan
    found = struct.iter_unpack("<If", data[TOP_BYTES * output + 16 :][: 8 * count])
    top = [(token, other - largest - rest) for token, other in found if token != _NO_TOKEN]
    return TokenLogProbs(logit - largest - rest, top)
