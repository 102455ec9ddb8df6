"""The Gemma family: norms of what attention and feed-forward make, before it joins the residual stream.

Gemma 2 and 3 have norms ahead of them as well, caps on scores or logits, windows in most layers and, in version 3, a
norm of each query and key and a rotary embedding of its own in layers with windows. OLMo 2 has no norms ahead, and one
norm for all queries and one for all keys of a row. Tensor names: GGUF; forward passes: transformers,
modeling_gemma2.py, modeling_gemma3.py and modeling_olmo2.py.
"""

from dataclasses import dataclass
from typing import Literal

from wgpu_engine.errors import UnsupportedModelError
from wgpu_engine.gpu.device import Buffer, Device
from wgpu_engine.models.attention_weights import Attention, load_attention, load_qk_norm
from wgpu_engine.models.ends import Ends
from wgpu_engine.models.feed_forward import Gated, load_gated
from wgpu_engine.models.heads import read_heads
from wgpu_engine.models.linear import load_rms_norm
from wgpu_engine.models.model import Description, PagedKV
from wgpu_engine.models.rope_scaling import Rope
from wgpu_engine.models.settings import Settings
from wgpu_engine.models.tensors import Tensors
from wgpu_engine.models.windows import layer_windows
from wgpu_engine.ops.attention import Heads
from wgpu_engine.ops.builder import Activation, PlanBuilder
from wgpu_engine.ops.embed import embed, look_up
from wgpu_engine.ops.kv import KVCache
from wgpu_engine.ops.matmul import Gate, codec_for, project
from wgpu_engine.ops.norm import residual_norm
from wgpu_engine.ops.repack import Loader
from wgpu_engine.ops.weight import Norm, Weight


@dataclass(frozen=True)
class Traits:
    """In what the members of the family differ, where no setting or tensor says so."""

    gate: Gate
    scaled_embedding: bool
    """whether embeddings are multiplied by the root of their width"""
    ahead: bool
    """whether there are norms ahead of attention and feed-forward too"""
    qk_norm: Literal["none", "head", "row"]
    """whether queries and keys have a norm, each head or all heads of a row together"""
    period: int
    """every so many layers one has no window"""
    window: int = 0
    """where the file doesn't say it; 0: none"""
    score_cap: float = 0.0
    logit_cap: float = 0.0
    local_base: float | None = None
    """base of the rotary embedding of layers with a window; None: that of the others"""
    by_width: int = 0
    """layers of the one model whose scores are scaled by width / heads instead of the heads' own size"""


MEMBERS = {
    "gemma2": Traits("gelu_tanh", True, True, "none", 2, window=4096, score_cap=50.0, logit_cap=30.0, by_width=46),
    "gemma3": Traits("gelu_tanh", True, True, "head", 6, local_base=10000.0, by_width=62),
    "olmo2": Traits("silu", False, False, "row", 4),
}
"""by `general.architecture`; what GGUF doesn't say is as in llama.cpp"""


@dataclass(frozen=True)
class Config:
    """The settings of a member."""

    traits: Traits
    layers: int
    width: int
    feed_forward: int
    heads: Heads
    eps: float
    vocab: int
    windows: tuple[int, ...]
    """positions that a row of each layer sees; 0: all"""
    embedding_scale: float
    score_cap: float
    logit_cap: float
    gain_offset: float
    """what is added to the gains of norms, said by what isn't GGUF"""

    @staticmethod
    def read(settings: Settings, vocab: int) -> "Config":
        traits = MEMBERS[settings.architecture]
        layers = settings.count("block_count", largest=1 << 12)
        width = settings.count("embedding_length")
        by_width = (width / settings.count("attention.head_count")) ** -0.5 if layers == traits.by_width else None
        heads = read_heads(settings, neox=True, scale=by_width)
        if traits.qk_norm == "row" and heads.kv_count * heads.head_dim % 32:
            raise UnsupportedModelError(
                f"{heads.kv_count} key heads of {heads.head_dim} values are not supported with "
                f"{settings.architecture}: use a model whose keys have a multiple of 32 values"
            )
        return Config(
            traits=traits,
            layers=layers,
            width=width,
            feed_forward=settings.count("feed_forward_length"),
            heads=heads,
            eps=settings.number("attention.layer_norm_rms_epsilon", 1e-6),
            vocab=vocab,
            windows=layer_windows(settings, layers, traits.period, traits.window),
            embedding_scale=width**0.5 if traits.scaled_embedding else 1.0,
            score_cap=settings.number("attn_logit_softcapping", traits.score_cap, zero=True),
            logit_cap=settings.number("final_logit_softcapping", traits.logit_cap, zero=True),
            gain_offset=settings.number("norm.gain_offset", 0.0),
        )


@dataclass(frozen=True)
class Layer:
    """The weights of a block."""

    attention_norm: Norm | None
    attention: Attention
    attention_post_norm: Norm
    feed_forward_norm: Norm | None
    feed_forward: Gated
    feed_forward_post_norm: Norm


@dataclass(eq=False)
class Gemma:
    """See `wgpu_engine.models.model.Model`."""

    device: Device
    config: Config
    description: Description
    rope: Rope
    local_rope: Rope
    """of layers with a window"""
    ends: Ends
    layers: list[Layer]
    _angles: tuple[Buffer, Buffer] | None = None

    @staticmethod
    def states(settings: Settings, tensors: Tensors) -> tuple[PagedKV, ...]:
        """The state of each layer, from the settings alone."""
        c = Config.read(settings, 0)
        return tuple(PagedKV(c.heads.kv_count, c.heads.head_dim, window) for window in c.windows)

    @staticmethod
    async def load(
        device: Device, settings: Settings, tensors: Tensors, description: Description, loader: Loader
    ) -> "Gemma":
        """Brings the weights onto the device; raises as `Architecture.load` does."""
        c = Config.read(settings, description.vocab)
        rope = await Rope.load(settings, tensors, c.heads.rope_dim, loader)
        local_base = settings.number("rope.freq_base_swa", c.traits.local_base or rope.base)
        norm = await _norm(c, tensors, "output_norm", loader)
        ends = await Ends.load(tensors, c.vocab, c.width, norm, loader)
        layers = [await _load_layer(c, tensors, f"blk.{i}.", loader) for i in range(c.layers)]
        # only global layers are stretched
        local_rope = Rope(local_base, rope.dim)
        return Gemma(device, c, description, rope, local_rope, ends, layers)

    @property
    def weight_bytes_per_token(self) -> int:
        layers = sum(layer.attention.bytes + layer.feed_forward.bytes_per_token for layer in self.layers)
        return self.ends.head.bytes + layers

    def prepare(self, positions: int) -> None:
        self._angles = self.rope.angles(self.device, positions), self.local_rope.angles(self.device, positions)

    def forward(self, builder: PlanBuilder, cache: KVCache, positions: int) -> Buffer | None:
        assert self._angles is not None, "prepare comes first"
        c, layers = self.config, self.layers
        x, h = self._embedded(builder)
        y = builder.floats(c.width, "made")
        for i, layer in enumerate(layers):
            last = i + 1 == len(layers)
            next_norm = self.ends.norm if last else layers[i + 1].attention_norm
            next_weights = self.ends.head.weights if last else layers[i + 1].attention.reads
            window = c.windows[i]

            angles, output, down = self._angles[bool(window)], layer.attention.output, layer.feed_forward.down
            h = layer.attention.attend(builder, h, angles, cache, i, positions, window=window, cap=c.score_cap)
            project(builder, output.weights, h, y, c.width, bias=output.bias)
            readers = layer.feed_forward.reads
            h = self._joined(builder, x, y, layer.attention_post_norm, layer.feed_forward_norm, readers)
            h = layer.feed_forward.gated(builder, h, gate=c.traits.gate)
            project(builder, down.weights, h, y, c.width, bias=down.bias)
            h = self._joined(builder, x, y, layer.feed_forward_post_norm, next_norm, next_weights)
        return self.ends.logits(builder, h, cap=c.logit_cap)

    def _embedded(self, builder: PlanBuilder) -> tuple[Buffer, Activation]:
        """The residual stream, and what the first layer reads."""
        c, first = self.config, self.layers[0]
        if first.attention_norm is not None:
            codec = codec_for(builder, *first.attention.reads)
            return embed(builder, self.ends.embedding, first.attention_norm, codec, scale=c.embedding_scale)
        x = look_up(builder, self.ends.embedding, scale=c.embedding_scale)
        return x, Activation(x, c.width, "f32")

    def _joined(
        self, builder: PlanBuilder, x: Buffer, y: Buffer, post: Norm, norm: Norm | None, readers: tuple[Weight, ...]
    ) -> Activation:
        """Adds the norm of what a sub-layer made to the residual stream; returns what the next products read."""
        h = residual_norm(builder, x, y, self.config.width, norm, codec_for(builder, *readers), post=post)
        return h or Activation(x, self.config.width, "f32")


async def _norm(c: Config, tensors: Tensors, name: str, loader: Loader) -> Norm:
    return await load_rms_norm(tensors, name, c.width, c.eps, loader, offset=c.gain_offset)


async def _load_layer(c: Config, tensors: Tensors, prefix: str, loader: Loader) -> Layer:
    heads, qk_norm, by_row = c.heads, None, c.traits.qk_norm == "row"
    if c.traits.qk_norm != "none":
        q, k = (heads.count * heads.head_dim, heads.kv_count * heads.head_dim) if by_row else (heads.head_dim,) * 2
        qk_norm = await load_qk_norm(tensors, prefix, q, k, c.eps, loader, offset=c.gain_offset)
    return Layer(
        attention_norm=await _norm(c, tensors, f"{prefix}attn_norm", loader) if c.traits.ahead else None,
        attention=await load_attention(tensors, prefix, c.width, heads, loader, qk_norm=qk_norm, by_row=by_row),
        attention_post_norm=await _norm(c, tensors, f"{prefix}post_attention_norm", loader),
        feed_forward_norm=await _norm(c, tensors, f"{prefix}ffn_norm", loader) if c.traits.ahead else None,
        feed_forward=await load_gated(tensors, prefix, c.width, c.feed_forward, loader),
        feed_forward_post_norm=await _norm(c, tensors, f"{prefix}post_ffw_norm", loader),
    )
