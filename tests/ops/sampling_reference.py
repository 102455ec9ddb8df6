"""Sampling in float64: which tokens may be drawn."""

import numpy as np
from numpy.typing import NDArray

from tests.ops.sampling_bench import Floats, Slot, Words

IN_PROMPT = 1 << 31
LARGEST = float(np.finfo(np.float32).max)
CDF_SLACK = 2e-5
"""how far sums in f32 may be from exact ones, as a part of the total"""


def hashed(seed: int, count: int) -> float:
    """pcg2d of (seed, count), the top 24 bits as a fraction."""
    mask = 0xFFFFFFFF
    x, y = ((word * 1664525 + 1013904223) & mask for word in (seed, count))
    for _ in range(2):
        x = (x + y * 1664525) & mask
        y = (y + x * 1664525) & mask
        x, y = x ^ (x >> 16), y ^ (y >> 16)
    return (x >> 8) / 2**24


def penalised(logits: Floats, slot: Slot, counts: Words) -> Floats:
    repeated = np.where(logits > 0, logits / np.float32(slot.repetition), logits * np.float32(slot.repetition))
    generated = counts & ~np.uint32(IN_PROMPT)
    taken = np.float32(slot.presence) + np.float32(slot.frequency) * generated.astype(np.float32)
    result = np.where(counts > 0, repeated, logits) - np.where(generated > 0, taken, np.float32(0))
    return np.asarray(result, np.float32)


def cleaned(logits: Floats) -> NDArray[np.float64]:
    return np.where(np.isnan(logits), -np.inf, np.minimum(logits, LARGEST)).astype(np.float64)


def allowed(logits: NDArray[np.float64], slot: Slot, top_p: float, slack: float) -> NDArray[np.bool_]:
    """What top-k, top-p and min-p leave, by sorting."""
    keep = logits > -np.inf
    if 0 < slot.top_k < len(logits):
        keep &= logits >= np.sort(logits)[-slot.top_k]
    peak = logits.max()
    low = -np.inf
    if top_p < 1:
        order = np.sort(logits[keep])[::-1]
        mass = np.cumsum(np.exp(order - peak))
        low = order[min(np.searchsorted(mass, top_p * mass[-1]), len(order) - 1)]
    if slot.min_p > 0:
        low = max(low, min(peak, peak + np.log(slot.min_p) + slack))
    return keep & (logits >= low)


def acceptable(logits: Floats, slot: Slot) -> set[int]:
    """The tokens that a draw may give: one, or more where the hash falls on a border between two or a token lies on a
    threshold, up to what f32 can resolve."""
    exact = cleaned(logits)
    peak = exact.max()
    if peak == -np.inf:
        return {0}
    if not slot.temperature >= 1e-6 or slot.top_k == 1:
        return {int(np.argmax(exact))}
    tokens: set[int] = set()
    for part in (-CDF_SLACK, 0.0, CDF_SLACK):
        top_p = slot.top_p if slot.top_p >= 1 else slot.top_p * (1 + part)
        keep = allowed(exact, slot, top_p, part * max(1.0, abs(peak)) / 10)
        with np.errstate(over="ignore"):
            weights = np.where(keep, np.exp((exact - peak) / slot.temperature), 0)
        edges = np.cumsum(weights) / weights.sum()
        u = hashed(slot.seed, slot.count)
        first, last = np.searchsorted(edges, [u - CDF_SLACK, u + CDF_SLACK], side="right")
        tokens |= {int(t) for t in range(first, min(last, len(exact) - 1) + 1) if keep[t]}
    return tokens
