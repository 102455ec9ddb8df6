"""What a mixture of experts should give: the routing, and products with the weights of each row's experts."""

import math
from collections import defaultdict

from wgpu_engine.ops.builder import OpCall
from wgpu_engine.ops.known_answers.products import GATES, Sums, inputs_of, normed_error, steepness, sums_of
from wgpu_engine.ops.known_answers.trial import Stage, Trial, largest_error
from wgpu_engine.ops.routing import Routing
from wgpu_engine.ops.weight import Weight

Choice = tuple[int, float]
"""an expert and its share"""


async def route(trial: Trial, stage: Stage, call: OpCall) -> float:
    experts, used, scale = (call.arguments[name] for name in ("experts", "used", "scale"))
    logits = await trial.rows(call.arguments["logits"], len(stage.rows), experts)
    await trial.run(call.dispatches)
    chosen = await _chosen(trial, call.result, len(logits))
    error = 0.0 if await _is_grouped(trial, call.result, chosen) else math.inf
    for row, choices in zip(logits, chosen, strict=True):
        if not all(map(math.isfinite, row)):
            continue
        best = sorted(sorted(range(experts), key=lambda expert: (-row[expert], expert))[:used])
        if [expert for expert, _ in choices] != best:
            return math.inf
        wanted = [scale * share for share in _shares(row, best, call.arguments["shares"])]
        error = max(error, largest_error([share for _, share in choices], wanted, scale))
    return error


def _shares(logits: list[float], chosen: list[int], kind: str) -> list[float]:
    if kind == "sigmoid":
        return [1 / (1 + math.exp(-max(logits[expert], -80.0))) for expert in chosen]
    powers = [math.exp(logit - max(logits)) for logit in logits]
    whole = sum(powers[expert] for expert in (chosen if kind == "chosen" else range(len(logits))))
    return [powers[expert] / whole for expert in chosen]


async def gated_experts(trial: Trial, stage: Stage, call: OpCall) -> float:
    weights, a, routing = (call.arguments[name] for name in ("weights", "a", "routing"))
    inputs = await inputs_of(trial, a, range(len(stage.rows)))
    chosen = await _chosen(trial, routing, len(inputs))
    by_pair = [row for row in inputs for _ in range(routing.used)]
    gates = await _sums(trial, weights[0], by_pair, chosen)
    ups = await _sums(trial, weights[-1], by_pair, chosen, weights[-1].ports - 1)
    await trial.run(call.dispatches)
    found = await trial.activations(call.result, len(by_pair))
    activate = GATES[call.arguments["gate"]]
    error = 0.0
    for pair, (row, slack) in enumerate(zip(found.rows, found.slack, strict=True)):
        wanted, size = [], 0.0
        for feature in gates[pair]:
            ((gate, gate_size),), ((up, up_size),) = gates[pair][feature], ups[pair][feature]
            wanted.append(activate(gate) * up)
            size = max(size, gate_size * steepness(activate, gate) * abs(up) + up_size * abs(activate(gate)))
        values = [row[feature] for feature in gates[pair]]
        error = max(error, largest_error(values, wanted, size, [slack[feature] for feature in gates[pair]]))
    return error


async def add_experts(trial: Trial, stage: Stage, call: OpCall) -> float:
    weight, a, routing, x = (call.arguments[name] for name in ("weight", "a", "routing", "x"))
    chosen = await _chosen(trial, routing, len(stage.rows))
    inputs = await inputs_of(trial, a, range(len(chosen) * routing.used))
    sums = await _sums(trial, weight, inputs, chosen)
    before = await trial.rows(x, len(chosen), weight.features)
    await trial.run(call.dispatches)
    after = await trial.rows(x, len(chosen), weight.features)
    error = 0.0
    for row, (old, new) in enumerate(zip(before, after, strict=True)):
        mine = list(zip(chosen[row], sums[row * routing.used :], strict=False))
        features = list(sums[row * routing.used])
        wanted = [old[f] + sum(share * products[f][0][0] for (_, share), products in mine) for f in features]
        sizes = [abs(old[f]) + sum(abs(share) * products[f][0][1] for (_, share), products in mine) for f in features]
        error = max(error, largest_error([new[feature] for feature in features], wanted, max(sizes)))
    return max(error, await normed_error(trial, after, call.result, call.arguments["norm"].gain))


async def _chosen(trial: Trial, routing: Routing, rows: int) -> list[list[Choice]]:
    """The experts of the first rows, as products read them."""
    count = rows * routing.used
    numbers = memoryview(await trial.read(routing.choices, 0, 2 * count))
    experts, shares = numbers.cast("I")[::2].tolist(), numbers.cast("f")[1::2].tolist()
    pairs: list[Choice] = list(zip(experts, shares, strict=True))
    return [pairs[start : start + routing.used] for start in range(0, count, routing.used)]


async def _sums(
    trial: Trial, weight: Weight, inputs: list[list[float]], chosen: list[list[Choice]], port: int = 0
) -> list[Sums]:
    """For each pair of a row and an expert the products of a few features with the pair's input."""
    pairs_of: dict[int, list[int]] = defaultdict(list)
    for pair, expert in enumerate(expert for choices in chosen for expert, _ in choices):
        pairs_of[expert].append(pair)
    found: dict[int, Sums] = {}
    for expert, pairs in pairs_of.items():
        sums = await sums_of(trial, weight, [inputs[pair] for pair in pairs], port, expert)
        for column, pair in enumerate(pairs):
            found[pair] = {feature: [products[column]] for feature, products in sums.items()}
    return [found[pair] for pair in range(len(found))]


async def _is_grouped(trial: Trial, routing: Routing, chosen: list[list[Choice]]) -> bool:
    """Whether the pairs stand in order of their experts, each group of one expert and no larger than it may be."""
    experts = [expert for choices in chosen for expert, _ in choices]
    start = 4 + 4 * routing.most_groups
    words = memoryview(await trial.read(routing.groups, 0, start + routing.pairs)).cast("I").tolist()
    order, place = words[start:], 0
    for i in range(4, 4 + 4 * min(words[0], routing.most_groups), 4):
        expert, first, end = words[i : i + 3]
        if first != place or not first < end <= min(first + routing.group_size, len(experts)):
            return False
        if {experts[pair] if pair < len(experts) else None for pair in order[first:end]} != {expert}:
            return False
        place = end
    return order[:place] == sorted(range(len(experts)), key=experts.__getitem__)
