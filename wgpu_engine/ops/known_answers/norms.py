"""What norms that are dispatches of their own should give, and embeddings, which are normed as well."""

import math

from wgpu_engine.ops.builder import OpCall
from wgpu_engine.ops.known_answers.trial import Stage, Trial, largest_error
from wgpu_engine.ops.weight import Norm

Rows = list[list[float]]


async def norm(trial: Trial, stage: Stage, call: OpCall) -> float:
    x = await trial.rows(call.arguments["x"], len(stage.rows), call.arguments["width"])
    await trial.run(call.dispatches)
    return await _normed_error(trial, x, call)


async def residual_norm(trial: Trial, stage: Stage, call: OpCall) -> float:
    x, y, width, post, scale = (call.arguments[name] for name in ("x", "y", "width", "post", "scale"))
    count = len(stage.rows)
    before = await trial.rows(x, count, width)
    terms = [await trial.rows(term, count, width) for term in (y if isinstance(y, tuple) else (y,))]
    if post is not None:
        terms[0] = await _normed(trial, terms[0], post)
    await trial.run(call.dispatches)
    parts = [[old, *([scale * value for value in term[row]] for term in terms)] for row, old in enumerate(before)]
    wanted = [[sum(values) for values in zip(*each, strict=True)] for each in parts]
    if call.arguments["in_place"]:
        return await _normed_error(trial, wanted, call)
    after = await trial.rows(x, count, width)
    error = max(
        largest_error(new, sums, max(abs(value) for part in each for value in part))
        for new, sums, each in zip(after, wanted, parts, strict=True)
    )
    return error if call.result is None else max(error, await _normed_error(trial, after, call))


async def pool(trial: Trial, stage: Stage, call: OpCall) -> float:
    x = await trial.rows(call.arguments["x"], len(stage.rows), call.arguments["width"])
    await trial.run(call.dispatches)
    found = await trial.rows(call.result, len(stage.outputs), call.arguments["width"])
    error = 0.0
    for output, first in enumerate(stage.outputs):
        row = stage.rows[first]
        sees = row.position if row.sees is None else row.sees
        rows = x[first : first + 1 + (sees if call.arguments["kind"] == "mean" else 0)]
        mean = [sum(values) / len(rows) for values in zip(*rows, strict=True)]
        length = math.sqrt(sum(value * value for value in mean))
        terms = max(abs(value) for row in rows for value in row)
        error = max(error, largest_error(found[output], [value / length for value in mean], terms / length))
    return error


async def _normed_error(trial: Trial, x: Rows, call: OpCall) -> float:
    norm = call.arguments["norm"]
    wanted = await _normed(trial, x, norm) if norm is not None else x
    found = await trial.activations(call.result, len(x))
    error = max(
        largest_error(values, exact, max(map(abs, exact)), slack)
        for values, exact, slack in zip(found.rows, wanted, found.slack, strict=True)
    )
    if not call.arguments["in_place"]:
        return error
    stored = await trial.rows(call.arguments["x"], len(x), call.arguments["width"])
    return max(error, *(largest_error(a, b, max(map(abs, b))) for a, b in zip(stored, wanted, strict=True)))


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
