"""Matrix products straight from quantized weights, with what follows them fused in."""

from dataclasses import dataclass
from typing import Any, Literal

from wgpu_engine.gpu.device import WORKGROUPS_PER_DIMENSION, Buffer, Dispatch
from wgpu_engine.ops.builder import Activation, Codec, PlanBuilder, ceil_div, op, row_floats, square_words
from wgpu_engine.ops.weight import Norm, Weight, WeightPart

_Binding = tuple[str, tuple[str, str], Buffer]
_FLOATS = "array<vec4<f32>>"

Gate = Literal["silu", "gelu", "gelu_tanh", "relu", "relu2"]
"""activation functions: `gelu` by erf, `gelu_tanh` its approximation, `relu2` the square of `relu`"""


@dataclass(frozen=True)
class Variant:
    """How the work is cut."""

    team: int = 0
    """threads that share a feature's K (`matmul/team.wgsl`); 0: a thread makes four features (`matmul/lanes.wgsl`)"""
    columns: int = 1
    """threads for columns in a workgroup; 1 in a team"""
    tile: int = 1
    """columns a thread"""
    share: bool = False
    """lanes pass activations to each other"""
    pairs: bool = False
    """nibbles are multiplied two at a time, where there is no packed dot product in hardware"""

    @property
    def template(self) -> str:
        return "matmul/team.wgsl" if self.team else "matmul/lanes.wgsl"


@dataclass(frozen=True)
class Problem:
    """What decides which variant is fastest."""

    quant: str
    codec: Codec
    features: int
    k: int
    ports: int
    columns: int


def variants(builder: PlanBuilder, problem: Problem) -> list[Variant]:
    """Those that can run here and give the same results, the default of the adapter's kind first."""
    share = builder.shuffle
    one = problem.columns == 1
    q8 = problem.codec == "q8"
    limits = builder.device.limits
    teams = [
        Variant(team=team, tile=min(problem.columns, 4))
        for team in (8, 4, 16)
        if problem.columns <= 8
        and 32 * team <= limits.invocations
        and _team_bytes(problem, team) <= limits.workgroup_bytes
    ]
    if builder.device.adapter.kind == "cpu":
        tiles = (1,) if one else (8, 4, 16) if q8 else (4, 8)
        lanes = [Variant(tile=tile, share=share, pairs=q8) for tile in tiles]
        return [*lanes, Variant(tile=tiles[0], pairs=q8), Variant(tile=tiles[0], share=share), *teams]
    lanes = (
        [Variant()] if one else [Variant(columns=8, tile=4), Variant(columns=16, tile=4), Variant(columns=8, tile=8)]
    )
    return [*teams, *lanes, *([Variant(tile=lanes[0].tile, share=True)] if share else [])]


def _team_bytes(problem: Problem, team: int) -> int:
    runs = ceil_div(problem.k, 256) if problem.codec == "f32" else team
    return 4 * (32 * problem.ports * runs + 32 * team)


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
) -> None:
    """out = (a @ weights.T (+ bias)) * scale, f32 [rows, width] with rows padded to 16 bytes.

    Several weights lie one below the other. With a `cap` results v become cap * tanh(v / cap). With `outputs_only`
    columns are the plan's outputs instead of its rows, and read the rows that they belong to.
    """
    offset = 0
    for weight in weights:
        assert offset % 4 == 0, "features are written four at a time"
        _matmul(
            builder,
            weight,
            a,
            "store",
            [("out", ("read_write", _FLOATS), out)],
            bias=bias,
            scale=scale,
            cap=cap,
            gather=outputs_only,
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
    """gate(a @ gate.T) * (a @ up.T), [rows, features] in `codec`, from one weight of two ports or from two weights."""
    features = weights[0].features
    h = builder.activation(features, codec, "gated")
    if len(weights) == 1:
        binding: _Binding = ("h", _activation_binding(codec), h)
        _matmul(builder, weights[0], a, "gate", [binding], bias=bias, gate=gate, out_codec=codec)
    else:
        both = builder.floats(2 * features, "gate and up")
        project(builder, weights, a, both, 2 * features, bias=bias)
        shader = builder.shader("matmul/gate.wgsl", f"{gate}.{codec}", gate=gate, codec=codec, width=features)
        builder.add(shader, (builder.state, both, h), (ceil_div(features, 32), builder.rows, 1))
    return Activation(h, features, codec)


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
    binding: _Binding = ("h", _activation_binding(codec), h)
    _matmul(builder, weight, a, "gate", [binding], bias=bias, gate=activation, out_codec=codec)
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
    """x += (a @ weight.T (+ bias)) * scale; returns the normed x for the next products, in `codec`."""
    assert norm.deferred, "only the factor of an RMS norm can be left to readers"
    h = builder.activation(weight.features, codec, "normed")
    squares = builder.squares(weight.features)
    _matmul(
        builder,
        weight,
        a,
        "residual_norm",
        [
            ("x", ("read_write", _FLOATS), x),
            ("gain", ("read", _FLOATS), norm.gain),
            ("squares", ("read_write", "array<f32>"), squares),
            ("h", _activation_binding(codec), h),
        ],
        bias=bias,
        scale=scale,
        out_codec=codec,
    )
    return Activation(h, weight.features, codec, squares, norm.eps)


def _activation_binding(codec: Codec) -> tuple[str, str]:
    return ("read_write", "array<u32>" if codec == "q8" else _FLOATS)


def _matmul(
    builder: PlanBuilder,
    weight: Weight,
    a: Activation,
    epilogue: str,
    bindings: list[_Binding],
    *,
    bias: Buffer | None = None,
    scale: float = 1.0,
    cap: float = 0.0,
    gather: bool = False,
    **values: Any,
) -> None:
    assert a.width == weight.k, f"{weight.name}: {a.width} activations meet {weight.k} columns"
    assert a.codec == "f32" or not weight.quant.is_float, f"{weight.name}: float weights need float activations"
    bindings = list(bindings)
    if bias is not None:
        bindings.append(("bias", ("read", _FLOATS), bias))
    if a.squares is not None:
        bindings.append(("squares_in", ("read", _FLOATS), a.squares))
    columns = builder.outputs if gather else builder.rows
    problem = Problem(weight.quant.name, a.codec, weight.features, weight.k, weight.ports, columns)
    variant = builder.tuning.get(problem) or variants(builder, problem)[0]
    values |= {"epilogue": epilogue, "bias": bias is not None, "scale": scale, "cap": cap, "gather": gather}

    def dispatches(variant: Variant) -> list[Dispatch]:
        return [_dispatch(builder, weight, part, a, variant, columns, bindings, values) for part in weight.parts]

    if builder.trials is not None and problem not in builder.trials:
        builder.trials[problem] = {way: dispatches(way) for way in variants(builder, problem)}
    for dispatch in dispatches(variant):
        builder.add(dispatch.shader, dispatch.buffers, dispatch.grid)


def _dispatch(
    builder: PlanBuilder,
    weight: Weight,
    part: WeightPart,
    a: Activation,
    variant: Variant,
    columns: int,
    bindings: list[_Binding],
    values: dict[str, Any],
) -> Dispatch:
    blocks = ceil_div(part.features, 32)
    grid_x = min(blocks, WORKGROUPS_PER_DIMENSION)
    shader = builder.shader(
        variant.template,
        f"{weight.name}.{a.codec}x{columns}",
        **_weight_values(weight, part),
        codec=a.codec,
        extra_bindings=tuple((name, declaration) for name, declaration, _ in bindings),
        normed=a.squares is not None,
        square_words_in=square_words(a.width),
        width_in=a.width,
        eps=a.eps,
        square_words=square_words(weight.features),
        team=variant.team,
        columns=variant.columns,
        tile=variant.tile,
        share=variant.share,
        pairs=variant.pairs and weight.quant.nibbles,
        grid_x=grid_x,
        **values,
    )
    grid = (grid_x, ceil_div(columns, variant.columns * variant.tile), ceil_div(blocks, grid_x))
    return Dispatch(shader, (part.buffer, builder.state, a.buffer, *(buffer for _, _, buffer in bindings)), grid)


def _weight_values(weight: Weight, part: WeightPart) -> dict[str, Any]:
    return {
        "quant": weight.quant.name,
        "quant_is_float": weight.quant.is_float,
        "planes": part.plane_constants,
        "k": weight.k,
        "ports": weight.ports,
        "features": weight.features,
        "part": part.features,
        "first_block": part.start // 32,
    }
