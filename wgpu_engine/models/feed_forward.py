"""The feed-forward of a block: a gated one, or a mixture of experts of which each row goes through a few.

Which of them a layer has, its tensors say. Tensor names: GGUF.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from wgpu_engine.errors import ModelFileError, UnsupportedModelError
from wgpu_engine.files.gguf import TensorInfo
from wgpu_engine.gpu.device import Buffer
from wgpu_engine.models.linear import Linear, bias_of, load_linear
from wgpu_engine.models.settings import REMEDY, Settings
from wgpu_engine.models.tensors import Tensors
from wgpu_engine.ops.builder import Activation, Codec, PlanBuilder
from wgpu_engine.ops.experts import add_experts, gated_experts
from wgpu_engine.ops.matmul import Gate, add_to_residual, codec_for, gated, project
from wgpu_engine.ops.repack import Loader
from wgpu_engine.ops.routing import MOST_EXPERTS, Routing, Shares, route
from wgpu_engine.ops.weight import Norm, Weight

_SOFTMAX = 1
"""`expert_gating_func` of GGUF"""
_EXPERT = re.compile(r"blk\.\d+\.ffn_(gate|up|down)(_exps|\.\d+)\.weight", re.ASCII)


@dataclass(frozen=True)
class Mixture:
    """How many experts there are, and how they are mixed."""

    experts: int
    used: int
    inner: int
    """features of an expert's gate"""
    shares: Shares
    scale: float
    shared: int = 0
    """features of the gate of an expert that all rows go through, times a share of its own; 0: there is none"""

    @staticmethod
    def read(settings: Settings, *, normalised: bool = True, shared: bool = False) -> "Mixture | None":
        """None where the settings tell of no experts.

        Where they don't say it, `normalised` is whether shares add up to one, and `shared` whether there is an expert
        that all rows go through.
        """
        experts = settings.count("expert_count", 0, smallest=0, largest=MOST_EXPERTS)
        if not experts:
            return None
        if settings.count("expert_gating_func", _SOFTMAX) != _SOFTMAX or settings.count(
            "expert_shared_count", 0, smallest=0
        ):
            raise UnsupportedModelError(
                "experts that all rows share in full, or that are chosen by another function than softmax, are not "
                "supported yet: use a model like Mixtral, Qwen 2 MoE or Qwen 3 MoE"
            )
        inner = settings.count("expert_feed_forward_length", settings.count("feed_forward_length", 0, smallest=0))
        if inner < 4 or inner % 4:
            raise ModelFileError(f"the experts' feed-forward has {inner} values, not a multiple of 4: {REMEDY}")
        usual = settings.count("feed_forward_length", smallest=4) if shared else 0
        width = settings.count("expert_shared_feed_forward_length", usual, smallest=0)
        if width % 4 or (width and experts < 2):
            raise ModelFileError(
                f"an expert of {width} values, which all rows share beside {experts} others, can't be: {REMEDY}"
            )
        return Mixture(
            experts,
            settings.count("expert_used_count", largest=experts),
            inner,
            "chosen" if settings.flag("expert_weights_norm", normalised) else "all",
            settings.number("expert_weights_scale", 1.0),
            width,
        )


@dataclass(frozen=True)
class Gated:
    """A feed-forward that all rows go through."""

    gate_up: Linear
    """one weight of two ports, or two where their types differ"""
    down: Linear

    @property
    def reads(self) -> tuple[Weight, ...]:
        """The weights that read the block's input."""
        return self.gate_up.weights

    @property
    def bytes_per_token(self) -> int:
        return self.gate_up.bytes + self.down.bytes

    def gated(self, builder: PlanBuilder, h: Activation, codec: Codec | None = None, *, gate: Gate) -> Activation:
        """gate(h @ gate.T) * (h @ up.T), [rows, inner], in `codec` or the one that `down` reads best."""
        codec = codec or codec_for(builder, self.down.weight)
        return gated(builder, self.gate_up.weights, h, codec, gate=gate, bias=self.gate_up.bias)

    def add(self, builder: PlanBuilder, x: Buffer, h: Activation, norm: Norm, codec: Codec, scale: float) -> Activation:
        """Adds what it makes of the normed x to x, times `scale`; returns x in the next norm, in `codec`."""
        h = self.gated(builder, h, gate="silu")
        return add_to_residual(builder, self.down.weight, h, x, norm, codec, bias=self.down.bias, scale=scale)


@dataclass(frozen=True)
class Experts:
    """A mixture of experts."""

    mixture: Mixture
    router: Weight
    """[experts, width], with the norm's gain in it: it reads floats, whatever the experts read"""
    gate_up: tuple[Weight, ...]
    down: Weight
    shared: "Experts | None" = None
    """the one that all rows go through: a mixture of one"""

    @property
    def reads(self) -> tuple[Weight, ...]:
        """As of `Gated`; routers read floats."""
        return self.gate_up + (self.shared.reads if self.shared else ())

    @property
    def bytes_per_token(self) -> int:
        all_experts = sum(weight.bytes for weight in (*self.gate_up, self.down))
        mine = self.router.bytes + all_experts * self.mixture.used // self.mixture.experts
        return mine + (self.shared.bytes_per_token if self.shared else 0)

    def add(self, builder: PlanBuilder, x: Buffer, h: Activation, norm: Norm, codec: Codec, scale: float) -> Activation:
        """As `Gated.add`."""
        mixtures = (self, self.shared) if self.shared else (self,)
        # all read x and h before the first adds to them
        made = [each._made(builder, x, h, scale) for each in mixtures]
        for each, (a, routing) in zip(mixtures, made, strict=True):
            h = add_experts(builder, each.down, a, routing, x, norm, codec)
        return h

    def _made(self, builder: PlanBuilder, x: Buffer, h: Activation, scale: float) -> tuple[Activation, Routing]:
        """What `down` reads, and of which experts."""
        m = self.mixture
        logits = builder.floats(m.experts, f"router of {m.experts}")
        project(builder, (self.router,), Activation(x, h.width, "f32", h.squares, h.eps), logits, m.experts)
        routing = route(builder, logits, m.experts, m.used, shares=m.shares, scale=m.scale * scale)
        label = f"gated of {m.experts}"
        return gated_experts(builder, self.gate_up, h, routing, codec_for(builder, self.down), label=label), routing


FeedForward = Gated | Experts


async def load_feed_forward(
    tensors: Tensors, prefix: str, width: int, inner: int, mixture: Mixture | None, norm: TensorInfo, loader: Loader
) -> FeedForward:
    """The feed-forward of a block, `inner` features wide where it has no experts; `norm` is the gain before it.

    Raises:
        ModelFileError: a tensor is missing or has the wrong shape.
        UnsupportedModelError: experts of different types.
    """

    if mixture is not None and f"{prefix}ffn_gate_inp.weight" in tensors:
        gate, up = (_experts(tensors, f"{prefix}ffn_{name}", mixture, mixture.inner, width) for name in ("gate", "up"))
        down = _experts(tensors, f"{prefix}ffn_down", mixture, width, mixture.inner)
        ports = [[gate, up]] if gate[0].type.name == up[0].type.name else [[gate], [up]]
        return Experts(
            mixture,
            await loader.router(tensors.take(f"{prefix}ffn_gate_inp.weight", mixture.experts, width), norm),
            tuple([await loader.weight(f"{prefix}ffn_experts", each, experts=mixture.experts) for each in ports]),
            await loader.weight(f"{prefix}ffn_down_exps", [down], experts=mixture.experts),
            await _load_shared(tensors, prefix, width, mixture.shared, norm, loader) if mixture.shared else None,
        )
    return await load_gated(tensors, prefix, width, inner, loader)


async def _load_shared(
    tensors: Tensors, prefix: str, width: int, inner: int, norm: TensorInfo, loader: Loader
) -> Experts:
    """The expert that all rows go through (Qwen 2 MoE), times the sigmoid of a product."""
    router = tensors.take_row(f"{prefix}ffn_gate_inp_shexp.weight", width)
    gate_up = [tensors.take(f"{prefix}ffn_{port}_shexp.weight", inner, width) for port in ("gate", "up")]
    down = tensors.take(f"{prefix}ffn_down_shexp.weight", width, inner)
    return Experts(
        Mixture(1, 1, inner, "sigmoid", 1.0),
        await loader.router(router, norm),
        await loader.paired(f"{prefix}ffn_shared", gate_up),
        await loader.weight(f"{prefix}ffn_down_shexp", [[down]]),
    )


async def load_gated(tensors: Tensors, prefix: str, width: int, inner: int, loader: Loader) -> Gated:
    """A gated feed-forward, whether gate and up lie in one tensor or in two; raises ModelFileError likewise."""
    gate, up = f"{prefix}ffn_gate", f"{prefix}ffn_up"
    if f"{gate}.weight" not in tensors and tensors.take_matrix(f"{up}.weight").rows == 2 * inner:
        parts = tensors.take_parts(f"{up}.weight", width, inner, inner)
    else:
        parts = [tensors.take(f"{name}.weight", inner, width) for name in (gate, up)]
    bias = await bias_of(tensors, {gate: inner, up: inner}, loader)
    gate_up = Linear(await loader.paired(f"{prefix}ffn_gate_up", parts), bias)
    return Gated(gate_up, await load_linear(tensors, f"{prefix}ffn_down", width, inner, loader))


def _experts(tensors: Tensors, name: str, mixture: Mixture, rows: int, columns: int) -> list[TensorInfo]:
    """The matrices of all experts: one tensor, or in folders and files of 2023 a tensor each."""
    if f"{name}_exps.weight" in tensors:
        return [tensors.take(f"{name}_exps.weight", mixture.experts, rows, columns)]
    each = [tensors.take(f"{name}.{i}.weight", rows, columns) for i in range(mixture.experts)]
    types = sorted({tensor.type.name for tensor in each})
    if len(types) > 1:
        raise UnsupportedModelError(
            f"the experts of {name} are of the types {', '.join(types)}, and one for all is supported: convert the "
            "model again with a recent version of llama.cpp"
        )
    return each


def active_parameters(settings: Settings, tensors: Mapping[str, TensorInfo]) -> int:
    """Parameters that a token meets: of experts those that are used."""
    mixture = Mixture.read(settings)
    used, experts = (mixture.used, mixture.experts) if mixture else (1, 1)
    total = 0
    for name, tensor in tensors.items():
        size = tensor.rows * tensor.columns
        total += size * used // experts if _EXPERT.fullmatch(name) else size
    return total
