"""Frequencies of the rotary embedding, with the scalings that stretch a model's context."""

import math
from collections.abc import Sequence

from wgpu_engine.errors import ModelFileError, UnsupportedModelError
from wgpu_engine.models.settings import Settings


def rope_frequencies(settings: Settings, rope_dim: int, factors: Sequence[float] | None) -> list[float]:
    """Radians a position for each rotated pair.

    `factors` are those of the tensor `rope_freqs.weight`, which divide the frequencies (Llama 3 stores its scaling so).

    Raises:
        UnsupportedModelError: a scaling that this version doesn't know.
        ModelFileError: frequencies that can't be.
    """
    base = settings.number("rope.freq_base", 10000.0)
    if base < 1:
        raise ModelFileError(f"the RoPE base {base:g} is below 1: the file is damaged")
    frequencies = [base ** (-2.0 * i / rope_dim) for i in range(rope_dim // 2)]
    if factors is not None:
        if not all(0 < factor < math.inf for factor in factors):
            raise ModelFileError("the tensor rope_freqs.weight holds factors that can't be: the file is damaged")
        frequencies = [frequency / factor for frequency, factor in zip(frequencies, factors, strict=True)]
    scaling = settings.text("rope.scaling.type", "linear")
    if scaling == "linear":
        # the second name is that of files from 2023
        factor = settings.number("rope.scaling.factor", settings.number("rope.scale_linear", 1.0))
        return [frequency / factor for frequency in frequencies]
    if scaling != "none":
        raise UnsupportedModelError(
            f"the RoPE scaling {scaling!r} is not supported yet: use a model with linear, Llama 3 or no scaling"
        )
    return frequencies
