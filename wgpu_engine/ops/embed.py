"""Embeddings of tokens, and of positions where a model learned them."""

from typing import Literal

from wgpu_engine.gpu.device import Buffer
from wgpu_engine.ops.builder import Activation, Codec, PlanBuilder, ceil_div, op, square_words
from wgpu_engine.ops.weight import Norm, Weight

Index = Literal["token", "position", "first"]


@op
def embed(
    builder: PlanBuilder, table: Weight, norm: Norm, codec: Codec, *, scale: float = 1.0
) -> tuple[Buffer, Activation]:
    """The residual stream x f32 [rows, width] of the rows' tokens, and the normed x for the first products.

    `table` is [vocab, width]. A token that the table lacks leaves its row unwritten: ids are checked by the engine.
    """
    assert norm.deferred, "only the factor of an RMS norm can be left to readers"
    width = table.k
    x = builder.floats(width, "residual")
    h = Activation(builder.activation(width, codec, "normed"), width, codec, builder.squares(width), norm.eps)
    _dispatch(builder, table, "token", x, scale, normed=(norm, h))
    return x, h


@op
def look_up(
    builder: PlanBuilder, table: Weight, index: Index = "token", *, scale: float = 1.0, onto: Buffer | None = None
) -> Buffer:
    """The residual stream x f32 [rows, width]: for each row that of `table` [entries, width] at `index`.

    That is the row's token, its position, or the first entry for all. With `onto` they are added to the x that it is.
    An index that the table lacks leaves its row as it was.
    """
    x = builder.floats(table.k, "residual") if onto is None else onto
    _dispatch(builder, table, index, x, scale, add=onto is not None)
    return x


def _dispatch(
    builder: PlanBuilder,
    table: Weight,
    index: Index,
    x: Buffer,
    scale: float,
    *,
    add: bool = False,
    normed: tuple[Norm, Activation] | None = None,
) -> None:
    width, codec = table.k, normed[1].codec if normed else "f32"
    written: tuple[Buffer, ...] = ()
    if normed is not None:
        norm, h = normed
        assert h.squares is not None
        written = (norm.gain, h.squares, h.buffer)
    for part in table.parts:
        shader = builder.shader(
            "embed/embed.wgsl",
            f"{table.quant.name}.{codec}",
            quant=table.quant.name,
            quant_is_float=table.quant.is_float,
            uniform_grid=False,
            planes=part.plane_constants,
            width=width,
            codec=codec,
            square_words=square_words(width),
            part_start=part.start,
            part_stop=part.stop,
            index=index,
            scale=scale,
            add=add,
            normed=normed is not None,
        )
        buffers = (part.buffer, builder.state, builder.slots, x, *written)
        builder.add(shader, buffers, (ceil_div(width, 32), builder.rows, 1))
