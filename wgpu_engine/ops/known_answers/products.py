"""What ops that read weights should give: embeddings, matrix products and what is fused into them.

Each function runs a call of an op and returns its error. It looks at what the kernel really read, so that an error of
one kernel is not taken for one of the next; of a large weight it looks at a few features.
"""

import math
from collections.abc import Callable, Sequence
from operator import mul

from wgpu_engine.gpu.device import Buffer
from wgpu_engine.ops.builder import Activation, OpCall, ceil_div, square_words
from wgpu_engine.ops.known_answers.trial import Stage, Trial, Values, largest_error
from wgpu_engine.ops.weight import Weight

Sums = dict[int, list[tuple[float, float]]]
"""for each feature, and in it for each column: the product, and the sum of its terms' sizes"""


async def embed(trial: Trial, stage: Stage, call: OpCall) -> float:
    table, scale = call.arguments["table"], call.arguments["scale"]
    x, h = call.result
    await trial.run(call.dispatches)
    rows = await trial.weights(table, [row.token for row in stage.rows])
    wanted = [[scale * value for value in rows[row.token]] for row in stage.rows]
    found = await trial.rows(x, len(wanted), table.k)
    errors = [largest_error(a, b, max(map(abs, b))) for a, b in zip(found, wanted, strict=True)]
    return max(*errors, await normed_error(trial, found, h, call.arguments["norm"].gain))


async def look_up(trial: Trial, stage: Stage, call: OpCall) -> float:
    table, index, scale, onto = (call.arguments[name] for name in ("table", "index", "scale", "onto"))
    count = len(stage.rows)
    before = [[0.0] * table.k] * count if onto is None else await trial.rows(onto, count, table.k)
    places = [row.token if index == "token" else row.position if index == "position" else 0 for row in stage.rows]
    rows = await trial.weights(table, places)
    await trial.run(call.dispatches)
    found = await trial.rows(call.result, count, table.k)
    error = 0.0
    for values, place, old in zip(found, places, before, strict=True):
        wanted = [scale * value + other for value, other in zip(rows[place], old, strict=True)]
        error = max(error, largest_error(values, wanted, max(map(abs, [*wanted, *old]))))
    return error


async def project(trial: Trial, stage: Stage, call: OpCall) -> float:
    weights, a, out, width = (call.arguments[name] for name in ("weights", "a", "out", "width"))
    sources = stage.sources(call.arguments["outputs_only"])
    inputs = await inputs_of(trial, a, sources)
    biases, scale, cap = await _biases(trial, call, width), call.arguments["scale"], call.arguments["cap"]
    await trial.run(call.dispatches)
    found = await trial.rows(out, len(sources), width)
    offset, error = 0, 0.0
    for weight in weights:
        sums = await sums_of(trial, weight, inputs)
        for column, row in enumerate(found):
            wanted = [scale * (products[column][0] + biases[offset + f]) for f, products in sums.items()]
            if cap:
                wanted = [cap * math.tanh(value / cap) for value in wanted]
            values = [row[offset + feature] for feature in sums]
            error = max(error, largest_error(values, wanted, scale * _size(sums, column)))
        offset += weight.features
    squares = call.arguments["squares"]
    return error if squares is None else max(error, await _squares_error(trial, squares, found))


async def _squares_error(trial: Trial, squares: Buffer, rows: Sequence[Sequence[float]]) -> float:
    """The error of sums of squares of 32 values each, given those values."""
    error = 0.0
    for values, row in zip(await trial.rows(squares, len(rows), ceil_div(len(rows[0]), 32)), rows, strict=True):
        wanted = [sum(v * v for v in row[start : start + 32]) for start in range(0, len(row), 32)]
        error = max(error, largest_error(values, wanted, max(wanted)))
    return error


async def gated(trial: Trial, stage: Stage, call: OpCall) -> float:
    weights, a = call.arguments["weights"], call.arguments["a"]
    features = weights[0].features
    gate_of = GATES[call.arguments["gate"]]
    inputs = await inputs_of(trial, a, range(len(stage.rows)))
    biases = await _biases(trial, call, 2 * features)
    gates = await sums_of(trial, weights[0], inputs)
    ups = await sums_of(trial, weights[-1], inputs, port=weights[-1].ports - 1)
    await trial.run(call.dispatches)
    h: Activation = call.result
    found = await trial.activations(h, len(stage.rows))
    error = 0.0
    for column, (row, slack) in enumerate(zip(found.rows, found.slack, strict=True)):
        wanted, size = [], 0.0
        for feature in gates:
            (gate, gate_size), (up, up_size) = gates[feature][column], ups[feature][column]
            gate, up = gate + biases[feature], up + biases[features + feature]
            opened = gate_of(gate)
            wanted.append(opened * up)
            size = max(size, gate_size * steepness(gate_of, gate) * abs(up) + up_size * abs(opened))
        values = [row[feature] for feature in gates]
        error = max(error, largest_error(values, wanted, size, [slack[feature] for feature in gates]))
    return error


async def activated(trial: Trial, stage: Stage, call: OpCall) -> float:
    weight, function = call.arguments["weight"], GATES[call.arguments["activation"]]
    inputs = await inputs_of(trial, call.arguments["a"], range(len(stage.rows)))
    biases = await _biases(trial, call, weight.features)
    sums = await sums_of(trial, weight, inputs)
    await trial.run(call.dispatches)
    found = await trial.activations(call.result, len(stage.rows))
    error = 0.0
    for column, (row, slack) in enumerate(zip(found.rows, found.slack, strict=True)):
        values = {feature: products[column][0] + biases[feature] for feature, products in sums.items()}
        wanted = list(map(function, values.values()))
        size = max(sums[feature][column][1] * steepness(function, value) for feature, value in values.items())
        made = [row[feature] for feature in sums]
        error = max(error, largest_error(made, wanted, size, [slack[feature] for feature in sums]))
    return error


async def add_to_residual(trial: Trial, stage: Stage, call: OpCall) -> float:
    weight, a, x = (call.arguments[name] for name in ("weight", "a", "x"))
    inputs = await inputs_of(trial, a, range(len(stage.rows)))
    biases, scale = await _biases(trial, call, weight.features), call.arguments["scale"]
    sums = await sums_of(trial, weight, inputs)
    before = await trial.rows(x, len(stage.rows), weight.features)
    await trial.run(call.dispatches)
    after = await trial.rows(x, len(stage.rows), weight.features)
    error = 0.0
    for column, (old, new) in enumerate(zip(before, after, strict=True)):
        wanted = [old[feature] + scale * (sums[feature][column][0] + biases[feature]) for feature in sums]
        size = max(scale * _size(sums, column), *(abs(old[feature]) for feature in sums))
        error = max(error, largest_error([new[feature] for feature in sums], wanted, size))
    return max(error, await normed_error(trial, after, call.result, call.arguments["norm"].gain))


async def normed_error(trial: Trial, x: list[list[float]], h: Activation, gain: Buffer) -> float:
    """The error of a normed activation and its sums of squares, given the rows that were normed."""
    assert h.squares is not None
    gains = await trial.vector(gain, h.width)
    squares = await trial.rows(h.squares, len(x), square_words(h.width))
    found: Values = await trial.activations(h, len(x))
    error = 0.0
    for row, sums, values, slack in zip(x, squares, found.rows, found.slack, strict=True):
        wanted = list(map(mul, row, gains))
        error = max(error, largest_error(values, wanted, max(map(abs, wanted)), slack))
        exact = [sum(v * v for v in row[start : start + 32]) for start in range(0, h.width, 32)]
        exact += [0.0] * (len(sums) - len(exact))
        error = max(error, largest_error(sums, exact, max(exact)))
    return error


async def inputs_of(trial: Trial, a: Activation, sources: Sequence[int]) -> list[list[float]]:
    """What each column of a product reads, with the norm's factor."""
    count = max(sources) + 1
    rows = (await trial.activations(a, count)).rows
    if a.squares is not None:
        squares = await trial.rows(a.squares, count, square_words(a.width))
        factors = [1 / math.sqrt(sum(row) / a.width + a.eps) for row in squares]
        rows = [[factor * value for value in row] for factor, row in zip(factors, rows, strict=True)]
    return [rows[source] for source in sources]


async def _biases(trial: Trial, call: OpCall, count: int) -> list[float]:
    bias = call.arguments["bias"]
    return [0.0] * count if bias is None else await trial.vector(bias, count)


async def sums_of(trial: Trial, weight: Weight, inputs: list[list[float]], port: int = 0, expert: int = 0) -> Sums:
    """The products of a few features of one of the weight's experts."""
    first = expert * weight.features
    rows = await trial.weights(weight, [first + feature for feature in _few_features(weight)], port)
    if weight.factors is not None:
        factors = await trial.vector(weight.factors, weight.experts * weight.ports * weight.features)
        start = (expert * weight.ports + port) * weight.features - first
        rows = {feature: [factors[start + feature] * value for value in row] for feature, row in rows.items()}
    return {
        feature - first: [(sum(terms), sum(map(abs, terms))) for terms in (list(map(mul, row, x)) for x in inputs)]
        for feature, row in rows.items()
    }


def _few_features(weight: Weight) -> list[int]:
    """Four features, as a thread makes them, at the ends of each part and in its middle; those of an expert."""
    found: set[int] = set()
    for part in weight.parts:
        stop = min(part.stop, weight.features)
        middle = (part.start + stop) // 2 & ~3
        for start in (part.start, middle, (stop - 1) & ~3):
            found.update(range(start, min(start + 4, stop)))
    return sorted(found)


def _size(sums: Sums, column: int) -> float:
    return max(products[column][1] for products in sums.values())


def _silu(value: float) -> float:
    return value / (1 + math.exp(-value)) if value > -700 else 0.0


def _gelu(value: float) -> float:
    return 0.5 * value * math.erfc(-value / math.sqrt(2))


def _gelu_tanh(value: float) -> float:
    return 0.5 * value * (1 + math.tanh(math.sqrt(2 / math.pi) * (value + 0.044715 * value**3)))


GATES: dict[str, Callable[[float], float]] = {
    "silu": _silu,
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "relu": lambda value: max(value, 0.0),
    "relu2": lambda value: max(value, 0.0) ** 2,
}


def steepness(function: Callable[[float], float], value: float) -> float:
    """How much larger errors of a value are once it has gone through a function, one at least."""
    return max(1.0, abs(function(value + 1e-3) - function(value - 1e-3)) / 2e-3)
