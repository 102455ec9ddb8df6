"""Embeddings of texts out of the rows of an encoder."""

from typing import Literal

from wgpu_engine.gpu.device import Buffer
from wgpu_engine.ops.builder import PlanBuilder, op, row_floats
from wgpu_engine.ops.norm import norm_threads

Pooling = Literal["mean", "cls"]


@op
def pool(builder: PlanBuilder, x: Buffer, width: int, kind: Pooling) -> Buffer:
    """Embeddings f32 [outputs, width] of length 1: the mean of a text's rows in x f32 [rows, width], or the first row.

    The plan's outputs are the first rows of texts. A text's other rows follow: as many as there are positions up to the
    last that the first row sees (`Row.sees`).
    """
    embeddings = builder.buffer(4 * builder.outputs * row_floats(width), "embeddings")
    shader = builder.shader("pool/pool.wgsl", kind, width=width, kind=kind, threads=norm_threads(width))
    builder.add(shader, (builder.state, builder.slots, x, embeddings), (builder.outputs, 1, 1))
    return embeddings
