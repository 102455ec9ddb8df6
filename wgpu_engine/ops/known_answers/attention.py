"""What rotary embedding, the write into the cache and attention over it should give; each function runs a call."""

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import mul

from wgpu_engine.gpu.device import Buffer
from wgpu_engine.ops.attention import Heads
from wgpu_engine.ops.builder import SLOT_WORDS, OpCall, ceil_div
from wgpu_engine.ops.known_answers.trial import Stage, Trial, largest_error
from wgpu_engine.ops.kv import KV_BLOCK, KVCache, kv_block_bytes
from wgpu_engine.ops.state import FROM_SLOT, Row

_KEY, _VALUE = 0, 1


class _CacheView:
    """Keys and values of a layer's cache, as `ops/kv.py` lays them out."""

    def __init__(self, cache: KVCache, layer: int, heads: Heads, tables: Sequence[int]) -> None:
        self.cache, self.heads, self.tables = cache, heads, tables
        self.ring = cache.ring_blocks(layer)
        self.data = b""

    @staticmethod
    async def read(trial: Trial, rows: Sequence[Row], cache: KVCache, layer: int, heads: Heads) -> "_CacheView":
        """What the rows can see, and no more of a large cache."""
        words = await trial.read(cache.tables, 0, cache.tables.size // 4)
        tables = struct.unpack(f"<{len(words) // 4}I", words)
        view = _CacheView(cache, layer, heads, tables)
        blocks = 1 + max(view.block(row.slot, i) for row in rows for i in range(row.position // KV_BLOCK + 1))
        size = blocks * kv_block_bytes(heads.kv_count, heads.head_dim, cache.kv_type)
        view.data = await trial.read(cache.layers[layer], 0, size // 4)
        return view

    def block(self, slot: int, number: int) -> int:
        """Where the block of a run of positions of a slot lies."""
        if self.ring:
            return slot * self.ring + number % self.ring
        return self.tables[slot * self.cache.table_width + number]

    def slice(self, slot: int, position: int, kv_head: int, part: int) -> tuple[float, ...]:
        """The key or value of a head at a position."""
        block = self.block(slot, position // KV_BLOCK)
        row = ((block * 2 + part) * self.heads.kv_count + kv_head) * KV_BLOCK + position % KV_BLOCK
        kind, size = ("e", 2) if self.cache.kv_type == "f16" else ("f", 4)
        return struct.unpack_from(f"<{self.heads.head_dim}{kind}", self.data, row * self.heads.head_dim * size)


async def rope_and_store(trial: Trial, stage: Stage, call: OpCall) -> float:
    qkv, heads, angles, cache, layer = (call.arguments[n] for n in ("qkv", "heads", "angles", "cache", "layer"))
    norm = await _read_norm(trial, stage, call)
    before = await trial.rows(qkv, len(stage.rows), heads.width)
    await trial.run(call.dispatches)
    after = await trial.rows(qkv, len(stage.rows), heads.width)
    places = await resolved(trial, stage)
    view = await _CacheView.read(trial, places, cache, layer, heads)
    error = 0.0
    for index, (row, old, new) in enumerate(zip(places, before, after, strict=True)):
        if norm is not None:
            old = _normed(old, heads, norm, index)
        wanted = _rotated(old, heads, await _turns(trial, angles, heads, row.position) if angles else [])
        size = max(map(abs, wanted))
        queries = heads.count * heads.head_dim
        error = max(error, largest_error(new[:queries], wanted[:queries], size))
        for i in range(2 * heads.kv_count):
            stored = view.slice(row.slot, row.position, i % heads.kv_count, i // heads.kv_count)
            values = wanted[queries + i * heads.head_dim :][: heads.head_dim]
            # adapters may round to f16 either way; below 2^-14 steps no longer shrink
            slack = [max(abs(value) * 2.0**-10, 2.0**-24) if cache.kv_type == "f16" else 0.0 for value in values]
            error = max(error, largest_error(stored, values, size, slack))
    return error


async def attend(trial: Trial, stage: Stage, call: OpCall) -> float:
    qkv, heads, cache, layer = (call.arguments[name] for name in ("qkv", "heads", "cache", "layer"))
    sinks = await trial.vector(call.arguments["sinks"], heads.count) if call.arguments["sinks"] else None
    rows = await trial.rows(qkv, len(stage.rows), heads.width)
    places = await resolved(trial, stage)
    if not call.arguments["causal"]:
        places = [replace(place, position=place.position if place.sees is None else place.sees) for place in places]
    view = await _CacheView.read(trial, places, cache, layer, heads)
    await trial.run(call.dispatches)
    found = await trial.activations(call.result, len(stage.rows))
    error = 0.0
    for place, q, values, slack in zip(places, rows, found.rows, found.slack, strict=True):
        for head in sorted({0, heads.count // 2, heads.count - 1}):
            span = slice(head * heads.head_dim, (head + 1) * heads.head_dim)
            wanted, size = _attention(
                q[span], heads, view, place, head, call.arguments["window"], call.arguments["cap"], sinks
            )
            error = max(error, largest_error(values[span], wanted, size, slack[span]))
    return error


def _attention(
    q: Sequence[float],
    heads: Heads,
    view: _CacheView,
    place: Row,
    head: int,
    window: int,
    cap: float,
    sinks: Sequence[float] | None,
) -> tuple[list[float], float]:
    """softmax(q keys^T * scale) values of a head, and the largest value."""
    kv_head = head * heads.kv_count // heads.count
    first = max(0, place.position + 1 - window) if window else 0
    places = [(place.slot, position, kv_head) for position in range(first, place.position + 1)]
    keys, values = ([view.slice(*at, part) for at in places] for part in (_KEY, _VALUE))
    scores = [heads.scale * sum(map(mul, q, key)) for key in keys]
    if cap:
        scores = [cap * math.tanh(score / cap) for score in scores]
    ends = [sinks[head]] if sinks is not None else []
    top = max(scores + ends)
    weights = [math.exp(score - top) for score in scores]
    total = sum(weights) + sum(math.exp(end - top) for end in ends)
    columns = list(zip(*values, strict=True))
    return [sum(map(mul, weights, column)) / total for column in columns], max(max(map(abs, v)) for v in values)


@dataclass(frozen=True)
class _Norm:
    """A norm of queries and keys."""

    gains: list[float]
    eps: float
    squares: list[list[float]] | None
    """where it is of all heads of a row: for each row sums of squares of 32 values each"""


async def _read_norm(trial: Trial, stage: Stage, call: OpCall) -> _Norm | None:
    norm, heads, squares = (call.arguments[name] for name in ("qk_norm", "heads", "squares"))
    if norm is None:
        return None
    if squares is None:
        return _Norm(await trial.vector(norm.gain, 2 * heads.head_dim), norm.eps, None)
    gains = await trial.vector(norm.gain, (heads.count + heads.kv_count) * heads.head_dim)
    return _Norm(gains, norm.eps, await trial.rows(squares, len(stage.rows), ceil_div(heads.width, 32)))


def _normed(row: Sequence[float], heads: Heads, norm: _Norm, index: int) -> list[float]:
    """A row with an RMS norm of each head of queries and of keys, or of all of them."""
    result = list(row)
    size = heads.head_dim
    edge = heads.count * size // 32
    for head in range(heads.count + heads.kv_count):
        is_query = head < heads.count
        span = slice(head * size, (head + 1) * size)
        if norm.squares is None:
            mean = sum(v * v for v in row[span]) / size
            gain = norm.gains[:size] if is_query else norm.gains[size:]
        else:
            end = edge + heads.kv_count * size // 32
            sums = norm.squares[index][:edge] if is_query else norm.squares[index][edge:end]
            mean = sum(sums) / (32 * len(sums))
            gain = norm.gains[span]
        result[span] = [g * v / math.sqrt(mean + norm.eps) for g, v in zip(gain, row[span], strict=True)]
    return result


def _rotated(row: Sequence[float], heads: Heads, turns: Sequence[complex]) -> list[float]:
    """A row with its queries and keys rotated."""
    result = list(row)
    for head in range(heads.count + heads.kv_count):
        for i, turn in enumerate(turns):
            first, second = (i, i + heads.rope_dim // 2) if heads.neox else (2 * i, 2 * i + 1)
            first, second = first + head * heads.head_dim, second + head * heads.head_dim
            rotated = complex(row[first], row[second]) * turn
            result[first], result[second] = rotated.real, rotated.imag
    return result


async def _turns(trial: Trial, angles: Buffer, heads: Heads, position: int) -> list[complex]:
    """The rotation of each pair at a position, out of the table that `ops/rope.py` makes."""
    count = heads.rope_dim // 2
    tables = [await trial.read(angles, 2 * count * i, 2 * count) for i in (position % 256, 256 + position // 256)]
    fine, coarse = [struct.unpack(f"<{2 * count}f", table) for table in tables]
    return [complex(*fine[2 * i : 2 * i + 2]) * complex(*coarse[2 * i : 2 * i + 2]) for i in range(count)]


async def resolved(trial: Trial, stage: Stage) -> list[Row]:
    """The stage's rows, with positions that their slots hold filled in."""
    slots_buffer = stage.builder.slots
    data = await trial.read(slots_buffer, 0, slots_buffer.size // 4)
    slots = struct.unpack(f"<{len(data) // 4}I", data)
    return [
        replace(row, position=slots[SLOT_WORDS * row.slot + 1]) if row.position == FROM_SLOT else row
        for row in stage.rows
    ]
