"""The products of a mixture of experts, each row's with the weights of the experts that it was routed to."""

from typing import Any

from wgpu_engine.gpu.device import Buffer
from wgpu_engine.ops.builder import Activation, Codec, PlanBuilder, ceil_div, op, row_floats, square_words
from wgpu_engine.ops.matmul import FLOATS, Binding, Gate, activation_binding, add_gate, multiply
from wgpu_engine.ops.routing import Routing
from wgpu_engine.ops.weight import Norm, Weight


@op
def gated_experts(
    builder: PlanBuilder,
    weights: tuple[Weight, ...],
    a: Activation,
    routing: Routing,
    codec: Codec,
    *,
    gate: Gate = "silu",
    label: str = "gated",
) -> Activation:
    """gate(a @ gate.T) * (a @ up.T), [rows * used, features] in `codec`, of each row's experts in order.

    From one weight of two ports, or from two weights; into scratch memory that is called `label`.
    """
    features = weights[0].features
    h = builder.activation(features, codec, label, routing.pairs)
    if len(weights) == 1:
        bindings = [("h", activation_binding(codec), h)]
        _multiply_groups(builder, weights[0], a, "gate", bindings, routing, routing.used, gate=gate, out_codec=codec)
    else:
        both = builder.floats(2 * features, "gate and up", routing.pairs)
        for number, weight in enumerate(weights):
            _store(builder, weight, a, both, 2 * features, number * features, routing, routing.used)
        add_gate(builder, both, h, features, codec, gate, routing.used)
    return Activation(h, features, codec)


@op
def add_experts(
    builder: PlanBuilder, weight: Weight, a: Activation, routing: Routing, x: Buffer, norm: Norm, codec: Codec
) -> Activation:
    """x += the sum over each row's experts of share * (a @ weight.T); returns the normed x for the next products.

    `a` is what `gated_experts` makes. Terms are added to x in order of the experts' numbers.
    """
    width = weight.features
    h = builder.activation(width, codec, "normed")
    squares = builder.squares(width)
    # factors would be one binding too many for all in one dispatch
    if routing.group_size == 1 and weight.factors is None:
        bindings = [
            ("x", ("read_write", FLOATS), x),
            ("gain", ("read", FLOATS), norm.gain),
            ("squares", ("read_write", "array<f32>"), squares),
            ("h", activation_binding(codec), h),
            ("choices", ("read", "array<vec2<u32>>"), routing.choices),
        ]
        multiply(builder, weight, a, "residual_norm", bindings, experts="row", used=routing.used, out_codec=codec)
    else:
        given = builder.floats(width, "given by experts", routing.pairs)
        _store(builder, weight, a, given, width, 0, routing, 1)
        shader = builder.shader(
            "experts/combine.wgsl",
            f"{width}.{codec}",
            width=width,
            codec=codec,
            used=routing.used,
            square_words=square_words(width),
        )
        buffers = (builder.state, routing.choices, given, x, norm.gain, squares, h)
        builder.add(shader, buffers, (ceil_div(width, 256), builder.rows, 1))
    return Activation(h, width, codec, squares, norm.eps)


def _store(
    builder: PlanBuilder,
    weight: Weight,
    a: Activation,
    out: Buffer,
    width: int,
    offset: int,
    routing: Routing,
    pairs: int,
) -> None:
    """out[:, offset :] = a @ weight.T for each pair, rows of out being of `width`; `a` has a row for each `pairs`."""
    bindings = [("out", ("read_write", FLOATS), out)]
    stride = row_floats(width)
    _multiply_groups(builder, weight, a, "store", bindings, routing, pairs, out_stride=stride, out_offset=offset)


def _multiply_groups(
    builder: PlanBuilder,
    weight: Weight,
    a: Activation,
    epilogue: str,
    bindings: list[Binding],
    routing: Routing,
    pairs: int,
    **values: Any,
) -> None:
    multiply(
        builder,
        weight,
        a,
        epilogue,
        [*bindings, ("groups", ("read", "array<u32>"), routing.groups)],
        experts="groups",
        columns=routing.group_size,
        groups=routing.most_groups,
        most_groups=routing.most_groups,
        rows_of_pairs=pairs,
        **values,
    )
