"""The attention of a block: queries, keys and values, the norms and biases they may have, and the output.

Tensor names: GGUF.
"""

from dataclasses import dataclass

from wgpu_engine.gpu.device import Buffer
from wgpu_engine.models.linear import Linear, bias_of, load_linear
from wgpu_engine.models.tensors import Tensors
from wgpu_engine.ops.attention import Heads, attend
from wgpu_engine.ops.builder import Activation, Codec, PlanBuilder, square_words
from wgpu_engine.ops.kv import KVCache
from wgpu_engine.ops.matmul import codec_for, project
from wgpu_engine.ops.repack import Loader
from wgpu_engine.ops.rope import rope_and_store
from wgpu_engine.ops.weight import Norm, Weight


@dataclass(frozen=True)
class Attention:
    """The weights of a block's attention."""

    heads: Heads
    qkv: Linear
    """one weight, or more where their types differ"""
    output: Linear
    qk_norm: Norm | None = None
    """gains of queries and of keys, one behind the other"""
    by_row: bool = False
    """whether the norm is one of all queries and one of all keys of a row, instead of one of each head"""

    @property
    def reads(self) -> tuple[Weight, ...]:
        """The weights that read the block's input."""
        return self.qkv.weights

    @property
    def bytes(self) -> int:
        return self.qkv.bytes + self.output.bytes

    def attend(
        self,
        builder: PlanBuilder,
        h: Activation,
        angles: Buffer | None,
        cache: KVCache,
        layer: int,
        positions: int,
        *,
        codec: Codec | None = None,
        window: int = 0,
        cap: float = 0.0,
        causal: bool = True,
    ) -> Activation:
        """What the output reads, [rows, heads * head_dim], in `codec` or the one that it reads best.

        Keys and values go into the cache of the layer. For the rest see `ops/attention.py`; without `angles` nothing
        is rotated.
        """
        heads = self.heads
        qkv = builder.floats(heads.width, "qkv")
        size = 4 * builder.rows * square_words(heads.width)
        squares = builder.buffer(size, "squares of qkv") if self.by_row else None
        project(builder, self.qkv.weights, h, qkv, heads.width, bias=self.qkv.bias, squares=squares)
        rope_and_store(builder, qkv, heads, angles, cache, layer, self.qk_norm, squares)
        codec = codec or codec_for(builder, *self.output.weights)
        return attend(builder, qkv, heads, cache, layer, positions, codec, window=window, cap=cap, causal=causal)


async def load_attention(
    tensors: Tensors,
    prefix: str,
    width: int,
    heads: Heads,
    loader: Loader,
    *,
    qk_norm: Norm | None = None,
    by_row: bool = False,
) -> Attention:
    """Of a block `width` values wide, whether queries, keys and values lie in one tensor or in three.

    Raises:
        ModelFileError: a tensor is missing or has the wrong shape.
    """
    q, kv = heads.count * heads.head_dim, heads.kv_count * heads.head_dim
    if f"{prefix}attn_qkv.weight" in tensors:
        qkv = await load_linear(tensors, f"{prefix}attn_qkv", q + 2 * kv, width, loader)
    else:
        sizes = {f"{prefix}attn_q": q, f"{prefix}attn_k": kv, f"{prefix}attn_v": kv}
        parts = [tensors.take(f"{name}.weight", size, width) for name, size in sizes.items()]
        qkv = Linear(await loader.stacked(f"{prefix}attn_qkv", parts), await bias_of(tensors, sizes, loader))
    output = await load_linear(tensors, f"{prefix}attn_output", width, q, loader)
    return Attention(heads, qkv, output, qk_norm, by_row)


async def load_qk_norm(
    tensors: Tensors, prefix: str, queries: int, keys: int, eps: float, loader: Loader, *, offset: float = 0.0
) -> Norm:
    """The norms of so many values of queries and of keys; `offset` is added to their gains. Raises likewise."""
    sizes = {"attn_q_norm": queries, "attn_k_norm": keys}
    gains = [(tensors.take(f"{prefix}{name}.weight", size), size) for name, size in sizes.items()]
    return Norm(await loader.joined_vector(gains, offset=offset), eps)
