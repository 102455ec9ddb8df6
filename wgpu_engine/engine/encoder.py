"""Steps of an encoder: whole texts side by side, each with its rows in one plan, since they see each other."""

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from wgpu_engine.gpu.device import Buffer, Device, Plan
from wgpu_engine.models.model import Model, PagedKV
from wgpu_engine.ops.builder import SLOT_WORDS, PlanBuilder, ScratchPool, ceil_div, row_floats
from wgpu_engine.ops.kv import KV_BLOCK, KVCache, kv_block_bytes
from wgpu_engine.ops.state import Row, pack_state

_MOST_TEXTS = 64
"""in a step"""
_FEWEST_ROWS = 32
_USUAL_ROWS = 128
"""rows that use each weight often enough; longer texts get plans of more"""


@dataclass(frozen=True)
class _Recorded:
    plan: Plan
    state: Buffer
    embeddings: Buffer


class Encoder:
    """Makes embeddings of token ids. Keys and values last for a step, in blocks that each step deals out anew."""

    def __init__(
        self,
        device: Device,
        model: Model,
        *,
        longest: int,
        precision: Literal["exact", "fast"] = "fast",
        tuning: Mapping[Any, Any] | None = None,
    ) -> None:
        self.device = device
        self.model = model
        self.precision = precision
        self.tuning = dict(tuning or {})
        self.ctx_size = longest
        self.vocab = model.description.vocab
        self.plan_rows = _plan_rows(longest)
        """room of the plans that there are"""
        table_width = ceil_div(longest, KV_BLOCK)
        blocks = ceil_div(self.plan_rows[-1], KV_BLOCK) + _MOST_TEXTS
        self.cache = KVCache(
            "f32",
            tuple(
                device.buffer(blocks * kv_block_bytes(state.heads, state.head_dim, "f32"), f"state {i}")
                for i, state in enumerate(model.description.states)
                if isinstance(state, PagedKV)
            ),
            device.buffer(4 * _MOST_TEXTS * table_width, "block tables"),
            table_width,
        )
        self._slots = device.buffer(4 * _MOST_TEXTS * SLOT_WORDS, "slots")
        self._scratch = ScratchPool(device)
        self._plans: dict[int, _Recorded] = {}
        model.prepare(longest)

    def steps(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        """Texts of these lengths, by their numbers, as steps take them: those of like length together."""
        step: list[int] = []
        rows = room = 0
        for number in sorted(range(len(lengths)), key=lambda number: lengths[number], reverse=True):
            if step and (rows + lengths[number] > room or len(step) == _MOST_TEXTS):
                yield step
                step = []
            if not step:
                rows, room = 0, self._room(max(lengths[number], _USUAL_ROWS))
            step.append(number)
            rows += lengths[number]
        if step:
            yield step

    def _room(self, rows: int) -> int:
        return next(size for size in self.plan_rows if size >= rows)

    async def embed(self, texts: Sequence[Sequence[int]]) -> list[bytes]:
        """Embeddings f32 [width] of the texts of a step, as bytes; each is of 1 to `ctx_size` ids."""
        rows: list[Row] = []
        firsts: list[int] = []
        tables: list[int] = []
        dealt = 0
        for slot, ids in enumerate(texts):
            firsts.append(len(rows))
            rows += [Row(token, position, slot, sees=len(ids) - 1) for position, token in enumerate(ids)]
            count = ceil_div(len(ids), KV_BLOCK)
            tables += [*range(dealt, dealt + count), *[0] * (self.cache.table_width - count)]
            dealt += count
        recorded = await self._recorded(len(rows))
        self.device.write(recorded.state, 0, pack_state(rows, firsts))
        self.device.write(self.cache.tables, 0, struct.pack(f"<{len(tables)}I", *tables))
        width = self.model.description.width
        stride = 4 * row_floats(width)
        pending = self.device.run_and_read(recorded.plan, recorded.embeddings, 0, stride * len(texts))
        data = await self.device.receive(pending)
        return [data[stride * i : stride * i + 4 * width] for i in range(len(texts))]

    async def _recorded(self, rows: int) -> _Recorded:
        """The plan for so many rows, made at its first use."""
        room = self._room(rows)
        if room not in self._plans:
            builder = self.builder(room, min(room, _MOST_TEXTS))
            embeddings = self.model.forward(builder, self.cache, self.bucket(room))
            assert embeddings is not None
            plan = await self.device.plan(builder.dispatches, f"{room} rows")
            self._plans[room] = _Recorded(plan, builder.state, embeddings)
        return self._plans[room]

    def bucket(self, reach: int) -> int:
        """Positions that a plan is made for: those of the longest text, since no plan is split over them."""
        return self.ctx_size

    def builder(self, rows: int, outputs: int) -> PlanBuilder:
        """A builder for a plan with room for so many rows and texts."""
        return PlanBuilder(self.device, rows, outputs, self.precision, self._slots, self._scratch, tuning=self.tuning)


def _plan_rows(longest: int) -> tuple[int, ...]:
    sizes = [_FEWEST_ROWS]
    while sizes[-1] < max(longest, _USUAL_ROWS):
        sizes.append(4 * sizes[-1])
    return tuple(sizes)
