"""Matrix products straight from quantized weights, with what follows them fused in."""

from typing import Any, Literal

from wgpu_engine.errors import UnsupportedModelError
from wgpu_engine.files.grids import grid
from wgpu_engine.gpu.device import WORKGROUPS_PER_DIMENSION, Buffer, Dispatch
from wgpu_engine.ops.builder import Activation, Codec, PlanBuilder, ceil_div, op, row_floats, square_words
from wgpu_engine.ops.variants import Problem, Variant, variants
from wgpu_engine.ops.weight import Norm, Weight, WeightPart

Binding = tuple[str, tuple[str, str], Buffer]
FLOATS = "array<vec4<f32>>"

Gate = Literal["silu", "gelu", "gelu_tanh", "relu", "relu2"]
"""activation functions: `gelu` by erf, `gelu_tanh` its approximation, `relu2` the square of `relu`"""


def codec_for(builder: PlanBuilder, *weights: Weight) -> Codec:
    """The codec of an activation that these weights read: int8 in `fast`, if all of them are quantized."""
    fast = builder.precision == "fast" and all(w.k % 32 == 0 and not w.quant.is_float for w in weights)
    return "q8" if fast else "f32"


@op
def project(
    builder: PlanBuilder,
    weights: tuple[Weight, ...],
    a: Activation,
    out: Buffer,
    width: int,
    *,
    bias: Buffer | None = None,
    scale: float = 1.0,
    cap: float = 0.0,
    outputs_only: bool = False,
    squares: Buffer | None = None,
) -> None:
    """out = (a @ weights.T (+ bias)) * scale, f32 [rows, width] with rows padded to 16 bytes.

    Several weights lie one below the other. With a `cap` results v become cap * tanh(v / cap). With `outputs_only`
    columns are the plan's outputs instead of its rows, and read the rows that they belong to. `squares` f32 [rows,
    square_words(width)] gets sums of squares of 32 results each.
    """
    bindings: list[Binding] = [("out", ("read_write", FLOATS), out)]
    if squares is not None:
        bindings.append(("squares", ("read_write", "array<f32>"), squares))
    offset = 0
    for weight in weights:
        assert offset % (32 if squares else 4) == 0, "features are written four at a time, squares of 32"
        multiply(
            builder,
            weight,
            a,
            "store",
            bindings,
            bias=bias,
            scale=scale,
            cap=cap,
            gather=outputs_only,
            squared=squares is not None,
            square_words=square_words(width),
            out_stride=row_floats(width),
            out_offset=offset,
        )
        offset += weight.features


@op
def gated(
    builder: PlanBuilder,
    weights: tuple[Weight, ...],
    a: Activation,
    codec: Codec,
    *,
    gate: Gate = "silu",
    bias: Buffer | None = None,
) -> Activation:
    """gate(a @ gate.T) * (a @ up.T), [rows, features] in `codec`, from one weight of two ports or from two weights.

    Raises:
        UnsupportedModelError: features that aren't fours, where two weights, biases or scales lie one behind the other.
    """
    features = weights[0].features
    if features % 4 and (len(weights) > 1 or bias is not None or weights[0].factors is not None):
        raise UnsupportedModelError(
            f"the feed-forward network has {features} features, which are no multiple of 4, and biases, scales or two "
            "types of weights: convert the model without them, with one type for gate and up"
        )
    h = builder.activation(features, codec, "gated")
    if len(weights) == 1:
        binding: Binding = ("h", activation_binding(codec), h)
        multiply(builder, weights[0], a, "gate", [binding], bias=bias, gate=gate, out_codec=codec)
    else:
        both = builder.floats(2 * features, "gate and up")
        project(builder, weights, a, both, 2 * features, bias=bias)
        add_gate(builder, both, h, features, codec, gate)
    return Activation(h, features, codec)


def add_gate(
    builder: PlanBuilder, both: Buffer, h: Buffer, features: int, codec: Codec, gate: Gate, pairs: int = 1
) -> None:
    """h = gate(first half of both) * second half, for `pairs` experts a row."""
    shader = builder.shader("matmul/gate.wgsl", f"{gate}.{codec}", gate=gate, codec=codec, width=features, pairs=pairs)
    builder.add(shader, (builder.state, both, h), (ceil_div(features, 32), builder.rows * pairs, 1))


@op
def activated(
    builder: PlanBuilder,
    weight: Weight,
    a: Activation,
    codec: Codec,
    *,
    activation: Gate,
    bias: Buffer | None = None,
) -> Activation:
    """activation(a @ weight.T (+ bias)), [rows, features] in `codec`."""
    h = builder.activation(weight.features, codec, "activated")
    binding: Binding = ("h", activation_binding(codec), h)
    multiply(builder, weight, a, "gate", [binding], bias=bias, gate=activation, out_codec=codec)
    return Activation(h, weight.features, codec)


@op
def add_to_residual(
    builder: PlanBuilder,
    weight: Weight,
    a: Activation,
    x: Buffer,
    norm: Norm,
    codec: Codec,
    *,
    bias: Buffer | None = None,
    scale: float = 1.0,
) -> Activation:
    """x += (a @ weight.T (+ bias)) * scale; returns the normed x for the next products, in `codec`.

    Raises:
        UnsupportedModelError: the weight has both factors and a bias.
    """
    assert norm.deferred, "only the factor of an RMS norm can be left to readers"
    if bias is not None and weight.factors is not None:
        # one buffer too many
        raise UnsupportedModelError(
            f"the tensor {weight.name} has both a scale and a bias, which is not supported: use another version of the "
            "model"
        )
    h = builder.activation(weight.features, codec, "normed")
    squares = builder.squares(weight.features)
    multiply(
        builder,
        weight,
        a,
        "residual_norm",
        [
            ("x", ("read_write", FLOATS), x),
            ("gain", ("read", FLOATS), norm.gain),
            ("squares", ("read_write", "array<f32>"), squares),
            ("h", activation_binding(codec), h),
        ],
        bias=bias,
        scale=scale,
        out_codec=codec,
    )
    return Activation(h, weight.features, codec, squares, norm.eps)


def activation_binding(codec: Codec) -> tuple[str, str]:
    return ("read_write", "array<u32>" if codec == "q8" else FLOATS)


def multiply(
    builder: PlanBuilder,
    weight: Weight,
    a: Activation,
    epilogue: str,
    bindings: list[Binding],
    *,
    bias: Buffer | None = None,
    scale: float = 1.0,
    cap: float = 0.0,
    gather: bool = False,
    experts: str = "",
    columns: int | None = None,
    groups: int = 0,
    **values: Any,
) -> None:
    """Adds a product with `epilogue` (`matmul/epilogue.wgsl`), which writes to `bindings`.

    Columns are rows, outputs with `gather`, or what `experts` says (`shaders/experts`): `groups` of at most `columns`
    each, or rows that go through their experts one by one.
    """
    assert a.width == weight.k, f"{weight.name}: {a.width} activations meet {weight.k} columns"
    assert a.codec == "f32" or not weight.quant.is_float, f"{weight.name}: float weights need float activations"
    assert experts or weight.experts == 1, f"{weight.name}: which of the experts?"
    bindings = list(bindings)
    if bias is not None:
        bindings.append(("bias", ("read", FLOATS), bias))
    if a.squares is not None:
        bindings.append(("squares_in", ("read", FLOATS), a.squares))
    if weight.factors is not None:
        bindings.append(("factors", ("read", FLOATS), weight.factors))
        values["scaled"] = True
    values["uniform_grid"] = bool(weight.quant.grid) and builder.device.adapter.kind == "cpu"
    if values["uniform_grid"]:
        # such adapters gather from uniform buffers, where they branch for each lane of a load from storage
        table = grid(weight.quant.grid)
        declaration = ("uniform", f"array<vec4<u32>, {len(table) // 16}>")
        bindings.append(("grid_table", declaration, builder.pool.table(table, f"grid {weight.quant.grid}")))
    columns = columns or (builder.outputs if gather else builder.rows)
    problem = Problem(
        weight.quant.name, a.codec, weight.features, weight.k, weight.ports, 1 if experts == "row" else columns
    )
    ways = variants(builder, problem)
    if groups:
        ways = [way for way in ways if columns % (way.columns * way.tile) == 0] or [Variant()]
    tuned = builder.tuning.get(problem)
    values = {"squared": False, "square_words": square_words(weight.features)} | values
    values |= {
        "epilogue": epilogue,
        "bias": bias is not None,
        "scale": scale,
        "cap": cap,
        "gather": gather,
        "experts": experts,
    }

    def dispatches(variant: Variant) -> list[Dispatch]:
        made = variant.columns * variant.tile
        pieces = groups * (columns // made) if groups else ceil_div(columns, made)
        cut = {"cuts": columns // made} if groups else {}
        return [_dispatch(builder, weight, part, a, variant, pieces, bindings, values | cut) for part in weight.parts]

    # an expert's product stands on what was chosen, which a trial lacks
    if builder.trials is not None and problem not in builder.trials and not experts:
        builder.trials[problem] = {way: dispatches(way) for way in ways}
    for dispatch in dispatches(tuned if tuned in ways else ways[0]):
        builder.add(dispatch.shader, dispatch.buffers, dispatch.grid)


def _dispatch(
    builder: PlanBuilder,
    weight: Weight,
    part: WeightPart,
    a: Activation,
    variant: Variant,
    pieces: int,
    bindings: list[Binding],
    values: dict[str, Any],
) -> Dispatch:
    blocks = ceil_div(min(part.features, weight.features), 32)
    grid_x = min(blocks, WORKGROUPS_PER_DIMENSION)
    shader = builder.shader(
        variant.template,
        f"{weight.name}.{a.codec}x{pieces}",
        **_weight_values(weight, part),
        codec=a.codec,
        extra_bindings=tuple((name, declaration) for name, declaration, _ in bindings),
        normed=a.squares is not None,
        square_words_in=square_words(a.width),
        width_in=a.width,
        eps=a.eps,
        team=variant.team,
        columns=variant.columns,
        tile=variant.tile,
        share=variant.share,
        pairs=variant.pairs and weight.quant.nibbles,
        grid_x=grid_x,
        **values,
    )
    grid = (grid_x, pieces, ceil_div(blocks, grid_x))
    return Dispatch(shader, (part.buffer, builder.state, a.buffer, *(buffer for _, _, buffer in bindings)), grid)


def _weight_values(weight: Weight, part: WeightPart) -> dict[str, Any]:
    return {
        "quant": weight.quant.name,
        "quant_is_float": weight.quant.is_float,
        "superblocks": weight.quant.block == 256 and weight.k % 64 == 0,
        "planes": part.plane_constants,
        "k": weight.k,
        "ports": weight.ports,
        "features": weight.features,
        "part": part.features,
        # of an expert
        "span": min(part.features, weight.features),
        "first_block": part.start % weight.features // 32,
        "first_expert": part.start // weight.features,
    }
