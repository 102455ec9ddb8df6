"""Rotary position embedding, and the write of keys and values into the cache."""

import math
import struct
from collections.abc import Sequence

from wgpu_engine.gpu.device import Buffer, Device
from wgpu_engine.ops.attention import Heads
from wgpu_engine.ops.builder import PlanBuilder, ceil_div, op, square_words
from wgpu_engine.ops.kv import KVCache
from wgpu_engine.ops.weight import Norm

_THREADS = 32


def angle_table(device: Device, frequencies: Sequence[float], positions: int, magnitude: float = 1.0) -> Buffer:
    """Cosines and sines for `positions` positions of angles position * frequency, in the form of `rope/rope.wgsl`.

    `frequencies` are radians a position, one for each rotated pair; `magnitude` scales the rotated values (YaRN).
    """
    values: list[float] = []
    for step, count, scale in ((1, 256, 1.0), (256, ceil_div(positions, 256), magnitude)):
        for i in range(count):
            for frequency in frequencies:
                angle = i * step * frequency
                values += (scale * math.cos(angle), scale * math.sin(angle))
    table = device.buffer(4 * len(values), "angles")
    device.write(table, 0, struct.pack(f"<{len(values)}f", *values))
    return table


@op
def rope_and_store(
    builder: PlanBuilder,
    qkv: Buffer,
    heads: Heads,
    angles: Buffer | None,
    cache: KVCache,
    layer: int,
    qk_norm: Norm | None = None,
    squares: Buffer | None = None,
) -> None:
    """Rotates q and k within qkv f32 [rows, (heads + 2 * kv_heads) * head_dim] and writes k and v into the cache.

    Without `angles` nothing is rotated. With `qk_norm`, whose gain f32 [2, head_dim] is that of queries and that of
    keys, each head of them gets an RMS norm first. With `squares` as well, which `project` wrote for qkv, the norms are
    of all queries and of all keys of a row, and the gain is f32 [(heads + kv_heads) * head_dim].
    """
    optional = [buffer for buffer in (angles, qk_norm.gain if qk_norm else None, squares) if buffer is not None]
    assert squares is None or heads.kv_count * heads.head_dim % 32 == 0, "squares are summed up for 32 values each"
    shader = builder.shader(
        "rope/rope.wgsl",
        "neox" if heads.neox else "norm",
        **heads.values(),
        **cache.values(layer),
        rope_dim=heads.rope_dim,
        neox=heads.neox,
        rotate=angles is not None,
        qk_norm=qk_norm is not None,
        row_norm=squares is not None,
        square_words=square_words(heads.width),
        eps=qk_norm.eps if qk_norm else 0.0,
        threads=_THREADS,
    )
    clusters = heads.count + 2 * heads.kv_count
    buffers = (builder.state, builder.slots, qkv, cache.tables, cache.layers[layer], *optional)
    builder.add(shader, buffers, (ceil_div(8 * clusters, _THREADS), builder.rows, 1))
