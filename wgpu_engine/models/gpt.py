"""The GPT family: layer norms, biases and a feed-forward without a gate.

GPT-2 learned an embedding of each position. GPT-NeoX (Pythia) and Phi 1 to 2 rotate a part of each head; attention and
feed-forward may read the same residual stream side by side there. Tensor names: GGUF.
"""

from dataclasses import dataclass, replace

from wgpu_engine.gpu.device import Buffer, Device
from wgpu_engine.models.activation import read_activation
from wgpu_engine.models.attention_weights import Attention, load_attention
from wgpu_engine.models.ends import Ends
from wgpu_engine.models.heads import read_heads
from wgpu_engine.models.linear import Linear, load_layer_norm, load_linear
from wgpu_engine.models.model import Description, PagedKV
from wgpu_engine.models.rope_scaling import Rope
from wgpu_engine.models.settings import Settings
from wgpu_engine.models.tensors import Tensors
from wgpu_engine.ops.attention import Heads
from wgpu_engine.ops.builder import Activation, PlanBuilder
from wgpu_engine.ops.embed import look_up
from wgpu_engine.ops.kv import KVCache
from wgpu_engine.ops.matmul import Gate, activated, codec_for, project
from wgpu_engine.ops.norm import norm, residual_norm
from wgpu_engine.ops.repack import Loader
from wgpu_engine.ops.weight import Norm, Weight


@dataclass(frozen=True)
class Traits:
    """In what the members of the family differ, where no setting or tensor says so."""

    activation: Gate
    rotates: bool = True
    """whether there is a rotary embedding, instead of learned positions"""
    parallel: bool = False
    """whether attention and feed-forward read the same residual stream, where the settings don't say"""


MEMBERS = {
    "gpt2": Traits("gelu_tanh", rotates=False),
    "gptneox": Traits("gelu", parallel=True),
    "phi2": Traits("gelu_tanh", parallel=True),
}
"""by `general.architecture`"""


@dataclass(frozen=True)
class Config:
    """The settings of a GPT."""

    layers: int
    width: int
    feed_forward: int
    heads: Heads
    eps: float
    vocab: int
    context: int
    activation: Gate
    rotates: bool
    parallel: bool
    scale_by_layer: bool
    """whether scores are divided by the layer's number, from 1 on"""

    @staticmethod
    def read(settings: Settings, vocab: int) -> "Config":
        traits = MEMBERS[settings.architecture]
        width = settings.count("embedding_length")
        return Config(
            layers=settings.count("block_count", largest=1 << 12),
            width=width,
            feed_forward=settings.count("feed_forward_length", 4 * width),
            heads=read_heads(settings, neox=True),
            eps=settings.number("attention.layer_norm_epsilon", 1e-5),
            vocab=vocab,
            context=settings.count("context_length", largest=1 << 31),
            activation=read_activation(settings, traits.activation),
            rotates=traits.rotates,
            parallel=settings.flag("use_parallel_residual", traits.parallel),
            scale_by_layer=settings.flag("attention.scale_by_layer", False),
        )

    def heads_of(self, layer: int) -> Heads:
        if not self.scale_by_layer:
            return self.heads
        return replace(self.heads, scale=self.heads.scale / (layer + 1))


@dataclass(frozen=True)
class Layer:
    """The weights of a block."""

    attention_norm: Norm
    attention: Attention
    feed_forward_norm: Norm | None
    """None: the feed-forward reads what attention reads"""
    up: Linear
    down: Linear


@dataclass(eq=False)
class Gpt:
    """See `wgpu_engine.models.model.Model`."""

    device: Device
    config: Config
    description: Description
    rope: Rope | None
    ends: Ends
    positions: Weight | None
    layers: list[Layer]
    _angles: Buffer | None = None

    @staticmethod
    def states(settings: Settings, tensors: Tensors) -> tuple[PagedKV, ...]:
        """The state of each layer, from the settings alone."""
        c = Config.read(settings, 0)
        return (PagedKV(c.heads.kv_count, c.heads.head_dim),) * c.layers

    @staticmethod
    async def load(
        device: Device, settings: Settings, tensors: Tensors, description: Description, loader: Loader
    ) -> "Gpt":
        """Brings the weights onto the device; raises as `Architecture.load` does."""
        c = Config.read(settings, description.vocab)
        rope = await Rope.load(settings, tensors, c.heads.rope_dim, loader) if c.rotates else None
        positions = None
        if not c.rotates:
            table = tensors.take("position_embd.weight", c.context, c.width)
            positions = await loader.weight("position_embd", [[table]])
        norm = await load_layer_norm(tensors, "output_norm", c.width, c.eps, loader)
        ends = await Ends.load(tensors, c.vocab, c.width, norm, loader)
        layers = [await _load_layer(c, c.heads_of(i), tensors, f"blk.{i}.", loader) for i in range(c.layers)]
        return Gpt(device, c, description, rope, ends, positions, layers)

    @property
    def weight_bytes_per_token(self) -> int:
        layers = sum(layer.attention.bytes + layer.up.bytes + layer.down.bytes for layer in self.layers)
        return self.ends.head.bytes + layers

    def prepare(self, positions: int) -> None:
        if self.rope is not None:
            self._angles = self.rope.angles(self.device, positions)

    def forward(self, builder: PlanBuilder, cache: KVCache, positions: int) -> Buffer | None:
        assert self._angles is not None or self.rope is None, "prepare comes first"
        c, layers = self.config, self.layers
        x = look_up(builder, self.ends.embedding)
        if self.positions is not None:
            look_up(builder, self.positions, "position", onto=x)
        h: Activation | None
        h = norm(builder, x, c.width, layers[0].attention_norm, codec_for(builder, *_readers(layers[0])))
        for i, layer in enumerate(layers):
            last = i + 1 == len(layers)
            next_norm = self.ends.norm if last else layers[i + 1].attention_norm
            next_codec = codec_for(builder, *(self.ends.head.weights if last else _readers(layers[i + 1])))
            output, up, down = layer.attention.output, layer.up.weight, layer.down.weight

            attended = layer.attention.attend(builder, h, self._angles, cache, i, positions)
            mixed = builder.floats(c.width, "attention's output")
            project(builder, output.weights, attended, mixed, c.width, bias=output.bias)
            if not c.parallel:
                h = residual_norm(builder, x, mixed, c.width, layer.feed_forward_norm, codec_for(builder, up))
            elif layer.feed_forward_norm is not None:
                h = norm(builder, x, c.width, layer.feed_forward_norm, codec_for(builder, up), label="normed again")
            assert h is not None
            h = activated(builder, up, h, codec_for(builder, down), activation=c.activation, bias=layer.up.bias)
            made = builder.floats(c.width, "feed-forward's output")
            project(builder, (down,), h, made, c.width, bias=layer.down.bias)
            h = residual_norm(builder, x, (mixed, made) if c.parallel else made, c.width, next_norm, next_codec)
            assert h is not None
        return self.ends.logits(builder, h)


def _readers(layer: Layer) -> tuple[Weight, ...]:
    """The weights that read a layer's first norm."""
    reads = layer.attention.reads
    return reads if layer.feed_forward_norm else (*reads, *layer.up.weights)


async def _load_layer(c: Config, heads: Heads, tensors: Tensors, prefix: str, loader: Loader) -> Layer:
    shares = c.parallel and f"{prefix}ffn_norm.weight" not in tensors
    norm = None if shares else await load_layer_norm(tensors, f"{prefix}ffn_norm", c.width, c.eps, loader)
    return Layer(
        attention_norm=await load_layer_norm(tensors, f"{prefix}attn_norm", c.width, c.eps, loader),
        attention=await load_attention(tensors, prefix, c.width, heads, loader),
        feed_forward_norm=norm,
        up=await load_linear(tensors, f"{prefix}ffn_up", c.feed_forward, c.width, loader),
        down=await load_linear(tensors, f"{prefix}ffn_down", c.width, c.feed_forward, loader),
    )
