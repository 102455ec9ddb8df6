"""A sequence on its way: what a request asks for and how far it has got."""

import secrets
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from wgpu_engine.engine.sampling import SamplingParams
from wgpu_engine.errors import ContextFullError, RequestError
from wgpu_engine.ops.state import Row, decode_row
from wgpu_engine.ops.top_tokens import TokenLogProbs

Sampled = tuple[int, TokenLogProbs | None]
"""a token, and how likely it was where that is asked for"""


def check_prompt(ids: Iterable[int], vocab: int, ctx_size: int, max_tokens: int | None) -> int:
    """How many tokens may follow a prompt: at most `max_tokens`, and what the context has room for.

    Raises:
        RequestError: `ids` is empty or holds an id that the model lacks.
        ContextFullError: `ids` leave no room for a token.
    """
    length = 0
    for token in ids:
        if not 0 <= token < vocab:
            raise RequestError(f"a token id of the prompt is outside the vocabulary: give ids from 0 to {vocab - 1}")
        length += 1
    if not length:
        raise RequestError("the prompt is empty: give at least one token")
    room = ctx_size - length
    if room < (0 if max_tokens == 0 else 1):
        raise ContextFullError(
            f"the prompt has {length} tokens and the context holds {ctx_size}: shorten it or raise --ctx-size"
        )
    return room if max_tokens is None else min(room, max_tokens)


@dataclass
class Timings:
    """How long a generation took, in seconds."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    """of the prompt: found in the KV cache"""
    queue_s: float = 0.0
    """from the request to its first step"""
    prompt_s: float = 0.0
    """from the first step to the first token"""
    completion_tokens: int = 0
    decode_s: float = 0.0
    first_token_s: float = 0.0
    """from the request to the first token"""

    @property
    def prompt_per_s(self) -> float:
        """Tokens a second of the prompt that were computed."""
        return (self.prompt_tokens - self.cached_tokens) / self.prompt_s if self.prompt_s else 0.0

    @property
    def decode_per_s(self) -> float:
        """Tokens a second after the first one."""
        return (self.completion_tokens - 1) / self.decode_s if self.decode_s and self.completion_tokens > 1 else 0.0


@dataclass(eq=False)
class Sequence:
    """Tokens of a prompt and of its answer, and which of them the device has."""

    ids: list[int]
    """the prompt, and the answer as far as it has been read"""
    params: SamplingParams
    limit: int
    """tokens that the answer may have"""
    timings: Timings
    scores: list[TokenLogProbs] | None = None
    """of the prompt's tokens after the first, where that is asked for, as far as they have been read"""
    slot: int | None = None
    starts: int = 0
    """how often it was given a slot"""
    known: int = 0
    """tokens that were known when it was given the slot: what follows is taken from there"""
    queued: int = 0
    """positions whose keys and values are in the cache or will be after the steps that are queued"""
    sampled: int = 0
    """tokens of the answer that steps sample, read or not"""
    tokens: deque[Sampled] = field(default_factory=deque)
    """read, and not fetched yet by whoever asked"""
    finished: bool = False
    """nothing more comes: the limit was reached, or nobody wants it"""
    seed: int = field(init=False)
    _added: float = field(default_factory=time.perf_counter)
    _started: float = 0.0
    _first: float = 0.0

    def __post_init__(self) -> None:
        self.seed = secrets.randbits(32) if self.params.seed is None else self.params.seed & 0xFFFFFFFF
        self.timings.prompt_tokens = len(self.ids)
        self.finished = self.limit == 0 and not self.unscored

    @property
    def prompt(self) -> list[int]:
        return self.ids[: self.timings.prompt_tokens]

    @property
    def answer(self) -> list[int]:
        """As far as it has been read."""
        return self.ids[self.timings.prompt_tokens :]

    @property
    def unscored(self) -> int:
        """How many tokens of the prompt still want a score."""
        return 0 if self.scores is None else self.timings.prompt_tokens - 1 - len(self.scores)

    @property
    def prefilled(self) -> bool:
        """Whether what is left to queue is decode steps."""
        return self.queued >= self.known

    def start(self, slot: int, cached: int) -> None:
        """Takes a slot whose blocks hold the first `cached` tokens."""
        self.slot, self.queued, self.sampled = slot, cached, len(self.answer)
        self.known = len(self.ids)
        self.starts += 1
        if self.scores is not None and self.unscored:
            self.scores.clear()
        if not self._started:
            self._started = time.perf_counter()
            self.timings.queue_s = self._started - self._added
            self.timings.cached_tokens = cached

    def next_rows(self, size: int) -> list[Row]:
        """The next rows, which count as queued: of known tokens, or of the one that the slot has."""
        assert self.slot is not None
        first = self.queued
        self.queued += size
        if first >= self.known:
            return [decode_row(self.slot)]
        return [Row(token, first + i, self.slot) for i, token in enumerate(self.ids[first : first + size])]

    def take_scores(self, scores: Iterable[TokenLogProbs]) -> None:
        """The scores that follow; where nothing else is asked for, the last ones are the end."""
        assert self.scores is not None
        self.scores += scores
        if not self.unscored and self.limit == 0:
            self.timings.prompt_s = time.perf_counter() - self._started
            self.finished = True

    def take(self, token: int, log_probs: TokenLogProbs | None = None) -> None:
        """A token that was read."""
        now = time.perf_counter()
        timings = self.timings
        if not timings.completion_tokens:
            self._first = now
            timings.prompt_s, timings.first_token_s = now - self._started, now - self._added
        timings.completion_tokens += 1
        timings.decode_s = now - self._first
        self.ids.append(token)
        self.tokens.append((token, log_probs))
        self.finished = timings.completion_tokens >= self.limit


@dataclass(frozen=True)
class Past:
    """What a slot has read before."""

    ids: list[int] = field(default_factory=list)
    written: int = 0
    """positions that its rings were written up to, steps that ran ahead of an end included"""

    def resumable(self, ids: list[int], known: int, rewind: int) -> int:
        """How many of these tokens needn't be read again, if the cache has `known` and rings go back by `rewind`."""
        same = next((i for i, (a, b) in enumerate(zip(self.ids, ids, strict=False)) if a != b), len(self.ids))
        found = min(same, known)
        return found if self.written - found <= rewind else 0
