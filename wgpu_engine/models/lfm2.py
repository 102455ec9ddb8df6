"""LFM2: gated short convolutions in most layers, grouped attention in the others, each before a gated feed-forward.

Tensor names: GGUF (gguf-py, constants.py). A layer without key heads is a convolution.
"""

from dataclasses import dataclass

from wgpu_engine.errors import ModelFileError
from wgpu_engine.files.gguf import TensorInfo
from wgpu_engine.gpu.device import Buffer, Device
from wgpu_engine.models.ends import Ends
from wgpu_engine.models.model import Description, PagedKV, ShortConv, State
from wgpu_engine.models.rope_scaling import Rope
from wgpu_engine.models.settings import REMEDY, Settings
from wgpu_engine.models.tensors import Tensors
from wgpu_engine.ops.attention import Heads, attend
from wgpu_engine.ops.builder import Activation, PlanBuilder
from wgpu_engine.ops.embed import embed
from wgpu_engine.ops.kv import KVCache
from wgpu_engine.ops.matmul import add_to_residual, codec_for, gated, project
from wgpu_engine.ops.repack import Loader
from wgpu_engine.ops.rope import rope_and_store
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
class Attention:
    """The weights of a layer's attention."""

    heads: Heads
    reads: tuple[Weight, ...]
    """Q, K and V: one weight, or more where their types differ"""
    qk_norm: Norm
    """gains of queries and of keys, one behind the other"""
    output: Weight


@dataclass(frozen=True)
class GatedConvolution:
    """The weights of a layer's convolution."""

    reads: tuple[Weight, ...]
    """makes B, C and x"""
    bias: Buffer | None
    convolution: Convolution
    output: Weight
    output_bias: Buffer | None


@dataclass(frozen=True)
class Layer:
    """The weights of a block."""

    norm: Norm
    operator: Attention | GatedConvolution
    feed_forward_norm: Norm
    gate_up: tuple[Weight, ...]
    """one weight of two ports, or two where their types differ"""
    down: Weight


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
        """Brings the weights onto the device.

        Raises:
            ModelFileError: a tensor is missing or has the wrong shape.
            UnsupportedModelError: a RoPE scaling that this version doesn't know.
        """
        c = Config.read(settings, description.vocab)
        rope_dim = next((heads.rope_dim for heads in c.layers if heads), 0)
        rope = await Rope.load(settings, tensors, rope_dim, loader) if rope_dim else None
        # llama.cpp gives the norm of the output this name
        name = "output_norm.weight" if "output_norm.weight" in tensors else "token_embd_norm.weight"
        norm = Norm(await loader.vector(tensors.take(name, c.width)), c.eps)
        ends = await Ends.load(tensors, c.vocab, c.width, norm, loader)
        layers = [await _load_layer(c, heads, tensors, f"blk.{i}.", loader) for i, heads in enumerate(c.layers)]
        return Lfm2(device, c, description, rope, ends, layers)

    @property
    def weight_bytes_per_token(self) -> int:
        weights = [*self.ends.head.weights]
        for layer in self.layers:
            weights += [*layer.operator.reads, layer.operator.output, *layer.gate_up, layer.down]
        return sum(weight.bytes for weight in weights)

    def prepare(self, positions: int) -> None:
        if self.rope is not None:
            self._angles = self.rope.angles(self.device, positions)

    def forward(self, builder: PlanBuilder, cache: KVCache, positions: int) -> Buffer | None:
        layers = self.layers
        x, h = embed(builder, self.ends.embedding, layers[0].norm, codec_for(builder, *layers[0].operator.reads))
        for i, layer in enumerate(layers):
            last = i + 1 == len(layers)
            next_norm = self.ends.norm if last else layers[i + 1].norm
            next_weights = self.ends.head.weights if last else layers[i + 1].operator.reads
            codec = codec_for(builder, *layer.gate_up)
            if isinstance(layer.operator, Attention):
                h = self._attended(builder, layer.operator, h, cache, i, positions)
                h = add_to_residual(builder, layer.operator.output, h, x, layer.feed_forward_norm, codec)
            else:
                h = _convolved(builder, layer.operator, h, cache, i)
                bias = layer.operator.output_bias
                h = add_to_residual(builder, layer.operator.output, h, x, layer.feed_forward_norm, codec, bias=bias)
            h = gated(builder, layer.gate_up, h, codec_for(builder, layer.down))
            h = add_to_residual(builder, layer.down, h, x, next_norm, codec_for(builder, *next_weights))
        return self.ends.logits(builder, h)

    def _attended(
        self, builder: PlanBuilder, attention: Attention, h: Activation, cache: KVCache, layer: int, positions: int
    ) -> Activation:
        assert self._angles is not None, "prepare comes first"
        heads = attention.heads
        qkv = builder.floats(heads.width, "qkv")
        project(builder, attention.reads, h, qkv, heads.width)
        rope_and_store(builder, qkv, heads, self._angles, cache, layer, attention.qk_norm)
        return attend(builder, qkv, heads, cache, layer, positions, codec_for(builder, attention.output))


def _convolved(
    builder: PlanBuilder, operator: GatedConvolution, h: Activation, cache: KVCache, layer: int
) -> Activation:
    width = 3 * operator.convolution.width
    bcx = builder.floats(width, "bcx")
    project(builder, operator.reads, h, bcx, width, bias=operator.bias)
    return short_conv(builder, bcx, operator.convolution, cache, layer, codec_for(builder, operator.output))


async def _load_layer(c: Config, heads: Heads | None, tensors: Tensors, prefix: str, loader: Loader) -> Layer:
    def take(name: str, *shape: int) -> TensorInfo:
        return tensors.take(f"{prefix}{name}.weight", *shape)

    async def norm(name: str) -> Norm:
        return Norm(await loader.vector(take(name, c.width)), c.eps)

    async def weight(name: str, features: int, k: int) -> Weight:
        return await loader.weight(f"{prefix}{name}", [[take(name, features, k)]])

    async def bias(name: str, size: int) -> Buffer | None:
        found = tensors.optional(f"{prefix}{name}.bias", size)
        return await loader.vector(found) if found else None

    async def attention(heads: Heads) -> Attention:
        q, kv = heads.count * heads.head_dim, heads.kv_count * heads.head_dim
        qkv = [take("attn_q", q, c.width), take("attn_k", kv, c.width), take("attn_v", kv, c.width)]
        gains = [(take(name, heads.head_dim), heads.head_dim) for name in ("attn_q_norm", "attn_k_norm")]
        return Attention(
            heads=heads,
            reads=await loader.stacked(f"{prefix}attn_qkv", qkv),
            qk_norm=Norm(await loader.joined_vector(gains), c.eps),
            output=await weight("attn_output", c.width, q),
        )

    async def convolution() -> GatedConvolution:
        taps = take("shortconv.conv", c.width, c.kernel)
        buffer = await loader.convolution(taps, tensors.optional(f"{prefix}shortconv.conv.bias", c.width))
        return GatedConvolution(
            reads=(await weight("shortconv.in_proj", 3 * c.width, c.width),),
            bias=await bias("shortconv.in_proj", 3 * c.width),
            convolution=Convolution(buffer, c.width, c.kernel),
            output=await weight("shortconv.out_proj", c.width, c.width),
            output_bias=await bias("shortconv.out_proj", c.width),
        )

    gate_up = [take("ffn_gate", c.feed_forward, c.width), take("ffn_up", c.feed_forward, c.width)]
    return Layer(
        norm=await norm("attn_norm"),
        operator=await attention(heads) if heads else await convolution(),
        feed_forward_norm=await norm("ffn_norm"),
        gate_up=await loader.paired(f"{prefix}ffn_gate_up", gate_up),
        down=await weight("ffn_down", c.width, c.feed_forward),
    )
