"""LFM2: gated short convolutions in most layers, grouped attention in the others, each before a gated feed-forward.

Tensor names: GGUF (gguf-py, constants.py). A layer without key heads is a convolution.
"""

from dataclasses import dataclass

from wgpu_engine.errors import ModelFileError
from wgpu_engine.gpu.device import Buffer, Device
from wgpu_engine.models.attention_weights import Attention, load_attention, load_qk_norm
from wgpu_engine.models.ends import Ends
from wgpu_engine.models.feed_forward import Gated, load_gated
from wgpu_engine.models.linear import Linear, load_linear, load_rms_norm
from wgpu_engine.models.model import Description, PagedKV, ShortConv, State
from wgpu_engine.models.rope_scaling import Rope
from wgpu_engine.models.settings import REMEDY, Settings
from wgpu_engine.models.tensors import Tensors
from wgpu_engine.ops.attention import Heads
from wgpu_engine.ops.builder import Activation, PlanBuilder
from wgpu_engine.ops.embed import embed
from wgpu_engine.ops.kv import KVCache
from wgpu_engine.ops.matmul import add_to_residual, codec_for, project
from wgpu_engine.ops.repack import Loader
from wgpu_engine.ops.short_conv import Convolution, short_conv
from wgpu_engine.ops.weight import Norm, Weight

MEMBERS = ("lfm2",)
"""by `general.architecture`"""


@dataclass(frozen=True)
class Config:
    """The settings of an LFM2."""

    width: int
    feed_forward: int
    layers: tuple[Heads | None, ...]
    """the attention of each layer; None: a convolution"""
    kernel: int
    eps: float
    vocab: int

    @staticmethod
    def read(settings: Settings, vocab: int) -> "Config":
        width = settings.count("embedding_length")
        layers = settings.count("block_count", largest=1 << 12)
        heads = settings.count("attention.head_count", largest=1 << 12)
        head_dim = settings.count("attention.key_length", max(1, width // heads), largest=1 << 10)
        rope_dim = settings.count("rope.dimension_count", head_dim, largest=1 << 10)
        kv_heads = settings.counts("attention.head_count_kv", layers, largest=1 << 12)
        if head_dim % 8 or rope_dim % 4 or rope_dim > head_dim or any(count and heads % count for count in kv_heads):
            raise ModelFileError(
                f"the attention of this file can't be: {heads} heads of {head_dim} values, {rope_dim} of them rotated, "
                f"over up to {max(kv_heads)} key heads; {REMEDY}"
            )
        if width % 4:
            raise ModelFileError(f"a convolution of {width} channels, not a multiple of 4, can't run: {REMEDY}")
        scale = head_dim**-0.5
        return Config(
            width=width,
            feed_forward=settings.count("feed_forward_length"),
            layers=tuple(Heads(heads, n, head_dim, rope_dim, neox=True, scale=scale) if n else None for n in kv_heads),
            kernel=settings.count("shortconv.l_cache", 3, largest=64),
            eps=settings.number("attention.layer_norm_rms_epsilon", 1e-5),
            vocab=vocab,
        )


@dataclass(frozen=True)
class GatedConvolution:
    """The weights of a layer's convolution."""

    bcx: Linear
    """makes B, C and x"""
    convolution: Convolution
    output: Linear

    @property
    def reads(self) -> tuple[Weight, ...]:
        """The weights that read the block's input."""
        return self.bcx.weights

    @property
    def bytes(self) -> int:
        return self.bcx.bytes + self.output.bytes


@dataclass(frozen=True)
class Layer:
    """The weights of a block."""

    norm: Norm
    operator: Attention | GatedConvolution
    feed_forward_norm: Norm
    feed_forward: Gated


@dataclass(eq=False)
class Lfm2:
    """See `wgpu_engine.models.model.Model`."""

    device: Device
    config: Config
    description: Description
    rope: Rope | None
    ends: Ends
    layers: list[Layer]
    _angles: Buffer | None = None

    @staticmethod
    def states(settings: Settings, tensors: Tensors) -> tuple[State, ...]:
        """The state of each layer, from the settings alone."""
        c = Config.read(settings, 0)
        return tuple(
            PagedKV(heads.kv_count, heads.head_dim) if heads else ShortConv(c.width, c.kernel) for heads in c.layers
        )

    @staticmethod
    async def load(
        device: Device, settings: Settings, tensors: Tensors, description: Description, loader: Loader
    ) -> "Lfm2":
        """Brings the weights onto the device; raises as `Architecture.load` does."""
        c = Config.read(settings, description.vocab)
        rope_dim = next((heads.rope_dim for heads in c.layers if heads), 0)
        rope = await Rope.load(settings, tensors, rope_dim, loader) if rope_dim else None
        # llama.cpp gives the norm of the output this name
        name = "output_norm" if "output_norm.weight" in tensors else "token_embd_norm"
        norm = await load_rms_norm(tensors, name, c.width, c.eps, loader)
        ends = await Ends.load(tensors, c.vocab, c.width, norm, loader)
        layers = [await _load_layer(c, heads, tensors, f"blk.{i}.", loader) for i, heads in enumerate(c.layers)]
        return Lfm2(device, c, description, rope, ends, layers)

    @property
    def weight_bytes_per_token(self) -> int:
        layers = sum(layer.operator.bytes + layer.feed_forward.bytes_per_token for layer in self.layers)
        return self.ends.head.bytes + layers

    def prepare(self, positions: int) -> None:
        if self.rope is not None:
            self._angles = self.rope.angles(self.device, positions)

    def forward(self, builder: PlanBuilder, cache: KVCache, positions: int) -> Buffer | None:
        assert self._angles is not None or self.rope is None, "prepare comes first"
        layers = self.layers
        x, h = embed(builder, self.ends.embedding, layers[0].norm, codec_for(builder, *layers[0].operator.reads))
        for i, layer in enumerate(layers):
            last = i + 1 == len(layers)
            next_norm = self.ends.norm if last else layers[i + 1].norm
            next_weights = self.ends.head.weights if last else layers[i + 1].operator.reads
            codec, output = codec_for(builder, *layer.feed_forward.reads), layer.operator.output
            if isinstance(layer.operator, Attention):
                h = layer.operator.attend(builder, h, self._angles, cache, i, positions)
            else:
                h = _convolved(builder, layer.operator, h, cache, i)
            h = add_to_residual(builder, output.weight, h, x, layer.feed_forward_norm, codec, bias=output.bias)
            h = layer.feed_forward.add(builder, x, h, next_norm, codec_for(builder, *next_weights), 1.0)
        return self.ends.logits(builder, h)


def _convolved(
    builder: PlanBuilder, operator: GatedConvolution, h: Activation, cache: KVCache, layer: int
) -> Activation:
    width = 3 * operator.convolution.width
    bcx = builder.floats(width, "bcx")
    project(builder, operator.reads, h, bcx, width, bias=operator.bcx.bias)
    return short_conv(builder, bcx, operator.convolution, cache, layer, codec_for(builder, operator.output.weight))


async def _load_layer(c: Config, heads: Heads | None, tensors: Tensors, prefix: str, loader: Loader) -> Layer:
    operator: Attention | GatedConvolution
    if heads:
        qk_norm = await load_qk_norm(tensors, prefix, heads.head_dim, heads.head_dim, c.eps, loader)
        operator = await load_attention(tensors, prefix, c.width, heads, loader, qk_norm=qk_norm)
    else:
        operator = await _load_convolution(c, tensors, f"{prefix}shortconv.", loader)
    return Layer(
        norm=await load_rms_norm(tensors, f"{prefix}attn_norm", c.width, c.eps, loader),
        operator=operator,
        feed_forward_norm=await load_rms_norm(tensors, f"{prefix}ffn_norm", c.width, c.eps, loader),
        feed_forward=await load_gated(tensors, prefix, c.width, c.feed_forward, loader),
    )


async def _load_convolution(c: Config, tensors: Tensors, prefix: str, loader: Loader) -> GatedConvolution:
    taps = tensors.take(f"{prefix}conv.weight", c.width, c.kernel)
    buffer = await loader.convolution(taps, tensors.optional(f"{prefix}conv.bias", c.width))
    return GatedConvolution(
        bcx=await load_linear(tensors, f"{prefix}in_proj", 3 * c.width, c.width, loader),
        convolution=Convolution(buffer, c.width, c.kernel),
        output=await load_linear(tensors, f"{prefix}out_proj", c.width, c.width, loader),
    )
