"""BERT as an encoder of texts: attention in both directions, layer norms behind each sum, learned positions.

What comes out is an embedding a text. Tensor names: GGUF.
"""

from dataclasses import dataclass

from wgpu_engine.errors import UnsupportedModelError
from wgpu_engine.gpu.device import Buffer, Device
from wgpu_engine.models.activation import read_activation
from wgpu_engine.models.attention_weights import Attention, load_attention
from wgpu_engine.models.heads import read_heads
from wgpu_engine.models.linear import Linear, load_layer_norm, load_linear
from wgpu_engine.models.model import Description, PagedKV
from wgpu_engine.models.settings import Settings
from wgpu_engine.models.tensors import Tensors
from wgpu_engine.ops.attention import Heads
from wgpu_engine.ops.builder import Activation, PlanBuilder
from wgpu_engine.ops.embed import look_up
from wgpu_engine.ops.kv import KVCache
from wgpu_engine.ops.matmul import Gate, activated, codec_for, project
from wgpu_engine.ops.norm import norm, residual_norm
from wgpu_engine.ops.pool import Pooling, pool
from wgpu_engine.ops.repack import Loader
from wgpu_engine.ops.weight import Norm, Weight

MEMBERS = ("bert",)
"""by `general.architecture`"""
_POOLING: dict[int, Pooling] = {0: "mean", 1: "mean", 2: "cls"}
"""by llama.cpp's numbers; where a file says none, the mean is what most models were trained for"""


@dataclass(frozen=True)
class Config:
    """The settings of a BERT."""

    layers: int
    width: int
    feed_forward: int
    heads: Heads
    eps: float
    vocab: int
    context: int
    activation: Gate
    pooling: Pooling

    @staticmethod
    def read(settings: Settings, vocab: int) -> "Config":
        pooling = settings.count("pooling_type", 0, smallest=0)
        if pooling not in _POOLING:
            raise UnsupportedModelError(
                f"the pooling type {pooling} of this file is not supported: use a model that takes the mean or the "
                "first token"
            )
        width = settings.count("embedding_length")
        return Config(
            layers=settings.count("block_count", largest=1 << 12),
            width=width,
            feed_forward=settings.count("feed_forward_length", 4 * width),
            heads=read_heads(settings, neox=True),
            eps=settings.number("attention.layer_norm_epsilon", 1e-12),
            vocab=vocab,
            context=settings.count("context_length", largest=1 << 31),
            activation=read_activation(settings, "gelu"),
            pooling=_POOLING[pooling],
        )


@dataclass(frozen=True)
class Layer:
    """The weights of a block."""

    attention: Attention
    attention_norm: Norm
    up: Linear
    down: Linear
    feed_forward_norm: Norm


class Bert:
    """See `wgpu_engine.models.model.Model`; `forward` gives embeddings."""

    def __init__(
        self,
        config: Config,
        description: Description,
        tokens: Weight,
        positions: Weight,
        types: Weight | None,
        norm: Norm,
        layers: list[Layer],
    ) -> None:
        self.config = config
        self.description = description
        self.tokens = tokens
        self.positions = positions
        self.types = types
        self.norm = norm
        self.layers = layers

    @staticmethod
    def states(settings: Settings, tensors: Tensors) -> tuple[PagedKV, ...]:
        """The keys and values that a text's rows see, which are kept for one step."""
        c = Config.read(settings, 0)
        return (PagedKV(c.heads.kv_count, c.heads.head_dim),) * c.layers

    @staticmethod
    async def load(
        device: Device, settings: Settings, tensors: Tensors, description: Description, loader: Loader
    ) -> "Bert":
        """Brings the weights onto the device; raises as `Architecture.load` does."""
        c = Config.read(settings, description.vocab)
        tokens = await loader.weight("token_embd", [[tensors.take("token_embd.weight", c.vocab, c.width)]])
        table = tensors.take("position_embd.weight", c.context, c.width)
        positions = await loader.weight("position_embd", [[table]])
        types = None
        if "token_types.weight" in tensors:
            kinds = tensors.take_matrix("token_types.weight")
            table = tensors.take("token_types.weight", kinds.rows, c.width)
            types = await loader.weight("token_types", [[table]])
        norm = await load_layer_norm(tensors, "token_embd_norm", c.width, c.eps, loader)
        layers = [await _load_layer(c, tensors, f"blk.{i}.", loader) for i in range(c.layers)]
        return Bert(c, description, tokens, positions, types, norm, layers)

    @property
    def weight_bytes_per_token(self) -> int:
        return sum(layer.attention.bytes + layer.up.bytes + layer.down.bytes for layer in self.layers)

    def prepare(self, positions: int) -> None:
        """Nothing depends on the context."""

    def forward(self, builder: PlanBuilder, cache: KVCache, positions: int) -> Buffer | None:
        c = self.config
        x = look_up(builder, self.tokens)
        look_up(builder, self.positions, "position", onto=x)
        if self.types is not None:
            # there is one text a sequence, so that all of its tokens are of the first type
            look_up(builder, self.types, "first", onto=x)
        h: Activation | None
        h = norm(builder, x, c.width, self.norm, codec_for(builder, *self.layers[0].attention.reads), in_place=True)
        for i, layer in enumerate(self.layers):
            output, up, down = layer.attention.output, layer.up.weight, layer.down.weight
            readers = self.layers[i + 1].attention.reads if i + 1 < len(self.layers) else ()

            attended = layer.attention.attend(builder, h, None, cache, i, positions, causal=False)
            mixed = builder.floats(c.width, "attention's output")
            project(builder, output.weights, attended, mixed, c.width, bias=output.bias)
            h = residual_norm(builder, x, mixed, c.width, layer.attention_norm, codec_for(builder, up), in_place=True)
            assert h is not None
            h = activated(builder, up, h, codec_for(builder, down), activation=c.activation, bias=layer.up.bias)
            made = builder.floats(c.width, "feed-forward's output")
            project(builder, (down,), h, made, c.width, bias=layer.down.bias)
            codec = codec_for(builder, *readers) if readers else "f32"
            h = residual_norm(builder, x, made, c.width, layer.feed_forward_norm, codec, in_place=True)
            assert h is not None
        return pool(builder, x, c.width, c.pooling) if builder.outputs else None


async def _load_layer(c: Config, tensors: Tensors, prefix: str, loader: Loader) -> Layer:
    return Layer(
        attention=await load_attention(tensors, prefix, c.width, c.heads, loader),
        attention_norm=await load_layer_norm(tensors, f"{prefix}attn_output_norm", c.width, c.eps, loader),
        up=await load_linear(tensors, f"{prefix}ffn_up", c.feed_forward, c.width, loader),
        down=await load_linear(tensors, f"{prefix}ffn_down", c.width, c.feed_forward, loader),
        feed_forward_norm=await load_layer_norm(tensors, f"{prefix}layer_output_norm", c.width, c.eps, loader),
    )
