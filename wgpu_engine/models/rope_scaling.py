"""Frequencies of the rotary embedding, with the scalings that stretch a model's context."""

from collections.abc import Sequence

from wgpu_engine.errors import UnsupportedModelError
from wgpu_engine.models.settings import Settings


def rope_frequencies(settings: Settings, rope_dim: int, factors: Sequence[float] | None) -> list[float]:
    """Radians a position for each rotated pair.

    `factors` are those of the tensor `rope_freqs.weight`, which divides each frequency (Llama 3's scaling is stored so).

    Raises:
        UnsupportedModelError: a scaling that this version doesn't know.
    """
    base = settings.number("rope.freq_base", 10000.0)
    frequencies = [base ** (-2.0 * i / rope_dim) for i in range(rope_dim // 2)]
    if factors is not None:
        frequencies = [frequency / factor for frequency, factor in zip(frequencies, factors, strict=True)]
    scaling = settings.text("rope.scaling.type", "none")
    if scaling == "linear":
        factor = settings.number("rope.scaling.factor", 1.0)
        return [frequency / factor for frequency in frequencies]
    if scaling != "none":
        raise UnsupportedModelError(
            f"roPE scaling {scaling!r} is not supported yet: use a model with linear, Llama 3 or no scaling"
        )
    return frequencies
