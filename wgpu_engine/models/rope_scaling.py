"""Frequencies of the rotary embedding, with the scalings that stretch a model's context.

Formulas: transformers, modeling_rope_utils.py; llama.cpp, ggml_rope_ext.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from wgpu_engine.errors import ModelFileError, UnsupportedModelError
from wgpu_engine.gpu.device import Buffer, Device
from wgpu_engine.models.settings import REMEDY, Settings
from wgpu_engine.models.tensors import Tensors
from wgpu_engine.ops.repack import Loader
from wgpu_engine.ops.rope import angle_table

_SCALINGS = ("none", "linear", "dynamic", "yarn", "longrope")


@dataclass(frozen=True)
class Rope:
    """The rotary embedding of a model's heads.

    Dynamic NTK and LongRoPE depend on how long a context is. Keys in the cache can't be turned again when a sequence
    grows, so the size of the engine's context decides, as in llama.cpp and vLLM, not the length that a sequence happens
    to have: transformers goes by that, and computes a LongRoPE's cache anew where it outgrows the original context.
    """

    base: float
    dim: int
    """rotated values of a head"""
    scaling: str = "none"
    factor: float = 1.0
    """by which the context is stretched"""
    context: int = 0
    """positions before stretching"""
    magnitude: float = 1.0
    """factor of what is rotated"""
    turns: tuple[float, float] = (32.0, 1.0)
    """YaRN: how often pairs turn within the context that are kept as they are, and that are stretched whole"""
    whole: bool = True
    """YaRN: whether the pairs between which frequencies change over are rounded to whole ones"""
    factors: tuple[float, ...] = ()
    """what the frequencies are divided by (Llama 3 stores its scaling so)"""
    long_factors: tuple[float, ...] = ()
    """LongRoPE: the same, in contexts that go beyond `context`"""

    @staticmethod
    def read(settings: Settings, dim: int, factors: Sequence[float] = (), long_factors: Sequence[float] = ()) -> "Rope":
        """From the settings, and the factors that tensors hold.

        Raises:
            UnsupportedModelError: a scaling that this version doesn't know.
            ModelFileError: frequencies that can't be.
        """
        base = settings.number("rope.freq_base", 10000.0)
        if base <= 1:
            raise ModelFileError(f"the RoPE base {base:g} is not above 1: {REMEDY}")
        if not all(0 < factor < math.inf for factor in (*factors, *long_factors)):
            raise ModelFileError(f"a tensor of RoPE factors holds some that can't be: {REMEDY}")
        scaling = settings.text("rope.scaling.type", "linear")
        if scaling not in _SCALINGS:
            raise UnsupportedModelError(
                f"the RoPE scaling {scaling[:40]!r} is not supported yet: use a model with one of "
                f"{', '.join(_SCALINGS)}"
            )
        if scaling == "longrope" and not long_factors:
            raise ModelFileError("the file lacks the tensors of its LongRoPE scaling: download it again")
        # the second name is that of files from 2023
        factor = settings.number("rope.scaling.factor", settings.number("rope.scale_linear", 1.0))
        magnitude = settings.number("rope.scaling.attn_factor", 1.0)
        if scaling == "yarn":
            magnitude *= yarn_magnitude(factor)
        context = settings.count("context_length", 2048, largest=1 << 31)
        return Rope(
            base,
            dim,
            scaling,
            factor,
            settings.count("rope.scaling.original_context_length", context, largest=1 << 31),
            magnitude,
            (
                settings.number("rope.scaling.yarn_beta_fast", 32.0),
                settings.number("rope.scaling.yarn_beta_slow", 1.0),
            ),
            settings.flag("rope.scaling.yarn_truncate", True),
            tuple(factors),
            tuple(long_factors),
        )

    @staticmethod
    async def load(settings: Settings, tensors: Tensors, dim: int, loader: Loader) -> "Rope":
        """From the settings and the tensors of a file; raises like `read`."""
        factors: dict[str, list[float]] = {}
        for name in ("rope_freqs", "rope_factors_short", "rope_factors_long"):
            tensor = tensors.optional(f"{name}.weight", dim // 2)
            factors[name] = await loader.floats(tensor) if tensor else []
        if bool(factors["rope_factors_short"]) != bool(factors["rope_factors_long"]):
            raise ModelFileError("the file has only one of the tensors of its LongRoPE scaling: download it again")
        return Rope.read(
            settings, dim, factors["rope_freqs"] or factors["rope_factors_short"], factors["rope_factors_long"]
        )

    def frequencies(self, positions: int) -> list[float]:
        """Radians a position for each rotated pair, in a context of so many positions."""
        base = self.base
        if self.scaling == "dynamic" and positions > self.context and self.dim > 2:
            stretch = self.factor * positions / self.context - (self.factor - 1)
            base *= stretch ** (self.dim / (self.dim - 2))
        found = [base ** (-2.0 * i / self.dim) for i in range(self.dim // 2)]
        factors = self.long_factors if self.long_factors and positions > self.context else self.factors
        if factors:
            found = [frequency / factor for frequency, factor in zip(found, factors, strict=True)]
        if self.scaling == "linear":
            found = [frequency / self.factor for frequency in found]
        if self.scaling == "yarn":
            first, last = self._stretched()
            for i, frequency in enumerate(found):
                part = min(max((i - first) / max(last - first, 0.001), 0.0), 1.0)
                found[i] = frequency * (1 - part) + frequency / self.factor * part
        return found

    def _stretched(self) -> tuple[float, float]:
        """YaRN: the last pair that is kept as it is, and the first that is stretched whole."""

        def pair(turns: float) -> float:
            """Which pair turns so often within the context."""
            return self.dim * math.log(self.context / (turns * 2 * math.pi)) / (2 * math.log(self.base))

        first, last = map(pair, self.turns)
        if self.whole:
            first, last = math.floor(first), math.ceil(last)
        return max(first, 0), min(last, self.dim - 1)

    def angles(self, device: Device, positions: int) -> Buffer:
        """The table of angles (`ops/rope.py`) for a context of so many positions."""
        return angle_table(device, self.frequencies(positions), positions, self.magnitude)


def yarn_magnitude(factor: float) -> float:
    """What YaRN multiplies queries and keys by, where the context is stretched by a factor."""
    return 0.1 * math.log(factor) + 1.0 if factor > 1 else 1.0
