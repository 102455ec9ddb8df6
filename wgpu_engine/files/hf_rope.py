"""RoPE and its scaling as a Hugging Face configuration says it, translated to GGUF's settings.

Names: transformers, modeling_rope_utils.py. Since transformers 5 all is in `rope_parameters`; before, the base was
`rope_theta` beside `rope_scaling`, whose type was once called `type`.
"""

import math

from wgpu_engine.errors import ModelFileError, UnsupportedModelError
from wgpu_engine.files.gguf_window import Value, show
from wgpu_engine.files.hf_config import HFConfig

_SCALINGS = ("default", "linear", "llama3")


def rope_settings(config: HFConfig, head_dim: int) -> dict[str, Value]:
    """GGUF's settings, without the architecture's prefix, of the rotary embedding over heads of `head_dim` values.

    Raises:
        UnsupportedModelError: a scaling that this version doesn't know.
        ModelFileError: a value that can't be.
    """
    rope = _section(config)
    part = rope.number("partial_rotary_factor", config.number("partial_rotary_factor", 1.0))
    settings: dict[str, Value] = {
        "rope.freq_base": _base(config),
        "rope.dimension_count": int(head_dim * min(part, 1.0)),
        # Conversion to GGUF permutes the rows of q and k of some models; here they are as they were trained.
        "rope.pairs": "halves",
    }
    if _scaling(config) == "linear":
        settings |= {"rope.scaling.type": "linear", "rope.scaling.factor": rope.number("factor")}
    return settings


def rope_factors(config: HFConfig, rope_dim: int) -> list[float] | None:
    """What divides the frequency of each rotated pair, where the scaling is Llama 3's; GGUF has them as a tensor.

    Long waves are stretched by the factor, short ones not, and those between in part. Raises as `rope_settings`.
    """
    if _scaling(config) != "llama3":
        return None
    rope, base = _section(config), _base(config)
    factor, low, high = rope.number("factor"), rope.number("low_freq_factor"), rope.number("high_freq_factor")
    context = rope.count("original_max_position_embeddings")
    if low >= high:
        raise ModelFileError(f"{rope.name} has a low_freq_factor of {low:g} and a high_freq_factor of {high:g}")
    factors = []
    for i in range(rope_dim // 2):
        turns = context / (2 * math.pi * base ** (2 * i / rope_dim))
        kept = min(max((turns - low) / (high - low), 0.0), 1.0)
        factors.append(1 / ((1 - kept) / factor + kept))
    return factors


def _section(config: HFConfig) -> HFConfig:
    section = config.section("rope_parameters") or config.section("rope_scaling")
    return section or HFConfig(config.name, {})


def _base(config: HFConfig) -> float:
    return _section(config).number("rope_theta", config.number("rope_theta", 10000.0))


def _scaling(config: HFConfig) -> str:
    rope = _section(config)
    kind = rope.text("rope_type", rope.text("type", "default"))
    if kind not in _SCALINGS:
        raise UnsupportedModelError(
            f"the RoPE scaling {show(kind)} of {config.name} is not supported yet: use a model with one of "
            f"{', '.join(_SCALINGS)}"
        )
    return kind
