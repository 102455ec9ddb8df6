"""Attention over the paged cache."""

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
    builder: PlanBuilder,
    qkv: Buffer,
    heads: Heads,
    cache: KVCache,
    layer: int,
    positions: int,
    codec: Codec,
    *,
    window: int = 0,
    cap: float = 0.0,
    causal: bool = True,
    sinks: Buffer | None = None,
) -> Activation:
    """softmax(q k^T * scale) v for every row over positions of its slot; [rows, heads * head_dim].

    A row sees positions 0 to its own; with `window` the last so many of these; without `causal` those up to what
    `Row.sees` says, and all of them must be in the cache. `positions` bounds the positions that rows see. With `cap`, a
    score is cap * tanh(score / cap) (Gemma 2). `sinks` f32 [heads] are scores that take part in the softmax's
    denominator and stand for no position (gpt-oss).

    A plan of few rows over a long context is split over it, where a kernel can reach what the parts make of it.
    """
    assert causal or not window, "a window ends with the row's own position"
    if heads.head_dim % 32:
        codec = "f32"
    width = heads.count * heads.head_dim
    h = builder.activation(width, codec, "attended")
    if window >= positions:
        window = 0
    # what a row sees may begin anywhere in a partition
    partitions = min(ceil_div(positions, PARTITION), ceil_div((window or positions) - 1, PARTITION) + 1)
    partial_bytes = 4 * builder.rows * heads.count * partitions * (heads.head_dim + 4)
    fits = partial_bytes <= builder.device.limits.binding_bytes
    split = builder.rows <= _SPLIT_ROWS and (window or positions) > PARTITION and fits
    out = builder.buffer(partial_bytes, "partials") if split else h
    group = heads.count // heads.kv_count
    lanes = builder.shuffle and builder.device.adapter.kind == "cpu" and group * heads.head_dim <= _UNROLLED
    values = {
        **heads.values(),
        **cache.values(layer),
        "group": group,
        "scale": heads.scale,
        "codec": codec,
        "partition": PARTITION,
        "partitions": partitions,
        "splits": partitions if split else 1,
        "split": split,
        "window": window,
        "cap": cap,
        "causal": causal,
        "sinks": sinks is not None,
        # a thread for each four values of a head at least
        "threads": _THREADS * ceil_div(heads.head_dim, 4 * _THREADS),
    }
    label = f"{cache.kv_type}.{codec}"
    ends = (sinks,) if sinks is not None else ()
    builder.add(
        builder.shader("attention/lanes.wgsl" if lanes else "attention/workgroup.wgsl", label, **values),
        (builder.state, builder.slots, qkv, cache.tables, cache.layers[layer], out, *(() if split else ends)),
        (heads.kv_count if lanes else heads.count, builder.rows, partitions if split else 1),
    )
    if split:
        builder.add(
            builder.shader("attention/reduce.wgsl", label, **values),
            (builder.state, builder.slots, out, h, *ends),
            (ceil_div(width, 32), builder.rows, 1),
        )
    return Activation(h, width, codec)
