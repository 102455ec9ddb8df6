"""Sequences in a paged cache, with attention over them in float64."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from wgpu_engine.ops.attention import Heads, attend
from wgpu_engine.ops.builder import Q8_BLOCK_WORDS
from wgpu_engine.ops.kv import KV_BLOCK

Doubles = Any
REACH = 700
SLOTS = 3
STALE = 3e4
"""what places hold that no row may see"""


@dataclass(frozen=True)
class Form:
    """What attention may do besides."""

    window: int = 0
    cap: float = 0.0
    causal: bool = True
    sinks: bool = False


PLAIN = Form()


class Sequences:
    """Three sequences of 700 positions in a cache whose blocks lie scattered, and queries for rows anywhere in them."""

    def __init__(
        self,
        lab: Any,
        heads: Heads,
        kv_type: str,
        contexts: list[int],
        *,
        sharpness: float = 1.0,
        form: Form = PLAIN,
        slots: list[int] | None = None,
        ring: int = 0,
    ) -> None:
        self.lab, self.heads, self.kv_type, self.form = lab, heads, kv_type, form
        self.contexts = contexts
        self.slots = slots or [int(slot) for slot in lab.rng.integers(0, SLOTS, len(contexts))]
        shape = (SLOTS, REACH, 2, heads.kv_count, heads.head_dim)
        cached = lab.rng.standard_normal(shape).astype(np.float32)
        for slot in range(SLOTS):
            seen = max([c for c, s in zip(contexts, self.slots, strict=True) if s == slot], default=0)
            cached[slot, seen:] = STALE
            if form.window:
                seen = min([c for c, s in zip(contexts, self.slots, strict=True) if s == slot], default=0)
                cached[slot, : max(0, seen - form.window)] = np.inf
        if kv_type == "f16":
            cached = cached.astype(np.float16)
        self.cached = cached.astype(np.float64)
        self.cache = lab.cache(heads.kv_count, heads.head_dim, kv_type, SLOTS, REACH, ring)
        if ring:
            lasts = [max(c for c, s in zip(contexts, self.slots, strict=True) if s == slot) for slot in range(SLOTS)]
            write_cache(lab, self.cache, turned(cached, lasts, ring))
        else:
            write_cache(lab, self.cache, cached)
        self.sinks = lab.rng.standard_normal(heads.count).astype(np.float32) if form.sinks else None
        self.qkv = lab.rng.standard_normal((len(contexts), heads.width)).astype(np.float32) * np.float32(sharpness)

    def wanted(self) -> tuple[Doubles, Doubles]:
        """The result [rows, heads * head_dim] in float64, and the largest value that each row adds up."""
        heads = self.heads
        q = self.qkv[:, : heads.count * heads.head_dim].astype(np.float64).reshape(-1, heads.count, heads.head_dim)
        out, largest = [], []
        for row, (context, slot) in enumerate(zip(self.contexts, self.slots, strict=True)):
            first = max(0, context - self.form.window) if self.form.window else 0
            seen = self.cached[slot, first:context]
            k, v = np.repeat(seen, heads.count // heads.kv_count, axis=2).transpose(1, 2, 0, 3)
            scores = np.einsum("hd,hpd->hp", q[row], k) * heads.scale
            if self.form.cap:
                scores = self.form.cap * np.tanh(scores / self.form.cap)
            if self.sinks is not None:
                scores = np.concatenate([scores, self.sinks[:, None]], axis=1)
            weights = np.exp(scores - scores.max(axis=1, keepdims=True))
            weights /= weights.sum(axis=1, keepdims=True)
            out.append(np.einsum("hp,hpd->hd", weights[:, : len(seen)], v).ravel())
            largest.append(np.abs(v).max())
        return np.array(out), np.array(largest)[:, None]

    def attend(self, plan: Any, rows: list[int], codec: str = "f32") -> tuple[Any, Any]:
        """Runs some of the rows; the activation, and its words."""
        heads, lab = self.heads, self.lab
        qkv = plan.floats(heads.width, "qkv")
        lab.fill(qkv)
        lab.write_rows(qkv, self.qkv[rows])
        form = self.form
        sinks = lab.vector(self.sinks) if self.sinks is not None else None
        h = attend(
            plan,
            qkv,
            heads,
            self.cache,
            0,
            REACH,
            codec,
            window=form.window,
            cap=form.cap,
            causal=form.causal,
            sinks=sinks,
        )
        lab.fill(h.buffer)
        # where attention isn't causal, a row's own position is of no account
        places = [(0, self.contexts[row] - 1 if form.causal else 0, self.slots[row]) for row in rows]
        lab.write_state(plan, [(*place, self.contexts[row] - 1) for place, row in zip(places, rows, strict=True)])
        lab.run(plan)
        width = heads.count * heads.head_dim
        assert h.width == width and h.squares is None
        words = width if h.codec == "f32" else width // 32 * Q8_BLOCK_WORDS
        return h, lab.words(h.buffer, plan.rows * words).reshape(plan.rows, words)


def turned(values: Any, lasts: list[int], ring: int) -> Any:
    """What is left of values [slots, positions, ...] in rings, after each slot wrote so many of its positions."""
    kept = np.full((len(values), ring, *values.shape[2:]), STALE, values.dtype)
    for slot, last in enumerate(lasts):
        for position in range(max(0, last - ring), last):
            kept[slot, position % ring] = values[slot, position]
    return kept


def write_cache(lab: Any, cache: Any, values: Any) -> None:
    """Puts [slots, positions, key or value, kv_heads, head_dim] where the block tables say."""
    slots, positions, _, kv_heads, head_dim = values.shape
    table = lab.blocks(cache, slots)
    padded = np.full((slots, table.shape[1] * KV_BLOCK, 2, kv_heads, head_dim), STALE, values.dtype)
    padded[:, :positions] = values
    blocks = padded.reshape(slots, -1, KV_BLOCK, 2, kv_heads, head_dim).transpose(0, 1, 3, 4, 2, 5)
    pool = np.full((cache.layers[0].size // blocks[0, 0].nbytes, *blocks.shape[2:]), STALE, values.dtype)
    pool[table] = blocks
    lab.device.write(cache.layers[0], 0, pool.tobytes())
