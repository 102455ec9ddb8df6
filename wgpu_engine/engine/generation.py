"""The loop that makes tokens: prefill in chunks, then decode steps queued ahead of what has been read."""

import time
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from wgpu_engine.engine.engine import Engine
from wgpu_engine.engine.sampling import SamplingParams
from wgpu_engine.errors import ContextFullError, DeviceError, RequestError
from wgpu_engine.gpu.device import Pending
from wgpu_engine.ops.state import Row, decode_row

_AHEAD = {"cpu": 0}
"""decode steps queued behind the one whose token is awaited, by kind of adapter: where steps run on the host's cores, a
submit waits for the one before it, and what is encoded meanwhile only disturbs that one"""
_AHEAD_ELSEWHERE = 3
"""enough to hide a read-back, few enough that a stop wastes little"""
_SLOT = 0


@dataclass
class Timings:
    """How long a generation took, in seconds."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    """of the prompt: found in the cache of the generation before"""
    prompt_s: float = 0.0
    completion_tokens: int = 0
    decode_s: float = 0.0
    first_token_s: float = 0.0

    @property
    def prompt_per_s(self) -> float:
        """Tokens a second of the prompt that were computed."""
        return (self.prompt_tokens - self.cached_tokens) / self.prompt_s if self.prompt_s else 0.0

    @property
    def decode_per_s(self) -> float:
        """Tokens a second after the first one."""
        return (self.completion_tokens - 1) / self.decode_s if self.decode_s and self.completion_tokens > 1 else 0.0


@dataclass
class Generator:
    """Generates one sequence at a time, and keeps its cache for the next one that begins the same way."""

    engine: Engine
    host_seconds: deque[float] = field(default_factory=lambda: deque(maxlen=512))
    """time of this thread that decode steps took, without the wait for their tokens"""
    _cached: list[int] = field(default_factory=list)
    """tokens whose keys and values are in the cache"""
    _written: int = 0
    """positions up to which the rings of layers have been written, steps that ran ahead of a stop included"""

    async def tokens(self, ids: Sequence[int], params: SamplingParams, timings: Timings) -> AsyncGenerator[int, None]:
        """The tokens that follow `ids`, until the context or `params.max_tokens` ends them.

        Raises:
            RequestError: `ids` is empty or holds an id that the model lacks.
            ContextFullError: `ids` leave no room for a token.
        """
        limit = self.check(ids, params)
        start = time.perf_counter()
        ahead = _AHEAD.get(self.engine.device.adapter.kind, _AHEAD_ELSEWHERE)
        queue: deque[Pending] = deque()
        answer: list[int] = []
        try:
            queue.append(await self._prefill(ids, params, timings))
            sampled = 1
            for number in range(limit):
                # nothing is queued behind the first token, which would be late by as much
                while sampled < min(limit, number + 1 + (ahead if number else 0)):
                    queue.append(self._decode(len(ids) + sampled))
                    sampled += 1
                token = (await self.engine.receive_sampled(queue[0]))(_SLOT, number)
                queue.popleft()
                now = time.perf_counter()
                if number == 0:
                    timings.prompt_s = timings.first_token_s = now - start
                timings.completion_tokens = number + 1
                timings.decode_s = now - start - timings.prompt_s
                answer.append(token)
                # a token is in the cache once the step that reads it was queued
                self._cached += answer[len(self._cached) - len(ids) : sampled - 1]
                yield token
        except (Exception, KeyboardInterrupt):
            # an interruption anywhere leaves it open what the cache and its tables hold
            self._cached.clear()
            self.engine.blocks.release(_SLOT)
            raise
        finally:
            # steps that ran ahead of a stop: received, so that their buffers are used again
            with suppress(DeviceError):
                for pending in queue:
                    await self.engine.device.receive(pending)

    async def logits(self, ids: Sequence[int], first: int = 0) -> AsyncGenerator[list[bytes], None]:
        """Logits f32 [vocab] at the positions of `ids` from `first` on, some at a time; raises like `tokens`."""
        for rows, outputs in self._steps(ids, first):
            if found := await self.engine.logits(rows, len(ids), outputs):
                yield found

    async def log_probs(self, ids: Sequence[int], first: int = 1) -> list[float]:
        """Natural logarithms of the probabilities of the tokens of `ids` from the `first` on, each after those before.

        NaN where the model gives no numbers. Raises like `tokens`.
        """
        found: list[float] = []
        for rows, outputs in self._steps(ids, first - 1):
            # nothing is asked of the last position, which has no successor
            outputs = [output for output in outputs if rows[output].position + 1 < len(ids)]
            tokens = [ids[rows[output].position + 1] for output in outputs]
            found += await self.engine.log_probs(rows, len(ids), outputs, tokens)
        return found

    def _steps(self, ids: Sequence[int], first: int) -> Iterator[tuple[list[Row], list[int]]]:
        """The rows of `ids` in steps, and those rows of each step whose position is `first` or later."""
        self.check(ids, SamplingParams(max_tokens=0))
        self._cached.clear()
        self.engine.reserve(_SLOT, len(ids))
        step = self.engine.prefill_rows
        for start in range(0, len(ids), step):
            rows = [Row(token, start + i, _SLOT) for i, token in enumerate(ids[start : start + step])]
            yield rows, list(range(min(max(first - start, 0), len(rows)), len(rows)))

    def check(self, ids: Sequence[int], params: SamplingParams) -> int:
        """How many tokens may follow `ids`; raises like `tokens`."""
        engine = self.engine
        if not ids:
            raise RequestError("the prompt is empty: give at least one token")
        if not all(0 <= token < engine.vocab for token in ids):
            raise RequestError(f"a token id of the prompt is outside the vocabulary of {engine.vocab} tokens")
        room = engine.ctx_size - len(ids)
        if room < (0 if params.max_tokens == 0 else 1):
            raise ContextFullError(
                f"the prompt has {len(ids)} tokens and the context holds {engine.ctx_size}: shorten it or raise "
                "--ctx-size"
            )
        return room if params.max_tokens is None else min(room, params.max_tokens)

    async def _prefill(self, ids: Sequence[int], params: SamplingParams, timings: Timings) -> Pending:
        """Runs what of the prompt is not in the cache; the last chunk samples the first token."""
        engine = self.engine
        known = _common_prefix(self._cached, ids[:-1])
        if engine.rewind is not None and self._written - known > engine.rewind:
            known = 0
        self._written = max(self._written, len(ids)) if known else len(ids)
        timings.prompt_tokens, timings.cached_tokens = len(ids), known
        engine.set_slot(_SLOT, params.slot_words(), ids if params.penalizes else ())
        engine.reserve(_SLOT, len(ids))
        del self._cached[known:]
        for start in range(known, len(ids), engine.prefill_rows):
            chunk = ids[start : start + engine.prefill_rows]
            rows = [Row(token, start + i, _SLOT) for i, token in enumerate(chunk)]
            last = start + len(chunk) == len(ids)
            pending = engine.step(rows, [len(rows) - 1] if last else [], start + len(chunk))
            self._cached += chunk
            if not last:
                # one chunk in flight, so that a generation that is closed here stops soon
                await engine.device.flush()
        assert pending is not None
        return pending

    def _decode(self, positions: int) -> Pending:
        """Queues the step that brings the sequence to so many positions."""
        start = time.thread_time()
        self.engine.reserve(_SLOT, positions)
        self._written = max(self._written, positions)
        pending = self.engine.step([decode_row(_SLOT)], [0], positions)
        self.host_seconds.append(time.thread_time() - start)
        assert pending is not None
        return pending


def _common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
