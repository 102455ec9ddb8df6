"""Rotary position embedding with every scaling that transformers knows (modeling_rope_utils.py)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .checkpoint import Checkpoint, Doubles

_PARTS = {"gpt_neox": 0.25, "phi": 0.5}
"""how much of a head turns where the configuration doesn't say it"""


@dataclass(frozen=True)
class Rope:
    """How fast each pair of values turns, in radians a position, and what rotated pairs are multiplied by."""

    frequencies: Doubles
    amplitude: float = 1.0

    def turn(self, x: Doubles) -> Doubles:
        """Of [tokens, heads, head_dim] at positions 0, 1, …: pairs are half of the rotated part apart."""
        pairs = len(self.frequencies)
        angles = np.arange(len(x))[:, None, None] * self.frequencies
        cos, sin = np.cos(angles) * self.amplitude, np.sin(angles) * self.amplitude
        first, second, rest = x[..., :pairs], x[..., pairs : 2 * pairs], x[..., 2 * pairs :]
        return np.concatenate([first * cos - second * sin, second * cos + first * sin, rest], axis=-1)


def rope_of(model: Checkpoint, tokens: int, kind: str = "full_attention") -> Rope:
    """The rotation of a sequence of so many tokens, in layers of the kind that `layer_types` names."""
    config = model.config
    settings = rope_settings(config, kind)
    base = settings["rope_theta"]
    dim = int(model.head_dim * settings.get("partial_rotary_factor", 1.0))
    context = config["max_position_embeddings"]
    match settings["rope_type"]:
        case "default":
            return Rope(_plain(base, dim))
        case "linear":
            return Rope(_plain(base, dim) / settings["factor"])
        case "dynamic":
            stretch = settings["factor"] * max(tokens, context) / context - (settings["factor"] - 1)
            return Rope(_plain(base * stretch ** (dim / (dim - 2)), dim))
        case "llama3":
            return Rope(_llama3(_plain(base, dim), settings))
        case "yarn":
            return _yarn(base, dim, settings, context)
        case "longrope":
            return _longrope(_plain(base, dim), settings, context, tokens)
    raise NotImplementedError(settings["rope_type"])


def rope_settings(config: Mapping[str, Any], kind: str = "full_attention") -> dict[str, Any]:
    """What `rope_parameters` says since transformers 5 (for each kind of layer, or for all), or older keys."""
    settings = config.get("rope_parameters") or config.get("rope_scaling") or {}
    settings = dict(settings.get(kind, settings))
    if kind == "sliding_attention" and "rope_local_base_freq" in config:
        settings = {"rope_theta": config["rope_local_base_freq"]}
    settings.setdefault("rope_type", settings.get("type", "default"))
    if settings["rope_type"] == "su":
        settings["rope_type"] = "longrope"
    for key, names, usual in (
        ("rope_theta", ("rope_theta", "rotary_emb_base", "theta"), 10000.0),
        ("partial_rotary_factor", ("partial_rotary_factor", "rotary_pct"), _PARTS.get(config["model_type"], 1.0)),
    ):
        said = [config[name] for name in names if config.get(name) is not None]
        settings.setdefault(key, said[0] if said else usual)
    if "original_max_position_embeddings" in config:
        settings["original_max_position_embeddings"] = config["original_max_position_embeddings"]
    settings.setdefault("original_max_position_embeddings", config.get("max_position_embeddings"))
    return settings


def _plain(base: float, dim: int) -> Doubles:
    return base ** (-np.arange(0, dim, 2) / dim)


def _llama3(plain: Doubles, settings: Mapping[str, Any]) -> Doubles:
    """Waves that fit often into the original context stay, those that hardly do are stretched, between is between."""
    turns = settings["original_max_position_embeddings"] * plain / (2 * math.pi)
    low, high = settings["low_freq_factor"], settings["high_freq_factor"]
    kept = np.clip((turns - low) / (high - low), 0, 1)
    return plain * (kept + (1 - kept) / settings["factor"])


def _yarn(base: float, dim: int, settings: Mapping[str, Any], context: int) -> Rope:
    original = settings["original_max_position_embeddings"]
    factor = settings.get("factor") or context / original

    def pair_that_turns(times: float) -> float:
        return dim * math.log(original / (times * 2 * math.pi)) / (2 * math.log(base))

    first = pair_that_turns(settings.get("beta_fast") or 32)
    last = pair_that_turns(settings.get("beta_slow") or 1)
    if settings.get("truncate", True):
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, dim - 1)
    stretched = np.clip((np.arange(dim // 2) - first) / (last - first or 0.001), 0, 1)
    plain = _plain(base, dim)
    frequencies = plain * (1 - stretched) + plain / factor * stretched
    amplitude = settings.get("attention_factor")
    if amplitude is None:
        mscale, mscale_all = settings.get("mscale"), settings.get("mscale_all_dim")
        if mscale and mscale_all:
            amplitude = _mscale(factor, mscale) / _mscale(factor, mscale_all)
        else:
            amplitude = _mscale(factor, 1.0)
    return Rope(frequencies, amplitude)


def _mscale(factor: float, weight: float) -> float:
    return 0.1 * weight * math.log(factor) + 1 if factor > 1 else 1.0


def _longrope(plain: Doubles, settings: Mapping[str, Any], context: int, tokens: int) -> Rope:
    """One list of factors for sequences within the original context, another for longer ones."""
    original = settings["original_max_position_embeddings"]
    factor = settings.get("factor") or context / original
    amplitude = settings.get("attention_factor")
    if amplitude is None:
        amplitude = math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 else 1.0
    return Rope(plain / np.array(settings["long_factor" if tokens > original else "short_factor"]), amplitude)
