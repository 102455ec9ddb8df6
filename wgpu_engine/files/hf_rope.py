"""RoPE and its scaling as a Hugging Face configuration says it, translated to GGUF's settings.

Names: transformers, modeling_rope_utils.py. Since transformers 5 all is in `rope_parameters`; before, the base was
`rope_theta` beside `rope_scaling`, whose type was once called `type`.
"""

import math

from wgpu_engine.errors import ModelFileError, UnsupportedModelError
from wgpu_engine.files.gguf_window import Value, show
from wgpu_engine.files.hf_config import HFConfig

_SCALINGS = ("default", "linear", "dynamic", "llama3", "yarn", "longrope")
_OLD_NAMES = {"su": "longrope"}


def rope_settings(config: HFConfig, head_dim: int, base: float = 10000.0) -> dict[str, Value]:
    """GGUF's settings, without the architecture's prefix, of the rotary embedding over heads of `head_dim` values.

    Where layers with and without a sliding window have one each, it is that of the layers without. `base` is used where
    the configuration says none.

    Raises:
        UnsupportedModelError: a scaling that this version doesn't know.
        ModelFileError: a value that can't be.
    """
    rope = _section(config)
    part = rope.number("partial_rotary_factor", config.number("partial_rotary_factor", 1.0))
    settings: dict[str, Value] = {
        "rope.freq_base": rope.number("rope_theta", config.number("rope_theta", base)),
        "rope.dimension_count": int(head_dim * min(part, 1.0)),
        # Conversion to GGUF permutes the rows of q and k of some models; here they are as they were trained.
        "rope.pairs": "halves",
    }
    scaling = _scaling(config)
    if scaling in ("linear", "dynamic"):
        settings |= {"rope.scaling.type": scaling, "rope.scaling.factor": rope.number("factor")}
    if scaling == "yarn":
        settings |= _yarn(config, rope)
    if scaling == "longrope":
        settings |= _longrope(config, rope)
    return settings


def _yarn(config: HFConfig, rope: HFConfig) -> dict[str, Value]:
    context = _original_context(config, rope)
    factor = rope.number("factor", config.count("max_position_embeddings", context) / context)

    def magnitude(mscale: float) -> float:
        return 0.1 * mscale * math.log(factor) + 1.0 if factor > 1 else 1.0

    wanted = magnitude(1.0)
    if rope.values.get("mscale") and rope.values.get("mscale_all_dim"):
        wanted = magnitude(rope.number("mscale")) / magnitude(rope.number("mscale_all_dim"))
    return {
        "rope.scaling.type": "yarn",
        "rope.scaling.factor": factor,
        "rope.scaling.original_context_length": context,
        # what YaRN multiplies by of its own accord is left out, as GGUF has it
        "rope.scaling.attn_factor": rope.number("attention_factor", wanted) / magnitude(1.0),
        "rope.scaling.yarn_beta_fast": rope.number("beta_fast", 32.0),
        "rope.scaling.yarn_beta_slow": rope.number("beta_slow", 1.0),
        # not GGUF's: there, as by default here, the bounds are whole pairs
        "rope.scaling.yarn_truncate": rope.flag("truncate", True),
    }


def _longrope(config: HFConfig, rope: HFConfig) -> dict[str, Value]:
    context = _original_context(config, rope)
    stretch = rope.number("factor", config.count("max_position_embeddings", context) / context)
    wanted = math.sqrt(1 + math.log(stretch) / math.log(context)) if stretch > 1 and context > 1 else 1.0
    return {
        "rope.scaling.type": "longrope",
        "rope.scaling.original_context_length": context,
        "rope.scaling.attn_factor": rope.number("attention_factor", wanted),
    }


def _original_context(config: HFConfig, rope: HFConfig) -> int:
    """Positions before stretching; Phi 3 says them outside of the section."""
    key = "original_max_position_embeddings"
    return rope.count(key, config.count(key, config.count("max_position_embeddings", 2048)))


def local_rope_base(config: HFConfig) -> float:
    """The base in layers with a sliding window, where these have a rotary embedding of their own (Gemma 3)."""
    both = config.section("rope_parameters")
    rope = (both and both.section("sliding_attention")) or HFConfig(config.name, {})
    if rope.text("rope_type", "default") != "default":
        raise UnsupportedModelError(
            f"{config.name} scales the RoPE of layers with a sliding window, which is not supported: use another model"
        )
    return rope.number("rope_theta", config.number("rope_local_base_freq", 10000.0))


def rope_factors(config: HFConfig, rope_dim: int, base: float) -> dict[str, list[float]]:
    """What divides the frequency of each rotated pair, by the names of the tensors that GGUF has them in.

    `base` is that of the settings. Raises as `rope_settings`.
    """
    scaling = _scaling(config)
    if scaling == "llama3":
        return {"rope_freqs.weight": _llama3_factors(config, rope_dim, base)}
    if scaling == "longrope":
        rope = _section(config)
        return {
            f"rope_factors_{length}.weight": rope.numbers(f"{length}_factor", rope_dim // 2)
            for length in ("short", "long")
        }
    return {}


def _llama3_factors(config: HFConfig, rope_dim: int, base: float) -> list[float]:
    """Long waves are stretched by the factor, short ones not, and those between in part."""
    rope = _section(config)
    factor, low, high = rope.number("factor"), rope.number("low_freq_factor"), rope.number("high_freq_factor")
    context = rope.count("original_max_position_embeddings")
    if low >= high:
        raise ModelFileError(
            f"{rope.name} has a low_freq_factor of {low:g} that isn't below its high_freq_factor of {high:g}: download "
            "it again"
        )
    factors = []
    for i in range(rope_dim // 2):
        turns = context / (2 * math.pi * base ** (2 * i / rope_dim))
        kept = min(max((turns - low) / (high - low), 0.0), 1.0)
        factors.append(1 / ((1 - kept) / factor + kept))
    return factors


def _section(config: HFConfig) -> HFConfig:
    section = config.section("rope_parameters") or config.section("rope_scaling")
    section = (section and section.section("full_attention")) or section
    return section or HFConfig(config.name, {})


def _scaling(config: HFConfig) -> str:
    rope = _section(config)
    kind = rope.text("rope_type", rope.text("type", "default"))
    kind = _OLD_NAMES.get(kind, kind)
    if kind not in _SCALINGS:
        raise UnsupportedModelError(
            f"the RoPE scaling {show(kind)} of {config.name} is not supported yet: use a model with one of "
            f"{', '.join(_SCALINGS)}"
        )
    return kind
