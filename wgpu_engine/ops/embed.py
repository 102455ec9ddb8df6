"""Token embeddings."""

from wgpu_engine.gpu.device import Buffer
from wgpu_engine.ops.builder import Activation, Codec, PlanBuilder, ceil_div, op, square_words
from wgpu_engine.ops.weight import Norm, Weight


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
    h = builder.activation(width, codec, "normed")
    squares = builder.squares(width)
    for part in table.parts:
        shader = builder.shader(
            "embed/embed.wgsl",
            f"{table.quant.name}.{codec}",
            quant=table.quant.name,
            quant_is_float=table.quant.is_float,
            planes=part.plane_constants,
            width=width,
            codec=codec,
            square_words=square_words(width),
            part_start=part.start,
            part_stop=part.stop,
            scale=scale,
        )
        buffers = (part.buffer, builder.state, builder.slots, x, norm.gain, squares, h)
        builder.add(shader, buffers, (ceil_div(width, 32), builder.rows, 1))
    return x, Activation(h, width, codec, squares, norm.eps)
