"""What norms that are dispatches of their own should give."""

import math

from wgpu_engine.ops.builder import OpCall
from wgpu_engine.ops.known_answers.trial import Stage, Trial, largest_error
from wgpu_engine.ops.weight import Norm

Rows = list[list[float]]


async def norm(trial: Trial, stage: Stage, call: OpCall) -> float:
    x = await trial.rows(call.arguments["x"], len(stage.rows), call.arguments["width"])
    trial.run(call.dispatches)
    return await _normed_error(trial, x, call)


async def residual_norm(trial: Trial, stage: Stage, call: OpCall) -> float:
    x, y, width, post, scale = (call.arguments[name] for name in ("x", "y", "width", "post", "scale"))
    count = len(stage.rows)
    before = await trial.rows(x, count, width)
    terms = [await trial.rows(term, count, width) for term in (y if isinstance(y, tuple) else (y,))]
    if post is not None:
        terms[0] = await _normed(trial, terms[0], post)
    trial.run(call.dispatches)
    after = await trial.rows(x, count, width)
    error = 0.0
    for row, (old, new) in enumerate(zip(before, after, strict=True)):
        parts = [old, *([scale * value for value in term[row]] for term in terms)]
        wanted = [sum(values) for values in zip(*parts, strict=True)]
        error = max(error, largest_error(new, wanted, max(abs(value) for part in parts for value in part)))
    return error if call.arguments["norm"] is None else max(error, await _normed_error(trial, after, call))


async def _normed_error(trial: Trial, x: Rows, call: OpCall) -> float:
    wanted = await _normed(trial, x, call.arguments["norm"])
    found = await trial.activations(call.result, len(x))
    return max(
        largest_error(values, exact, max(map(abs, exact)), slack)
        for values, exact, slack in zip(found.rows, wanted, found.slack, strict=True)
    )


async def _normed(trial: Trial, x: Rows, norm: Norm) -> Rows:
    width = len(x[0])
    gains = await trial.vector(norm.gain, width)
    biases = [0.0] * width if norm.bias is None else await trial.vector(norm.bias, width)
    rows = []
    for row in x:
        mean = sum(row) / width if norm.kind == "layer" else 0.0
        factor = 1 / math.sqrt(sum((value - mean) ** 2 for value in row) / width + norm.eps)
        rows.append([(v - mean) * factor * gain + bias for v, gain, bias in zip(row, gains, biases, strict=True)])
    return rows
