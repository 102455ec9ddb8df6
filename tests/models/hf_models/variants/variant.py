"""A feature of an architecture, switched on in a model of its own."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ..configs import config_of

Changes = Mapping[str, Any]


@dataclass(frozen=True)
class Variant:
    """A random model with a feature, and how to take the feature away."""

    architecture: str
    """the class that config.json names"""
    feature: str
    changes: Changes = field(default_factory=dict)
    """keys of the small configuration to replace; None is null, `...` leaves a key out"""
    without: Changes = field(default_factory=dict)
    """keys to replace in the reference alone, so that it lacks the feature: the logits have to tell"""
    lacking: str = ""
    """in the same way, tensors that become zeros: those with this in their name"""
    gguf: Changes | str = field(default_factory=dict)
    """keys that GGUF, as llama.cpp's converter writes it, takes for something else; or why it can't say all"""
    refused: str = ""
    """what the engine says that it doesn't support, if so"""
    tokens: int = 41
    dtype: Literal["F32", "BF16"] = "F32"
    slow: bool = False

    def __str__(self) -> str:
        return f"{self.architecture.removesuffix('ForCausalLM').removesuffix('LMHeadModel')}: {self.feature}"

    @property
    def ids(self) -> list[int]:
        return [(7 + 31 * i + i * i) % self.config["vocab_size"] for i in range(self.tokens)]

    @property
    def config(self) -> dict[str, Any]:
        return config_of(self.architecture, **self.changes)


def rope_of(kind: str, base: float = 10000.0, **settings: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": kind, "rope_theta": base, **settings}}


def factors_between(first: float, last: float, pairs: int) -> list[float]:
    return [first + (last - first) * i / (pairs - 1) for i in range(pairs)]


PLAIN = rope_of("default")
YARN = {"factor": 4.0, "original_max_position_embeddings": 32}
LONGROPE = {"short_factor": factors_between(1.0, 3.0, 8), "long_factor": factors_between(1.5, 9.0, 8)}
NO_WINDOW = {"sliding_window": None}
UNUSED_WINDOW = {"use_sliding_window": False}
