"""Continuous batching: which rows of which sequences run in the next step.

A step holds a row of every sequence that decodes, and rows of prompts beside them. Sequences wait until there is a slot
and room in the KV cache; where the cache runs out, the youngest one waits again and is computed anew later.
"""

import time
from collections import deque
from collections.abc import AsyncGenerator
from collections.abc import Sequence as Tokens
from contextlib import suppress
from itertools import islice

from wgpu_engine.engine.engine import Engine
from wgpu_engine.engine.sampling import SamplingParams
from wgpu_engine.engine.sequence import Past, Sampled, Sequence, Timings, check_prompt
from wgpu_engine.errors import DeviceError, OutOfMemoryError, RequestError
from wgpu_engine.gpu.device import Pending
from wgpu_engine.ops.state import Row
from wgpu_engine.ops.top_tokens import TokenLogProbs, read_log_probs, read_token

_SHARE = 4
"""beside sequences that decode, prompts get one part in so many of a step's rows, so that tokens keep coming"""

_clock = getattr(time, "thread_time", time.perf_counter)
"""of this thread's own time; browsers have none, and no other thread that would matter"""

_Output = tuple[Sequence, int, int]
"""a sequence, which of its starts it was and the number of its token"""


class Scheduler:
    """Runs the sequences of an engine; used by one thread or task at a time.

    Up to `ahead` decode steps are queued behind the oldest one, by default as many as the device wants.
    """

    def __init__(self, engine: Engine, ahead: int | None = None) -> None:
        self.engine = engine
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        """in the order in which they were let in"""
        self.host_seconds: deque[float] = deque(maxlen=512)
        """time of this thread that steps of nothing but decode rows took, without the wait for their tokens"""
        self._free = list(range(engine.slots - 1, -1, -1))
        self._pasts = [Past() for _ in self._free]
        self._flight: deque[tuple[Pending | None, list[_Output], bool]] = deque()
        """steps that are queued: what comes back, for whom, and whether it is detailed"""
        self._ahead = engine.device.steps_ahead if ahead is None else ahead

    @property
    def busy(self) -> bool:
        """Whether there is something to do."""
        return bool(self.waiting or self.running or self._flight)

    def check(self, ids: Tokens[int], params: SamplingParams) -> int:
        """How many tokens may follow `ids`; raises RequestError or ContextFullError where none can."""
        self.check_biases(params)
        return check_prompt(ids, self.engine.vocab, self.engine.ctx_size, params.max_tokens)

    def check_biases(self, params: SamplingParams) -> None:
        """Raises RequestError where a token has a bias that the model lacks."""
        if params.biases and params.biases[-1][0] >= self.engine.vocab:
            raise RequestError(f"logit_bias has a token outside the vocabulary of {self.engine.vocab} tokens")

    def add(
        self,
        ids: Tokens[int],
        params: SamplingParams,
        timings: Timings,
        scores: list[TokenLogProbs] | None = None,
    ) -> Sequence:
        """Lets a request wait for its turn; raises like `check`.

        `scores` get how likely the prompt's tokens after the first are, before the answer begins; that goes with
        `logprobs`.
        """
        sequence = Sequence(list(ids), params, self.check(ids, params), timings, scores)
        if not sequence.finished:
            self.waiting.append(sequence)
        return sequence

    def cancel(self, sequence: Sequence) -> None:
        """Ends a sequence that nobody wants any more; what is queued of it is passed over."""
        sequence.finished = True
        if sequence in self.waiting:
            self.waiting.remove(sequence)
        self._let_go(sequence)

    async def step(self) -> None:
        """Queues what can be queued and waits for the tokens of the oldest step.

        An error leaves it open what the cache holds: all sequences are ended before it is raised.
        """
        try:
            self._admit()
            await self._score()
            while len(self._flight) <= self._allowance() and await self._queue_step():
                pass
            if self._flight:
                await self._receive()
        except BaseException:
            self.reset()
            raise

    async def drain(self) -> None:
        """Receives steps that ran ahead of an end, so that their buffers are used again."""
        while self._flight:
            with suppress(DeviceError):
                await self._receive()

    def reset(self) -> None:
        """Ends everything and forgets the cache."""
        for sequence in (*self.waiting, *self.running):
            sequence.finished, sequence.slot = True, None
        self.waiting.clear()
        self.running.clear()
        self.engine.blocks.clear()
        self._free = list(range(self.engine.slots - 1, -1, -1))
        self._pasts = [Past() for _ in self._free]

    async def stream(self, ids: Tokens[int], params: SamplingParams, timings: Timings) -> AsyncGenerator[Sampled, None]:
        """The tokens that follow `ids`, for a caller who is alone; raises like `check`."""
        sequence = self.add(ids, params, timings)
        try:
            while not sequence.finished or sequence.tokens:
                while not sequence.finished and not sequence.tokens:
                    await self.step()
                while sequence.tokens:
                    yield sequence.tokens.popleft()
        except (Exception, KeyboardInterrupt):
            self.reset()
            raise
        finally:
            self.cancel(sequence)
            await self.drain()

    def _admit(self) -> None:
        """Gives slots to those who wait, in their order, as far as the cache has room for what they hold."""
        engine = self.engine
        while self.waiting and self._free:
            sequence = self.waiting[0]
            # a prompt that is only scored may fill the context, and has no token after it
            if not engine.blocks.fits(sequence.ids, min(1, sequence.limit)):
                break
            self.waiting.popleft()
            params = sequence.params
            may_resume = params.cache_prompt and not sequence.unscored
            slot, most = self._best_slot(sequence.ids) if may_resume else (self._free[-1], 0)
            self._free.remove(slot)
            words = params.slot_words(sequence.seed, len(sequence.answer))
            prompt, answer = (sequence.prompt, sequence.answer) if params.penalizes else ([], [])
            engine.set_slot(slot, words, prompt, answer, params.biases)
            cached = engine.adopt(slot, sequence.ids, most)
            if cached < most and engine.rewind is not None:
                # a ring doesn't go back that far
                engine.blocks.release(slot)
                cached = 0
            if not cached:
                self._pasts[slot] = Past()
            sequence.start(slot, cached)
            self.running.append(sequence)

    def _best_slot(self, ids: list[int]) -> tuple[int, int]:
        """A free slot, and how many of these tokens it may find in the cache.

        Any slot finds the blocks of attention's cache; rings are a slot's own, and hold what it has read last.
        """
        known, rewind = self.engine.blocks.known(ids), self.engine.rewind
        if rewind is None:
            return self._free[-1], known
        found = {slot: self._pasts[slot].resumable(ids, known, rewind) for slot in self._free}
        best = max(self._free, key=lambda slot: found[slot])
        return best, found[best]

    async def _score(self) -> None:
        """Reads rows of prompts whose tokens' probabilities are asked for, and these, in a step of its own.

        The last row of such a prompt is left to the steps that sample.
        """
        asking = [(sequence, sequence.unscored) for sequence in self.running if sequence.unscored]
        if not asking:
            return
        room = self.engine.prefill_rows
        if len(asking) < len(self.running):
            room = max(1, room // _SHARE)
        parts = [part for part in _shares(asking, room) if self._reserve(*part)]
        parts = [(sequence, size) for sequence, size in parts if sequence.slot is not None]
        rows: list[Row] = []
        tokens: list[int] = []
        counts: list[int] = []
        for sequence, size in parts:
            assert sequence.slot is not None
            tokens += sequence.ids[sequence.queued + 1 : sequence.queued + 1 + size]
            counts += [sequence.params.logprobs or 0] * size
            rows += sequence.next_rows(size)
            self.engine.blocks.remember(sequence.slot, sequence.ids[: sequence.queued])
        if not rows:
            return
        reach = max(sequence.queued for sequence, _ in parts)
        found = iter(await self.engine.scores(rows, reach, range(len(rows)), tokens, counts))
        for sequence, size in parts:
            sequence.take_scores(islice(found, size))
            if sequence.finished:
                self._let_go(sequence)

    def _allowance(self) -> int:
        """How many steps may be queued behind the oldest one: none while a prompt is read or somebody waits."""
        fresh = any(not sequence.timings.completion_tokens for sequence in self.running)
        return 0 if fresh or self.waiting else self._ahead

    async def _queue_step(self) -> bool:
        """Submits the next step; tells whether there was one."""
        start = _clock()
        decoding = [sequence for sequence in self.running if sequence.prefilled and sequence.sampled < sequence.limit]
        # a step of a large model may have fewer rows than there are slots: those go first who have got least
        most = self.engine.prefill_rows - any(not sequence.prefilled for sequence in self.running)
        decoding = sorted(decoding, key=lambda sequence: sequence.sampled)[: max(1, most)]
        parts = [(sequence, 1) for sequence in decoding] + self._chunks(len(decoding))
        parts = [part for part in parts if self._reserve(*part)]
        rows: list[Row] = []
        outputs: list[int] = []
        sampling: list[_Output] = []
        for sequence, size in parts:
            # room for one may have been made at the cost of another one
            if sequence.slot is None:
                continue
            reading = not sequence.prefilled
            rows += sequence.next_rows(size)
            if reading:
                self.engine.blocks.remember(sequence.slot, sequence.ids[: sequence.queued])
            if sequence.prefilled:
                outputs.append(len(rows) - 1)
                sampling.append((sequence, sequence.starts, sequence.sampled))
                sequence.sampled += 1
        if not rows:
            return False
        reach = max(sequence.queued for sequence, _ in parts)
        detailed = any(sequence.params.is_detailed for sequence, _, _ in sampling)
        self._flight.append((await self.engine.step(rows, outputs, reach, detailed=detailed), sampling, detailed))
        if len(rows) == len(decoding):
            self.host_seconds.append(_clock() - start)
        return True

    def _chunks(self, taken: int) -> list[tuple[Sequence, int]]:
        """How many rows of which prompts come next: all that are being read go on, short ones to their end."""
        reading = [(s, s.known - s.queued) for s in self.running if not s.prefilled and not s.unscored]
        room = self.engine.prefill_rows - taken
        if taken:
            room = min(room, max(1, self.engine.prefill_rows // _SHARE))
        return _shares(reading, room)

    def _reserve(self, sequence: Sequence, rows: int) -> bool:
        """Makes room for more rows of a sequence, at the cost of younger ones; False where it had to go back itself."""
        while sequence.slot is not None:
            try:
                self.engine.reserve(sequence.slot, sequence.queued + rows)
                return True
            except OutOfMemoryError:
                self._send_back(self.running[-1])
        return False

    def _send_back(self, sequence: Sequence) -> None:
        """Has a sequence wait again, before all others; what is queued of it is passed over."""
        self._let_go(sequence)
        self.waiting.appendleft(sequence)

    def _let_go(self, sequence: Sequence) -> None:
        if sequence.slot is None:
            return
        written = max(self._pasts[sequence.slot].written, sequence.queued)
        past = self._pasts[sequence.slot] = Past(sequence.ids[: sequence.queued], written)
        self.engine.blocks.release(sequence.slot, past.ids)
        self._free.append(sequence.slot)
        self.running.remove(sequence)
        sequence.slot = None

    async def _receive(self) -> None:
        """Hands out the tokens of the oldest step."""
        pending, sampling, detailed = self._flight.popleft()
        if pending is None:
            # one step of a long prompt at a time, so that a stop comes soon
            await self.engine.device.flush()
            return
        if detailed:
            data = await self.engine.device.receive(pending)
        else:
            token_of = await self.engine.receive_sampled(pending)
        for output, (sequence, start, number) in enumerate(sampling):
            if sequence.slot is None or sequence.starts != start:
                continue
            if detailed:
                count = sequence.params.logprobs
                log_probs = None if count is None else read_log_probs(data, output, count)
                sequence.take(read_token(data, output), log_probs)
            else:
                sequence.take(token_of(sequence.slot, number))
            if sequence.finished:
                self._let_go(sequence)


def _shares(wanted: list[tuple[Sequence, int]], room: int) -> list[tuple[Sequence, int]]:
    """How many of so many rows go to whom, who want so many: all go on, those with few to their end."""
    wanted = sorted(wanted, key=lambda each: each[1])
    shares = []
    for place, (sequence, most) in enumerate(wanted):
        size = min(most, room, max(1, room // (len(wanted) - place)))
        if size > 0:
            shares.append((sequence, size))
            room -= size
    return shares
