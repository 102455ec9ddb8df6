"""Gated short convolutions: causal, over a few positions, each channel by itself (LFM2)."""

from dataclasses import dataclass

from wgpu_engine.gpu.device import Buffer
from wgpu_engine.ops.builder import Activation, Codec, PlanBuilder, ceil_div, op
from wgpu_engine.ops.kv import KVCache

_THREADS = 64


@dataclass(frozen=True)
class Convolution:
    """The weights of a convolution of `width` channels over `kernel` positions."""

    taps: Buffer
    """f32 [kernel + 1, width]: the factors from the oldest position to the row's own, then the bias"""
    width: int
    kernel: int


@op
def short_conv(
    builder: PlanBuilder, bcx: Buffer, conv: Convolution, cache: KVCache, layer: int, codec: Codec
) -> Activation:
    """C * (convolution of B * x) for every row, [rows, width] in `codec`; `bcx` f32 [rows, 3 * width] is B, C, x.

    B * x goes into the layer's state, f32 [slots, ring, width], at the position modulo the ring. A ring is long enough
    if it holds all rows of a plan and the positions before them that they read. Positions before 0 count as zeros.
    """
    assert conv.width % 4 == 0, "channels are taken four at a time"
    ring = cache.rings[layer]
    assert ring >= builder.rows + conv.kernel - 1, "the ring is too short for the plan"
    h = builder.activation(conv.width, codec, "convolved")
    values = {"width": conv.width, "ring": ring, "threads": _THREADS}
    grid = (ceil_div(conv.width, 4 * _THREADS), builder.rows, 1)
    buffers = (builder.state, builder.slots, bcx, cache.layers[layer])
    builder.add(builder.shader("short_conv/store.wgsl", "", **values), buffers, grid)
    shader = builder.shader("short_conv/convolve.wgsl", codec, **values, kernel=conv.kernel, codec=codec)
    builder.add(shader, (*buffers, conv.taps, h), grid)
    return Activation(h, conv.width, codec)
