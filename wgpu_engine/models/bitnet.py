"""BitNet b1.58: Llama with ternary weights, and norms of what the last matrix of attention and feed-forward reads.

Activations are not rounded to int8 a row, as the models were trained; `fast` rounds them in blocks of 32, more finely.
Tensor names: GGUF (gguf-py, constants.py). Formulas: transformers, modeling_bitnet.py; llama.cpp, models/bitnet.cpp.
"""

from dataclasses import dataclass

from wgpu_engine.errors import UnsupportedModelError
from wgpu_engine.files.gguf import TensorInfo
from wgpu_engine.gpu.device import Buffer, Device
from wgpu_engine.models.ends import Ends
from wgpu_engine.models.heads import read_heads
from wgpu_engine.models.model import Description, PagedKV, State
from wgpu_engine.models.rope_scaling import Rope
from wgpu_engine.models.settings import Settings
from wgpu_engine.models.tensors import Tensors
from wgpu_engine.ops.attention import Heads, attend
from wgpu_engine.ops.builder import Activation, PlanBuilder
from wgpu_engine.ops.embed import embed
from wgpu_engine.ops.kv import KVCache
from wgpu_engine.ops.matmul import Gate, add_to_residual, codec_for, gated, project
from wgpu_engine.ops.norm import norm
from wgpu_engine.ops.repack import Loader
from wgpu_engine.ops.rope import rope_and_store
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
    qkv: tuple[Weight, ...]
    """one weight, or more where their types differ"""
    attention_sub_norm: Norm
    output: Weight
    feed_forward_norm: Norm
    gate_up: tuple[Weight, ...]
    """one weight of two ports, or two where their types differ"""
    feed_forward_sub_norm: Norm
    down: Weight


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
        """Brings the weights onto the device.

        Raises:
            ModelFileError: a tensor is missing or has the wrong shape.
            UnsupportedModelError: a RoPE scaling or an activation that this version doesn't know.
        """
        c = Config.read(settings, description.vocab)
        rope = await Rope.load(settings, tensors, c.heads.rope_dim, loader)
        norm = Norm(await loader.vector(tensors.take("output_norm.weight", c.width)), c.eps)
        ends = await Ends.load(tensors, c.vocab, c.width, norm, loader)
        layers = [await _load_layer(c, tensors, f"blk.{i}.", loader) for i in range(c.layers)]
        return BitNet(device, c, description, rope, ends, layers)

    @property
    def weight_bytes_per_token(self) -> int:
        weights = [*self.ends.head.weights]
        for layer in self.layers:
            weights += [*layer.qkv, layer.output, *layer.gate_up, layer.down]
        return sum(weight.bytes for weight in weights)

    def prepare(self, positions: int) -> None:
        self._angles = self.rope.angles(self.device, positions)

    def forward(self, builder: PlanBuilder, cache: KVCache, positions: int) -> Buffer | None:
        assert self._angles is not None, "prepare comes first"
        c, layers = self.config, self.layers
        x, h = embed(builder, self.ends.embedding, layers[0].attention_norm, codec_for(builder, *layers[0].qkv))
        for i, layer in enumerate(layers):
            last = i + 1 == len(layers)
            next_norm = self.ends.norm if last else layers[i + 1].attention_norm
            next_weights = self.ends.head.weights if last else layers[i + 1].qkv

            qkv = builder.floats(c.heads.width, "qkv")
            project(builder, layer.qkv, h, qkv, c.heads.width)
            rope_and_store(builder, qkv, c.heads, self._angles, cache, i)
            h = attend(builder, qkv, c.heads, cache, i, positions, "f32")
            h = _sub_normed(builder, h, layer.attention_sub_norm, layer.output)
            h = add_to_residual(
                builder, layer.output, h, x, layer.feed_forward_norm, codec_for(builder, *layer.gate_up)
            )
            h = gated(builder, layer.gate_up, h, "f32", gate=c.gate)
            h = _sub_normed(builder, h, layer.feed_forward_sub_norm, layer.down)
            h = add_to_residual(builder, layer.down, h, x, next_norm, codec_for(builder, *next_weights))
        return self.ends.logits(builder, h)


def _sub_normed(builder: PlanBuilder, h: Activation, sub_norm: Norm, reader: Weight) -> Activation:
    return norm(builder, h.buffer, h.width, sub_norm, codec_for(builder, reader), label="sub-normed")


async def _load_layer(c: Config, tensors: Tensors, prefix: str, loader: Loader) -> Layer:
    def take(name: str, *shape: int) -> TensorInfo:
        return tensors.take(f"{prefix}{name}.weight", *shape)

    async def gain(name: str, width: int) -> Norm:
        return Norm(await loader.vector(take(name, width)), c.eps)

    q = c.heads.count * c.heads.head_dim
    kv = c.heads.kv_count * c.heads.head_dim
    qkv = [take("attn_q", q, c.width), take("attn_k", kv, c.width), take("attn_v", kv, c.width)]
    gate_up = [take("ffn_gate", c.feed_forward, c.width), take("ffn_up", c.feed_forward, c.width)]
    return Layer(
        attention_norm=await gain("attn_norm", c.width),
        qkv=await loader.stacked(f"{prefix}attn_qkv", qkv),
        attention_sub_norm=await gain("attn_sub_norm", q),
        output=await loader.weight(f"{prefix}attn_output", [[take("attn_output", c.width, q)]]),
        feed_forward_norm=await gain("ffn_norm", c.width),
        gate_up=await loader.paired(f"{prefix}ffn_gate_up", gate_up),
        feed_forward_sub_norm=await gain("ffn_sub_norm", c.feed_forward),
        down=await loader.weight(f"{prefix}ffn_down", [[take("ffn_down", c.width, c.feed_forward)]]),
    )
