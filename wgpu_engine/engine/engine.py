"""The engine: a model, its cache and its plans on one device, and the steps over them."""

import struct
from array import array
from asyncio import gather
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from wgpu_engine.engine.blocks import BlockPool
from wgpu_engine.engine.memory import kv_blocks
from wgpu_engine.engine.states import MOST_ROWS, rewind, ring, state_bytes
from wgpu_engine.errors import OutOfMemoryError
from wgpu_engine.gpu.device import Buffer, Device, Dispatch, Pending, Plan
from wgpu_engine.gpu.tuner import fastest
from wgpu_engine.models.model import Model
from wgpu_engine.ops.bias import BIAS_BYTES, MOST_BIASES, add_bias, pack_biases
from wgpu_engine.ops.builder import SLOT_WORDS, PlanBuilder, ScratchPool, ceil_div, row_floats
from wgpu_engine.ops.kv import KV_BLOCK, KVCache, KVType
from wgpu_engine.ops.log_prob import PARTS_BYTES, log_prob, read_log_prob
from wgpu_engine.ops.sample import RING, sample
from wgpu_engine.ops.state import Row, pack_state
from wgpu_engine.ops.top_tokens import TOP_BYTES, TokenLogProbs, read_log_probs, top_tokens

_FEW_ROWS = 8
_ROWS = (1, _FEW_ROWS, 16, 32)
"""of plans below the largest: rows that stay empty still cost something, plans hardly anything"""
_WORK = {"discrete": 2e12, "integrated": 4e11, "cpu": 1e11, "other": 4e11}
"""operations of a submit, by kind of adapter: drivers reset a device that is busy for long, and a stop waits for it"""
_FIRST_BUCKET = 256
"""positions of the smallest plan"""

End = Literal["sample", "detailed", "logits", "log_probs", "scores"]
"""what becomes of a plan's outputs; "detailed" samples with biases and notes the likeliest tokens, "scores" notes those
beside the probabilities of tokens that are given"""


@dataclass
class _Recorded:
    """A plan with the buffers that a step touches."""

    plan: Plan
    state: Buffer
    result: Buffer | None
    """logits, parts of the logarithms of probabilities, or the likeliest tokens; what is sampled goes to the slots"""
    wanted: Buffer | None
    """the tokens whose probabilities are asked for"""
    likeliest: Buffer | None
    """tokens, beside such probabilities"""
    written: bytes = b""
    """what the host wrote into the state last; the device only reads it"""


class Engine:
    """Runs steps of token rows. Which rows, and what becomes of their tokens, is the caller's business.

    The slots share a cache of `kv_positions`, by default as many as all of them can fill; at least a whole context.
    """

    def __init__(
        self,
        device: Device,
        model: Model,
        *,
        ctx_size: int,
        slots: int = 1,
        kv_positions: int | None = None,
        precision: Literal["exact", "fast"] = "fast",
        kv_type: KVType = "f16",
        tuning: Mapping[Any, Any] | None = None,
    ) -> None:
        self.device = device
        self.model = model
        self.ctx_size = ctx_size
        self.precision = precision
        self.vocab = model.description.vocab
        self.slots = slots
        table_width = ceil_div(ctx_size, KV_BLOCK)
        blocks = kv_blocks(ctx_size, slots, kv_positions)
        self.blocks = BlockPool(blocks, slots)
        states = model.description.states
        self.cache = KVCache(
            kv_type,
            tuple(
                self._state_buffer(state_bytes(state, ctx_size, slots, blocks, kv_type), f"state {i}")
                for i, state in enumerate(states)
            ),
            device.buffer(4 * slots * table_width, "block tables"),
            table_width,
            tuple(ring(state, ctx_size) for state in states),
        )
        self.rewind = rewind(states, ctx_size)
        """how many positions back a sequence can be taken up again; None: any number"""
        self._slots = device.buffer(4 * slots * SLOT_WORDS, "slots")
        self._counts = device.buffer(4 * slots * self.vocab, "token counts")
        self._ring = device.buffer(4 * slots * RING, "sampled tokens")
        self._biases = device.buffer(BIAS_BYTES * MOST_BIASES * slots, "biases")
        self._scratch = ScratchPool(device)
        self.prefill_rows = _prefill_rows(model.description.active_parameters, device.adapter.kind)
        self.plan_rows = (*(rows for rows in _ROWS if rows < self.prefill_rows), self.prefill_rows)
        """room of the plans that there are"""
        self.tuning = dict(tuning or {})
        self._plans: dict[tuple[int, int, End, int], _Recorded] = {}
        model.prepare(ctx_size)

    def _state_buffer(self, size: int, label: str) -> Buffer:
        """Room of a layer, which attention binds whole."""
        most = self.device.limits.binding_bytes
        if size > most:
            raise OutOfMemoryError(
                f"a context of {self.ctx_size} tokens takes {size >> 20} MiB a layer, more than the {most >> 20} MiB "
                f"that this adapter lets a kernel reach: give a --ctx-size of at most {self.ctx_size * most // size}"
            )
        return self.device.buffer(size, label)

    def free(self) -> None:
        """Gives the cache and the plans' buffers back; the weights stay."""
        for buffer in (*self.cache.layers, self.cache.tables, self._slots, self._counts, self._ring, self._biases):
            self.device.free(buffer)
        for recorded in self._plans.values():
            self.device.free(recorded.state)
        self._plans.clear()
        self._scratch.free()

    async def decode_plan(self) -> Plan:
        """What a decode step of one row in a short context replays."""
        return (await self._recorded(1, 1, "sample", 1)).plan

    async def prepare(self) -> None:
        """Makes the plans of short contexts, side by side, so that the first answer doesn't wait for compilers."""
        ends = [(rows, 1) for rows in self.plan_rows]
        await gather(*(self._recorded(rows, outputs, "sample", 1) for rows, outputs in [*ends, (self.prefill_rows, 0)]))

    def set_slot(
        self,
        slot: int,
        words: bytes,
        prompt: Sequence[int] = (),
        answer: Sequence[int] = (),
        biases: Sequence[tuple[int, float]] = (),
    ) -> None:
        """Starts a sequence in a slot: its sampling words, and tokens of prompt and answer if penalties count them.

        `biases` are tokens in ascending order with what is added to their logits, in detailed steps.
        """
        self.device.write(self._slots, 4 * SLOT_WORDS * slot, words)
        if biases:
            self.device.write(self._biases, BIAS_BYTES * MOST_BIASES * slot, pack_biases(biases))
        if prompt:
            counts = array("I", bytes(4 * self.vocab))
            for token in answer:
                counts[token] += 1
            for token in prompt:
                counts[token] |= 1 << 31
            self.device.write(self._counts, 4 * self.vocab * slot, memoryview(counts).cast("B"))

    def adopt(self, slot: int, ids: Sequence[int], most: int) -> int:
        """Gives an empty slot what the cache holds of the first `most` of `ids`; returns how many tokens that is."""
        found = self.blocks.adopt(slot, ids, most)
        if found:
            self._write_table(slot)
        return found

    def reserve(self, slot: int, positions: int) -> None:
        """Makes room for so many positions of a slot; raises OutOfMemoryError where there is none."""
        if self.blocks.reserve(slot, positions):
            self._write_table(slot)

    def _write_table(self, slot: int) -> None:
        table = self.blocks.table(slot)
        self.device.write(self.cache.tables, 4 * slot * self.cache.table_width, struct.pack(f"<{len(table)}I", *table))

    async def step(
        self, rows: Sequence[Row], outputs: Sequence[int], reach: int, *, detailed: bool = False
    ) -> Pending | None:
        """Runs rows; those of `outputs` get a next token, sampled into their slots. `reach` bounds the positions.

        Returns what `receive_sampled` waits for, None without outputs. Steps may be queued: decode rows go on from what
        the step before them samples. A detailed step heeds biases, and what comes back is read by `ops/top_tokens.py`.
        """
        recorded = await self._recorded(len(rows), len(outputs), "detailed" if detailed else "sample", reach)
        self._write_state(recorded, rows, outputs)
        if not outputs:
            self.device.run(recorded.plan)
            return None
        found = self._ring if recorded.result is None else recorded.result
        return self.device.run_and_read(recorded.plan, found, 0, found.size)

    async def receive_sampled(self, pending: Pending) -> Callable[[int, int], int]:
        """The tokens that were sampled up to a step: a function of the slot and of how many were sampled before."""
        data = await self.device.receive(pending)
        return lambda slot, number: int.from_bytes(data[4 * (RING * slot + number % RING) :][:4], "little")

    async def logits(self, rows: Sequence[Row], reach: int, outputs: Sequence[int] | None = None) -> list[bytes]:
        """Logits f32 [vocab] of `outputs`, by default of every row, as bytes; nothing is sampled."""
        outputs = range(len(rows)) if outputs is None else outputs
        recorded = await self._recorded(len(rows), len(outputs), "logits", reach)
        self._write_state(recorded, rows, outputs)
        if not outputs:
            self.device.run(recorded.plan)
            return []
        assert recorded.result is not None
        stride = 4 * row_floats(self.vocab)
        data = await self.device.receive(
            self.device.run_and_read(recorded.plan, recorded.result, 0, stride * len(outputs))
        )
        return [data[stride * i : stride * i + 4 * self.vocab] for i in range(len(outputs))]

    async def log_probs(
        self, rows: Sequence[Row], reach: int, outputs: Sequence[int], tokens: Sequence[int]
    ) -> list[float]:
        """Natural logarithm of the probability of a token after each of `outputs`; NaN where logits are no numbers."""
        recorded = await self._recorded(len(rows), len(outputs), "log_probs", reach)
        self._write_state(recorded, rows, outputs)
        if not outputs:
            self.device.run(recorded.plan)
            return []
        assert recorded.result is not None and recorded.wanted is not None
        self.device.write(recorded.wanted, 0, struct.pack(f"<{len(tokens)}I", *tokens))
        data = await self.device.receive(
            self.device.run_and_read(recorded.plan, recorded.result, 0, PARTS_BYTES * len(outputs))
        )
        return [read_log_prob(data, output) for output in range(len(outputs))]

    async def scores(
        self, rows: Sequence[Row], reach: int, outputs: Sequence[int], tokens: Sequence[int], counts: Sequence[int]
    ) -> list[TokenLogProbs]:
        """How likely a token is after each of `outputs`, and so many of the likeliest; as `log_probs`.

        The slots of the outputs have to ask for likeliest tokens, at least as many.
        """
        recorded = await self._recorded(len(rows), len(outputs), "scores", reach)
        self._write_state(recorded, rows, outputs)
        assert recorded.result is not None and recorded.wanted is not None and recorded.likeliest is not None
        self.device.write(recorded.wanted, 0, struct.pack(f"<{len(tokens)}I", *tokens))
        own = self.device.run_and_read(recorded.plan, recorded.result, 0, PARTS_BYTES * len(outputs))
        likeliest = self.device.read(recorded.likeliest, 0, TOP_BYTES * len(outputs))
        parts, tops = await self.device.receive(own), await self.device.receive(likeliest)
        return [
            TokenLogProbs(read_log_prob(parts, output), read_log_probs(tops, output, count).top)
            for output, count in enumerate(counts)
        ]

    def _write_state(self, recorded: _Recorded, rows: Sequence[Row], outputs: Sequence[int]) -> None:
        state = pack_state(rows, outputs)
        if state != recorded.written:
            self.device.write(recorded.state, 0, state)
            recorded.written = state

    async def _recorded(self, rows: int, outputs: int, end: End, reach: int) -> _Recorded:
        """The plan for so many rows and outputs, made at its first use; sizes come in few buckets."""
        rows = _bucket(rows, self.plan_rows)
        outputs = _bucket(outputs, (0, *self.plan_rows))
        positions = self.bucket(reach)
        key = (rows, outputs, end, positions)
        if key not in self._plans:
            self._plans[key] = await self._record(rows, outputs, end, positions)
        return self._plans[key]

    async def _record(self, rows: int, outputs: int, end: End, positions: int) -> _Recorded:
        builder = self.builder(rows, outputs)
        result = logits = self.model.forward(builder, self.cache, positions)
        wanted = likeliest = None
        if logits is not None and end == "sample":
            sample(builder, logits, self.vocab, self._counts, self._ring)
            result = None
        if logits is not None and end == "detailed":
            biased = add_bias(builder, logits, self.vocab, self._biases)
            sample(builder, biased, self.vocab, self._counts, self._ring)
            result = top_tokens(builder, logits, self.vocab)
        if logits is not None and end in ("log_probs", "scores"):
            wanted = builder.buffer(4 * outputs, "wanted tokens")
            result = log_prob(builder, logits, self.vocab, wanted)
            likeliest = top_tokens(builder, logits, self.vocab) if end == "scores" else None
        plan = await self.device.plan(builder.dispatches, f"{rows} rows")
        return _Recorded(plan, builder.state, result, wanted, likeliest)

    def bucket(self, reach: int) -> int:
        """Positions that a plan is made for, where rows reach so many."""
        return min(_position_bucket(reach), _position_bucket(self.ctx_size))

    def builder(self, rows: int, outputs: int) -> PlanBuilder:
        """A builder for a plan with room for so many rows and outputs."""
        return PlanBuilder(self.device, rows, outputs, self.precision, self._slots, self._scratch, tuning=self.tuning)

    async def tune(self, progress: Callable[[int, int], None]) -> dict[Any, Any]:
        """Times every variant of the products of decode and prefill; the engine uses the fastest from now on.

        Returns the fastest variant of each problem. `progress` gets how many problems are done and how many there are.
        """
        trials: dict[Any, dict[Any, list[Dispatch]]] = {}
        states = []
        for rows in self.plan_rows:
            builder = self.builder(rows, 1)
            builder.trials = trials
            self.model.forward(builder, self.cache, 1)
            # rows that take part, since kernels pass over others
            self.device.write(builder.state, 0, pack_state([Row(0, 0, 0)] * rows, [0]))
            states.append(builder.state)
        for number, (problem, ways) in enumerate(trials.items()):
            best = await fastest(self.device, ways)
            if best is not None:
                self.tuning[problem] = best
            progress(number + 1, len(trials))
        for state in (*states, *(recorded.state for recorded in self._plans.values())):
            self.device.free(state)
        self._plans.clear()
        return self.tuning


def _prefill_rows(parameters: int, kind: str) -> int:
    """The largest power of two that keeps a submit within the adapter's work, from _FEW_ROWS up to MOST_ROWS."""
    rows = MOST_ROWS
    while rows > _FEW_ROWS and 2.0 * parameters * rows > _WORK[kind]:
        rows //= 2
    return rows


def _bucket(count: int, sizes: Sequence[int]) -> int:
    return next(size for size in sizes if size >= count)


def _position_bucket(positions: int) -> int:
    size = _FIRST_BUCKET
    while size < positions:
        size *= 4
    return size
