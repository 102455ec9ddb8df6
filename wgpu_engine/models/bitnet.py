"""BitNet b1.58: Llama with ternary weights, and norms of what the last matrix of attention and feed-forward reads.

Activations are not rounded to int8 a row, as the models were trained; `fast` rounds them in blocks of 32, more finely.
Tensor names: GGUF (gguf-py, constants.py). Formulas: transformers, modeling_bitnet.py; llama.cpp, models/bitnet.cpp.
"""

from dataclasses import dataclass

from wgpu_engine.errors import UnsupportedModelError
from wgpu_engine.gpu.device import Buffer, Device
from wgpu_engine.models.attention_weights import Attention, load_attention
from wgpu_engine.models.ends import Ends
from wgpu_engine.models.feed_forward import Gated, load_gated
from wgpu_engine.models.heads import read_heads
from wgpu_engine.models.linear import load_rms_norm
from wgpu_engine.models.model import Description, PagedKV, State
from wgpu_engine.models.rope_scaling import Rope
from wgpu_engine.models.settings import Settings
from wgpu_engine.models.tensors import Tensors
from wgpu_engine.ops.attention import Heads
from wgpu_engine.ops.builder import Activation, PlanBuilder
from wgpu_engine.ops.embed import embed
from wgpu_engine.ops.kv import KVCache
from wgpu_engine.ops.matmul import Gate, add_to_residual, codec_for
from wgpu_engine.ops.norm import norm
from wgpu_engine.ops.repack import Loader
from wgpu_engine.ops.weight import Norm, Weight

MEMBERS = {"bitnet": "silu", "bitnet-25": "relu2", "bitnet-b1.58": "relu2"}
"""by `general.architecture`: the gate where a file doesn't say; microsoft's tools write the last two"""
_GATES: dict[str, Gate] = {
    "silu": "silu",
    "swish": "silu",
    "swiglu": "silu",
    "relu2": "relu2",
    "relu_sqr": "relu2",
}
"""by `hidden_activation`"""


@dataclass(frozen=True)
class Config:
    """The settings of a BitNet."""

    layers: int
    width: int
    feed_forward: int
    heads: Heads
    gate: Gate
    eps: float
    vocab: int

    @staticmethod
    def read(settings: Settings, vocab: int) -> "Config":
        gate = settings.text("hidden_activation", MEMBERS[settings.architecture])
        if gate not in _GATES:
            raise UnsupportedModelError(
                f"the activation {gate[:40]!r} of this BitNet is not supported: use a model with one of "
                f"{', '.join(_GATES)}"
            )
        return Config(
            layers=settings.count("block_count", largest=1 << 12),
            width=settings.count("embedding_length"),
            feed_forward=settings.count("feed_forward_length"),
            heads=read_heads(settings, neox=True),
            gate=_GATES[gate],
            eps=settings.number("attention.layer_norm_rms_epsilon", 1e-5),
            vocab=vocab,
        )


@dataclass(frozen=True)
class Layer:
    """The weights of a block."""

    attention_norm: Norm
    attention: Attention
    attention_sub_norm: Norm
    feed_forward_norm: Norm
    feed_forward: Gated
    feed_forward_sub_norm: Norm


@dataclass(eq=False)
class BitNet:
    """See `wgpu_engine.models.model.Model`."""

    device: Device
    config: Config
    description: Description
    rope: Rope
    ends: Ends
    layers: list[Layer]
    _angles: Buffer | None = None

    @staticmethod
    def states(settings: Settings, tensors: Tensors) -> tuple[State, ...]:
        """The state of each layer, from the settings alone."""
        c = Config.read(settings, 0)
        return (PagedKV(c.heads.kv_count, c.heads.head_dim),) * c.layers

    @staticmethod
    async def load(
        device: Device, settings: Settings, tensors: Tensors, description: Description, loader: Loader
    ) -> "BitNet":
        """Brings the weights onto the device; raises as `Architecture.load` does."""
        c = Config.read(settings, description.vocab)
        rope = await Rope.load(settings, tensors, c.heads.rope_dim, loader)
        norm = await load_rms_norm(tensors, "output_norm", c.width, c.eps, loader)
        ends = await Ends.load(tensors, c.vocab, c.width, norm, loader)
        layers = [await _load_layer(c, tensors, f"blk.{i}.", loader) for i in range(c.layers)]
        return BitNet(device, c, description, rope, ends, layers)

    @property
    def weight_bytes_per_token(self) -> int:
        layers = sum(layer.attention.bytes + layer.feed_forward.bytes_per_token for layer in self.layers)
        return self.ends.head.bytes + layers

    def prepare(self, positions: int) -> None:
        self._angles = self.rope.angles(self.device, positions)

    def forward(self, builder: PlanBuilder, cache: KVCache, positions: int) -> Buffer | None:
        assert self._angles is not None, "prepare comes first"
        c, layers = self.config, self.layers
        x, h = embed(
            builder, self.ends.embedding, layers[0].attention_norm, codec_for(builder, *layers[0].attention.reads)
        )
        for i, layer in enumerate(layers):
            last = i + 1 == len(layers)
            next_norm = self.ends.norm if last else layers[i + 1].attention_norm
            next_weights = self.ends.head.weights if last else layers[i + 1].attention.reads

            output, down = layer.attention.output, layer.feed_forward.down
            h = layer.attention.attend(builder, h, self._angles, cache, i, positions, codec="f32")
            h = _sub_normed(builder, h, layer.attention_sub_norm, output.weight)
            codec = codec_for(builder, *layer.feed_forward.reads)
            h = add_to_residual(builder, output.weight, h, x, layer.feed_forward_norm, codec, bias=output.bias)
            h = layer.feed_forward.gated(builder, h, "f32", gate=c.gate)
            h = _sub_normed(builder, h, layer.feed_forward_sub_norm, down.weight)
            codec = codec_for(builder, *next_weights)
            h = add_to_residual(builder, down.weight, h, x, next_norm, codec, bias=down.bias)
        return self.ends.logits(builder, h)


def _sub_normed(builder: PlanBuilder, h: Activation, sub_norm: Norm, reader: Weight) -> Activation:
    return norm(builder, h.buffer, h.width, sub_norm, codec_for(builder, reader), label="sub-normed")


async def _load_layer(c: Config, tensors: Tensors, prefix: str, loader: Loader) -> Layer:
    async def norm(name: str, width: int) -> Norm:
        return await load_rms_norm(tensors, f"{prefix}{name}", width, c.eps, loader)

    return Layer(
        attention_norm=await norm("attn_norm", c.width),
        attention=await load_attention(tensors, prefix, c.width, c.heads, loader),
        attention_sub_norm=await norm("attn_sub_norm", c.heads.count * c.heads.head_dim),
        feed_forward_norm=await norm("ffn_norm", c.width),
        feed_forward=await load_gated(tensors, prefix, c.width, c.feed_forward, loader),
        feed_forward_sub_norm=await norm("ffn_sub_norm", c.feed_forward),
    )
