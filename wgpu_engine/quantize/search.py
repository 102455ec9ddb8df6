"""Searches for the scale, and offset, that represent blocks of weights best: weighted least squares.

Rounding gives the quants for a scale, least squares the best scale for quants. A search tries a range of scales round
the one that maps the largest weight onto the largest quant, fits each, and keeps the fit with the least error. The idea
is that of llama.cpp's quantizers of K-quants (ggml/src/ggml-quants.c).

Weights are float32 [elements, …]; results are [...], one for each of the other axes. `importance`, of the same shape
as the weights, is how much each error counts; None: all the same.
"""

from collections.abc import Callable, Iterable

import numpy as np

from wgpu_engine.quantize.blocks import Floats, reciprocal, rounded

LINEAR_STEPS = [step / 5 for step in range(-10, 6)]
AFFINE_STEPS = [step / 5 for step in range(-8, 6)]
"""in quants; 0 is among them, so that weights that were quantized before come out the same"""


def dot(a: Floats, b: Floats) -> Floats:
    """Sums of products over the first axis."""
    result: Floats = np.einsum("i...,i...->...", a, b)
    return result


def importance_of(x: Floats) -> Floats:
    """What the error of each weight counts where nothing is known of activations: its size, and that of its block.

    llama.cpp's quantizers too hold large weights for more important.
    """
    importance: Floats = np.sqrt(dot(x, x) / np.float32(len(x))) + np.abs(x)
    return importance


def linear(
    x: Floats, nearest: Callable[[Floats], Floats], far: float, steps: Iterable[float], importance: Floats | None = None
) -> Floats:
    """Scales, which may be negative, for `x ≈ scale * q`, where `nearest` gives the quants for numbers, in place.

    `far` is the quant farthest from zero, without its sign if both are. A step of 0 maps the largest weight onto it,
    one above 0 beyond it.
    """
    largest, smallest = x.max(axis=0), x.min(axis=0)
    peak = np.where(largest > -smallest, largest, smallest)
    sign = np.float32(np.sign(far))
    y = x * reciprocal(sign * peak)
    best, scale = np.zeros_like(peak), np.zeros(peak.shape, np.float32)
    weighted = y if importance is None else y * importance
    q, counted = np.empty_like(x), np.empty_like(x)
    for step in steps:
        np.multiply(y, np.float32(abs(far) + step), out=q)
        nearest(q)
        along = dot(weighted, q)
        size = dot(q if importance is None else np.multiply(q, importance, out=counted), q)
        fit = along * reciprocal(size)
        gain = along * fit
        better = gain > best
        np.copyto(best, gain, where=better)
        np.copyto(scale, fit, where=better)
    scale *= sign * peak
    return scale


def symmetric(x: Floats, low: int, high: int, steps: Iterable[float], importance: Floats | None = None) -> Floats:
    """Scales as `linear` finds them, for q from `low` to `high`."""
    far = low if -low >= high else high
    return linear(x, lambda values: rounded(values, low, high), far, steps, importance)


def affine(
    x: Floats, high: int, steps: Iterable[float], importance: Floats | None = None, *, free: bool = False
) -> tuple[Floats, Floats]:
    """Scales, at least 0, and offsets for `x ≈ scale * q + offset` with q from 0 to `high`.

    Offsets are at most 0 unless they are `free`. A step of 0 maps the range of the weights onto that of the quants.
    """
    start, stop = x.min(axis=0), x.max(axis=0)
    if not free:
        start = np.minimum(start, np.float32(0))
    span = stop - start
    inverse = reciprocal(span)
    y = (x - start) * inverse
    # the offset is sought in units of the span, from the start on
    most = np.float32(np.inf) if free else -start * inverse
    if importance is None:
        count, weighted = np.float32(len(x)), y
        total = y.sum(axis=0)
    else:
        count, weighted = importance.sum(axis=0), y * importance
        total = weighted.sum(axis=0)
    energy = dot(weighted, y)
    best, scale, offset = np.full_like(start, np.inf), np.zeros_like(start), np.zeros_like(start)
    q, counted = np.empty_like(x), np.empty_like(x)
    for step in steps:
        np.multiply(y, np.float32(high + step), out=q)
        rounded(q, 0, high)
        along = dot(weighted, q)
        counted = q if importance is None else np.multiply(q, importance, out=counted)
        mean, size = counted.sum(axis=0), dot(counted, q)
        spread = count * size - mean * mean
        # what is left of equal quants is rounding errors
        spread[spread < np.float32(1e-5) * count * size] = 0
        shift = np.minimum((size * total - mean * along) * reciprocal(spread), most)
        fit = np.maximum((along - shift * mean) * reciprocal(size), np.float32(0))
        error = energy + fit * (fit * size - 2 * along) + shift * (shift * count - 2 * total + 2 * fit * mean)
        better = error < best
        np.copyto(best, error, where=better)
        np.copyto(scale, fit, where=better)
        np.copyto(offset, shift, where=better)
    return scale * span, start + offset * span
