"""Causal attention over the paged cache."""

from dataclasses import dataclass
from typing import Any

from wgpu_engine.gpu.device import Buffer
from wgpu_engine.ops.builder import Activation, Codec, PlanBuilder, ceil_div, op
from wgpu_engine.ops.kv import KVCache

PARTITION = 256
"""positions that share a softmax before partitions are folded together"""
_SPLIT_ROWS = 8
"""plans of more rows keep an adapter busy without splitting the context"""
_THREADS = 64
_UNROLLED = 2048
"""values of the queries of a key head up to which lanes keep them in registers"""


@dataclass(frozen=True)
class Heads:
    """The attention heads of a layer."""

    count: int
    kv_count: int
    head_dim: int
    rope_dim: int
    neox: bool
    """rotated pairs are half of rope_dim apart, instead of neighbours"""
    scale: float
    """factor of the scores"""

    @property
    def width(self) -> int:
        """Values of q, k and v together in a row."""
        return (self.count + 2 * self.kv_count) * self.head_dim

    def values(self) -> dict[str, Any]:
        return {
            "heads": self.count,
            "kv_heads": self.kv_count,
            "head_dim": self.head_dim,
            "row_width": self.width,
        }


@op
def attend(
    builder: PlanBuilder, qkv: Buffer, heads: Heads, cache: KVCache, layer: int, positions: int, codec: Codec
) -> Activation:
    """softmax(q k^T * scale) v for every row over its slot's positions 0..row's own; [rows, heads * head_dim].

    `positions` bounds the rows' positions. A plan of few rows over a long context is split over it.
    """
    if heads.head_dim % 32:
        codec = "f32"
    width = heads.count * heads.head_dim
    h = builder.activation(width, codec, "attended")
    partitions = ceil_div(positions, PARTITION)
    splits = partitions if builder.rows <= _SPLIT_ROWS else 1
    split = splits > 1
    partial_bytes = 4 * builder.rows * heads.count * partitions * (heads.head_dim + 4)
    out = builder.buffer(partial_bytes, "partials") if split else h
    group = heads.count // heads.kv_count
    lanes = builder.shuffle and builder.device.adapter.kind == "cpu" and group * heads.head_dim <= _UNROLLED
    values = {
        **heads.values(),
        **cache.values(),
        "group": group,
        "scale": heads.scale,
        "codec": codec,
        "partition": PARTITION,
        "partitions": partitions,
        "splits": splits,
        "split": split,
        # a thread for each four values of a head at least
        "threads": _THREADS * ceil_div(heads.head_dim, 4 * _THREADS),
    }
    label = f"{cache.kv_type}.{codec}"
    builder.add(
        builder.shader("attention/lanes.wgsl" if lanes else "attention/workgroup.wgsl", label, **values),
        (builder.state, builder.slots, qkv, cache.tables, cache.layers[layer], out),
        (heads.kv_count if lanes else heads.count, builder.rows, splits),
    )
    if split:
        builder.add(
            builder.shader("attention/reduce.wgsl", label, **values),
            (builder.state, builder.slots, out, h),
            (ceil_div(width, 32), builder.rows, 1),
        )
    return Activation(h, width, codec)
