"""What the logarithm of a token's probability should be."""

import math
import struct

from wgpu_engine.ops.builder import OpCall, row_floats
from wgpu_engine.ops.known_answers.trial import Stage, Trial, largest_error
from wgpu_engine.ops.log_prob import PARTS_BYTES, read_log_prob
from wgpu_engine.ops.log_prob import log_prob as op


async def log_prob(trial: Trial, stage: Stage, call: OpCall) -> float:
    """The largest error of the logarithms, absolute as that of a probability is relative."""
    vocab, outputs = call.arguments["vocab"], len(stage.outputs)
    await trial.run(call.dispatches)
    data = await trial.read(call.result, 0, PARTS_BYTES // 4 * outputs)
    found = [read_log_prob(data, output) for output in range(outputs)]
    tokens = struct.unpack(f"<{outputs}I", await trial.read(call.arguments["wanted"], 0, outputs))
    wanted = []
    for row, token in zip(await trial.rows(call.arguments["logits"], outputs, vocab), tokens, strict=True):
        top = max(row)
        wanted.append(row[token] - top - math.log(math.fsum(math.exp(value - top) for value in row)))
    return largest_error(found, wanted, 1.0)


async def log_prob_error(trial: Trial, stage: Stage, vocab: int) -> float:
    """The error of the op on a stage's outputs, over logits of which some are likely."""
    builder, width = stage.builder, row_floats(vocab)
    logits = builder.logits(vocab)
    for output in range(len(stage.outputs)):
        # what pads a row would be likeliest
        row = [(i * 97 % 1013 - 900) / 32 if i < vocab else 99.0 for i in range(width)]
        trial.device.write(logits, 4 * width * output, struct.pack(f"<{width}f", *row))
    tokens = trial.words([vocab * (i + 1) // (len(stage.outputs) + 1) for i in range(builder.outputs)], "tokens")
    calls = builder.calls = []
    op(builder, logits, vocab, tokens)
    return await log_prob(trial, stage, calls[0])
