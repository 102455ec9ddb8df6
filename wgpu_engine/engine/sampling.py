"""How the next token is chosen."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from wgpu_engine.errors import RequestError
from wgpu_engine.ops.builder import SLOT_WORDS
from wgpu_engine.text.stop import StopStrings

_PENALTIES = 1


@dataclass(frozen=True)
class SamplingParams:
    """What a request may ask for; the defaults are llama.cpp's.

    Penalties come first, then top-k, top-p, min-p and the temperature. The repetition penalty counts tokens of prompt
    and output, presence and frequency penalties those of the output alone.

    Raises:
        RequestError: a value is out of its range.
    """

    temperature: float = 0.8
    """0 takes the likeliest token"""
    top_k: int = 40
    """0 switches it off"""
    top_p: float = 0.95
    min_p: float = 0.05
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    seed: int | None = None
    max_tokens: int | None = None
    """None: until the context is full"""
    stop: Sequence[str] | None = ()
    """a text or several, before which the answer ends; None: none"""
    ignore_eos: bool = False

    def __post_init__(self) -> None:
        stop = (self.stop,) if isinstance(self.stop, str) else () if self.stop is None else self.stop
        if not isinstance(stop, Sequence) or not all(isinstance(text, str) and text for text in stop):
            raise RequestError("stop must be a text or a list of texts, none of them empty.")
        stop = tuple(stop)
        StopStrings(stop)  # refuses too many and too long ones
        object.__setattr__(self, "stop", stop)
        self._check("temperature", self.temperature, 0.0, 100.0)
        self._check("top_k", self.top_k, 0, 1 << 31)
        self._check("top_p", self.top_p, 0.0, 1.0)
        self._check("min_p", self.min_p, 0.0, 1.0)
        self._check("repetition_penalty", self.repetition_penalty, 0.01, 100.0)
        self._check("presence_penalty", self.presence_penalty, -100.0, 100.0)
        self._check("frequency_penalty", self.frequency_penalty, -100.0, 100.0)
        self._check("max_tokens", self.max_tokens or 0, 0, 1 << 31)
        for name in ("top_k", "max_tokens", "seed"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
                raise RequestError(f"{name} must be a whole number, not {value!r}.")

    @staticmethod
    def _check(name: str, value: Any, least: float, most: float) -> None:
        wrong = isinstance(value, bool) or not isinstance(value, int | float)
        # nothing compares with NaN
        if wrong or not least <= value <= most:
            raise RequestError(f"{name} must be a number from {least:g} to {most:g}, not {value!r}.")

    @property
    def penalizes(self) -> bool:
        return self.repetition_penalty != 1.0 or self.presence_penalty != 0.0 or self.frequency_penalty != 0.0

    def slot_words(self, seed: int, count: int) -> bytes:
        """The slot of a sequence with so many tokens sampled (see `shaders/state.wgsl`): the seed, the count, these."""
        data = struct.pack(
            "<4I f I 5f I",
            0,
            0,
            seed,
            count,
            self.temperature,
            self.top_k,
            self.top_p,
            self.min_p,
            self.repetition_penalty,
            self.presence_penalty,
            self.frequency_penalty,
            _PENALTIES if self.penalizes else 0,
        )
        return data.ljust(4 * SLOT_WORDS, b"\0")
