"""The llama family: pre-norm blocks of grouped attention with RoPE and a gated feed-forward or experts.

Llama 1 to 3, SmolLM2, Mistral and Mixtral call themselves `llama`, Qwen 2 and 2.5 `qwen2`. Qwen 2 MoE has an expert for
all rows beside the others, Qwen 3 a norm of each query and key, SmolLM3 every fourth layer without positions; Granite
scales what it adds up, Phi 3 keeps Q, K and V in one tensor and gate and up in another. Tensor names: GGUF.
"""

from dataclasses import dataclass

from wgpu_engine.gpu.device import Buffer, Device
from wgpu_engine.models.attention_weights import Attention, load_attention, load_qk_norm
from wgpu_engine.models.ends import Ends
from wgpu_engine.models.feed_forward import FeedForward, Mixture, load_feed_forward
from wgpu_engine.models.heads import read_heads
from wgpu_engine.models.linear import load_rms_norm
from wgpu_engine.models.model import Description, PagedKV
from wgpu_engine.models.rope_scaling import Rope
from wgpu_engine.models.settings import Settings
from wgpu_engine.models.tensors import Tensors
from wgpu_engine.models.windows import layer_windows
from wgpu_engine.ops.attention import Heads
from wgpu_engine.ops.builder import PlanBuilder
from wgpu_engine.ops.embed import embed
from wgpu_engine.ops.kv import KVCache
from wgpu_engine.ops.matmul import add_to_residual, codec_for
from wgpu_engine.ops.repack import Loader
from wgpu_engine.ops.weight import Norm


@dataclass(frozen=True)
class Traits:
    """In what the members of the family differ, where no setting or tensor says so."""

    neox: bool
    """rotated pairs are half of the rotated width apart, as where conversion to GGUF doesn't permute q and k"""
    unrotated: int = 0
    """every so many layers one has no rotary embedding (NoPE); 0: none"""
    normalised: bool = True
    """whether the shares of experts add up to one"""
    shared: bool = False
    """whether there is an expert that all rows go through"""


MEMBERS = {
    "llama": Traits(neox=False),
    "granite": Traits(neox=False),
    "smollm3": Traits(neox=False, unrotated=4),
    "qwen2": Traits(neox=True),
    "qwen2moe": Traits(neox=True, normalised=False, shared=True),
    "qwen3": Traits(neox=True),
    "qwen3moe": Traits(neox=True),
    "phi3": Traits(neox=True),
}
"""by `general.architecture`"""


@dataclass(frozen=True)
class Config:
    """The settings of a llama."""

    layers: int
    width: int
    feed_forward: int
    """features of a gate, where there are no experts"""
    mixture: Mixture | None
    heads: Heads
    eps: float
    vocab: int
    context: int
    rotated: tuple[bool, ...]
    """whether each layer has a rotary embedding"""
    windows: tuple[int, ...]
    """positions that a row of each layer sees; 0: all"""
    embedding_scale: float
    residual_scale: float
    logit_scale: float
    """what logits are divided by"""

    @staticmethod
    def read(settings: Settings, tensors: Tensors, vocab: int) -> "Config":
        traits = MEMBERS[settings.architecture]
        layers = settings.count("block_count", largest=1 << 12)
        # said by what isn't GGUF, which knows the usual layers only
        rotated = settings.flags("rope.layers", layers)
        if rotated is None:
            rotated = [not traits.unrotated or (i + 1) % traits.unrotated != 0 for i in range(layers)]
        return Config(
            layers=layers,
            width=settings.count("embedding_length"),
            feed_forward=settings.count("feed_forward_length"),
            mixture=Mixture.read(settings, normalised=traits.normalised, shared=traits.shared),
            heads=read_heads(settings, neox=traits.neox),
            eps=settings.number("attention.layer_norm_rms_epsilon", 1e-5),
            vocab=vocab,
            context=settings.count("context_length", 2048, largest=1 << 31),
            rotated=tuple(rotated),
            windows=layer_windows(settings, layers),
            embedding_scale=settings.number("embedding_scale", 1.0),
            residual_scale=settings.number("residual_scale", 1.0),
            logit_scale=settings.number("logit_scale", 1.0),
        )


@dataclass(frozen=True)
class Layer:
    """The weights of a block."""

    attention_norm: Norm
    attention: Attention
    feed_forward_norm: Norm
    feed_forward: FeedForward


@dataclass(eq=False)
class Llama:
    """See `wgpu_engine.models.model.Model`."""

    device: Device
    config: Config
    description: Description
    rope: Rope
    ends: Ends
    layers: list[Layer]
    _angles: Buffer | None = None

    @staticmethod
    def states(settings: Settings, tensors: Tensors) -> tuple[PagedKV, ...]:
        """The state of each layer, from the settings alone."""
        c = Config.read(settings, tensors, 0)
        return tuple(PagedKV(c.heads.kv_count, c.heads.head_dim, window) for window in c.windows)

    @staticmethod
    async def load(
        device: Device, settings: Settings, tensors: Tensors, description: Description, loader: Loader
    ) -> "Llama":
        """Brings the weights onto the device; raises as `Architecture.load` does."""
        c = Config.read(settings, tensors, description.vocab)
        rope = await Rope.load(settings, tensors, c.heads.rope_dim, loader)
        norm = await load_rms_norm(tensors, "output_norm", c.width, c.eps, loader)
        ends = await Ends.load(tensors, c.vocab, c.width, norm, loader)
        layers = [await _load_layer(c, tensors, f"blk.{i}.", loader) for i in range(c.layers)]
        return Llama(device, c, description, rope, ends, layers)

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
            builder,
            self.ends.embedding,
            layers[0].attention_norm,
            codec_for(builder, *layers[0].attention.reads),
            scale=c.embedding_scale,
        )
        for i, layer in enumerate(layers):
            last = i + 1 == len(layers)
            next_norm = self.ends.norm if last else layers[i + 1].attention_norm
            next_weights = self.ends.head.weights if last else layers[i + 1].attention.reads

            angles, output = self._angles if c.rotated[i] else None, layer.attention.output
            h = layer.attention.attend(builder, h, angles, cache, i, positions, window=c.windows[i])
            h = add_to_residual(
                builder,
                output.weight,
                h,
                x,
                layer.feed_forward_norm,
                codec_for(builder, *layer.feed_forward.reads),
                bias=output.bias,
                scale=c.residual_scale,
            )
            h = layer.feed_forward.add(builder, x, h, next_norm, codec_for(builder, *next_weights), c.residual_scale)
        return self.ends.logits(builder, h, scale=1.0 / c.logit_scale)


async def _load_layer(c: Config, tensors: Tensors, prefix: str, loader: Loader) -> Layer:
    qk_norm = None
    if f"{prefix}attn_q_norm.weight" in tensors:
        qk_norm = await load_qk_norm(tensors, prefix, c.heads.head_dim, c.heads.head_dim, c.eps, loader)
    gain = tensors.take(f"{prefix}ffn_norm.weight", c.width)
    return Layer(
        attention_norm=await load_rms_norm(tensors, f"{prefix}attn_norm", c.width, c.eps, loader),
        attention=await load_attention(tensors, prefix, c.width, c.heads, loader, qk_norm=qk_norm),
        feed_forward_norm=await load_rms_norm(tensors, f"{prefix}ffn_norm", c.width, c.eps, loader),
        feed_forward=await load_feed_forward(tensors, prefix, c.width, c.feed_forward, c.mixture, gain, loader),
    )
