"""How the next token is chosen."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wgpu_engine.errors import RequestError
from wgpu_engine.ops.bias import MOST_BIASES
from wgpu_engine.ops.builder import SLOT_WORDS
from wgpu_engine.ops.top_tokens import MOST_TOP
from wgpu_engine.text.stop import StopStrings

_PENALTIES, _TOP = 1, 2
"""flags of a slot"""
_MOST_BIAS = 100.0


@dataclass(frozen=True)
class SamplingParams:
    """What a request may ask for; the defaults are llama.cpp's.

    Biases come first, then penalties, top-k, top-p, min-p and the temperature. The repetition penalty counts tokens of
    prompt and output, presence and frequency penalties those of the output alone.

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
    logit_bias: Mapping[int, float] | Sequence[tuple[int, float]] | None = None
    """what is added to the logits of up to 300 tokens, from -100 to 100; kept as pairs in order of tokens"""
    logprobs: int | None = None
    """has answers tell how likely each token was, and so many of the likeliest, 0 to 20; None: neither

    That is the model's own view: the softmax of its logits, before biases, penalties and temperature."""
    cache_prompt: bool = True
    """whether the beginning of the prompt may be taken from the KV cache"""

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
        self._check("logprobs", self.logprobs or 0, 0, MOST_TOP)
        object.__setattr__(self, "logit_bias", self._pairs())
        for name in ("top_k", "max_tokens", "seed", "logprobs"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
                raise RequestError(f"{name} must be a whole number, not {value!r}.")

    @staticmethod
    def _check(name: str, value: Any, least: float, most: float) -> None:
        wrong = isinstance(value, bool) or not isinstance(value, int | float)
        # nothing compares with NaN
        if wrong or not least <= value <= most:
            raise RequestError(f"{name} must be a number from {least:g} to {most:g}, not {value!r}.")

    def _pairs(self) -> tuple[tuple[int, float], ...]:
        try:
            found = dict(self.logit_bias or ())
        except (TypeError, ValueError):
            raise RequestError("logit_bias must give numbers by token ids.") from None
        if len(found) > MOST_BIASES:
            raise RequestError(f"logit_bias has {len(found)} tokens: give at most {MOST_BIASES}.")
        for token, bias in found.items():
            if isinstance(token, bool) or not isinstance(token, int) or token < 0:
                raise RequestError(f"logit_bias must have token ids as its keys, not {token!r:.80}.")
            self._check("logit_bias", bias, -_MOST_BIAS, _MOST_BIAS)
        return tuple(sorted(found.items()))

    @property
    def biases(self) -> tuple[tuple[int, float], ...]:
        """Tokens in ascending order, with what is added to their logits."""
        return tuple(self.logit_bias or ())  # type: ignore[arg-type]

    @property
    def is_detailed(self) -> bool:
        """Whether steps have to be detailed ones."""
        return bool(self.logit_bias) or self.logprobs is not None

    @property
    def penalizes(self) -> bool:
        return self.repetition_penalty != 1.0 or self.presence_penalty != 0.0 or self.frequency_penalty != 0.0

    def slot_words(self, seed: int, count: int) -> bytes:
        """The slot of a sequence with so many tokens sampled (see `shaders/state.wgsl`): the seed, the count, these."""
        data = struct.pack(
            "<4I f I 5f 3I",
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
            _PENALTIES * self.penalizes + _TOP * (self.logprobs is not None),
            len(self.biases),
            self.logprobs or 0,
        )
        return data.ljust(4 * SLOT_WORDS, b"\0")
