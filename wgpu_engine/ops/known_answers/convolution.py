"""What short convolutions should give, and write into their rings."""

from wgpu_engine.ops.builder import OpCall
from wgpu_engine.ops.known_answers.attention import resolved
from wgpu_engine.ops.known_answers.trial import Stage, Trial, largest_error


async def short_conv(trial: Trial, stage: Stage, call: OpCall) -> float:
    """Runs a call of the op and returns its error. What rows read of earlier steps is what their rings hold."""
    bcx, conv, cache, layer = (call.arguments[name] for name in ("bcx", "conv", "cache", "layer"))
    width, kernel, ring = conv.width, conv.kernel, cache.rings[layer]
    places = await resolved(trial, stage)
    slots = 1 + max(place.slot for place in places)
    inputs = await trial.rows(bcx, len(places), 3 * width)
    *taps, bias = await trial.rows(conv.taps, kernel + 1, width)
    wanted = await trial.rows(cache.layers[layer], slots * ring, width)
    await trial.run(call.dispatches)
    after = await trial.rows(cache.layers[layer], slots * ring, width)
    found = await trial.activations(call.result, len(places))
    for place, row in zip(places, inputs, strict=True):
        at = place.slot * ring + place.position % ring
        wanted[at] = [b * x for b, x in zip(row[:width], row[2 * width :], strict=True)]
    error = max(largest_error(a, b, max(map(abs, b))) for a, b in zip(after, wanted, strict=True))
    for place, row, values, slack in zip(places, inputs, found.rows, found.slack, strict=True):
        sums, sizes = bias, list(map(abs, bias))
        for age in range(min(kernel, place.position + 1)):
            past = after[place.slot * ring + (place.position - age) % ring]
            terms = [tap * u for tap, u in zip(taps[kernel - 1 - age], past, strict=True)]
            sums = [a + b for a, b in zip(sums, terms, strict=True)]
            sizes = [a + abs(b) for a, b in zip(sizes, terms, strict=True)]
        c = row[width : 2 * width]
        size = max(abs(a) * b for a, b in zip(c, sizes, strict=True))
        error = max(error, largest_error(values, [a * b for a, b in zip(c, sums, strict=True)], size, slack))
    return error
