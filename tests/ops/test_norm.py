"""Norms of rows, and what is added to the residual stream before them, against float64."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from wgpu_engine.ops.norm import norm, residual_norm
from wgpu_engine.ops.weight import Norm

WIDTHS = (1, 2, 3, 5, 32, 33, 127, 128, 130, 173, 576, 1024, 2500, 4096, 5001)
Doubles = Any


@dataclass(frozen=True)
class Reference:
    """A norm on the device, and what it should do."""

    norm: Norm
    gain: Doubles
    bias: Doubles

    def __call__(self, x: Doubles) -> Doubles:
        if self.norm.kind == "layer":
            x = x - x.mean(axis=1, keepdims=True)
        return x / self._deviation(x) * self.gain + self.bias

    def slack(self, x: Doubles) -> Doubles:
        """How far off f32 may be, by row, relative to its largest result: means and biases cancel what is larger."""
        deviation = self._deviation(x - x.mean(axis=1, keepdims=True) if self.norm.kind == "layer" else x)
        terms = (np.abs(x) / deviation).max(axis=1, keepdims=True) * np.abs(self.gain).max() + np.abs(self.bias).max()
        largest = np.abs(self(x)).max(axis=1, keepdims=True)
        return 1e-5 * terms / np.where(largest, largest, terms)

    def _deviation(self, x: Doubles) -> Doubles:
        return np.sqrt((x**2).mean(axis=1, keepdims=True) + self.norm.eps)


def draw(lab: Any, width: int, kind: str, bias: bool) -> Reference:
    gain, shift = (lab.rng.standard_normal(width).astype(np.float32) for _ in range(2))
    on_device = Norm(lab.vector(gain), float(lab.rng.choice([1e-5, 0.25])), lab.vector(shift) if bias else None, kind)
    return Reference(on_device, gain.astype(np.float64), shift.astype(np.float64) if bias else np.zeros(width))


def residual(lab: Any, builder: Any, width: int, rows: int, label: str = "x") -> tuple[Any, Doubles]:
    """Rows around a mean of their own, what lies past them is NaN."""
    values = lab.rng.standard_normal((rows, width)) + lab.rng.uniform(-3, 3, (rows, 1))
    buffer = builder.floats(width, label)
    lab.fill(buffer, np.float32(np.nan))
    lab.write_rows(buffer, values)
    lab.write_state(builder, [(0, 0, 0)] * rows)
    return buffer, values.astype(np.float32).astype(np.float64)


def codecs(width: int) -> tuple[str, ...]:
    return ("f32",) if width % 32 else ("f32", "q8")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", ["rms", "layer"])
def test_norm(width: int, kind: str, lab: Any, builder: Any) -> None:
    for codec in codecs(width):
        for bias in (False, True):
            reference = draw(lab, width, kind, bias)
            for pose in lab.adapters():
                plan = builder(6)
                x, values = residual(lab, plan, width, 4)
                with lab.posing(*pose):
                    h = norm(plan, x, width, reference.norm, codec, label="here")
                lab.run(plan)
                assert (h.width, h.codec, h.squares) == (width, codec, None)
                lab.check_activation(h, reference(values), reference.slack(values))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("terms", [1, 2])
@pytest.mark.parametrize("post", [None, "rms", "layer"])
def test_residual_norm(width: int, terms: int, post: str | None, lab: Any, builder: Any) -> None:
    plan = builder(5)
    codec = str(lab.rng.choice(codecs(width)))
    scale = float(lab.rng.choice([1.0, 0.375]))
    before = draw(lab, width, post, bias=post == "layer" and terms == 1) if post else None
    after = draw(lab, width, str(lab.rng.choice(["rms", "layer"])), bias=terms == 1)
    x, values = residual(lab, plan, width, 3)
    ys = [residual(lab, plan, width, 3, f"y{i}") for i in range(terms)]
    y = tuple(buffer for buffer, _ in ys)
    h = residual_norm(
        plan, x, y if terms > 1 else y[0], width, after.norm, codec, post=before and before.norm, scale=scale
    )
    assert h is not None
    lab.run(plan)
    added = [each for _, each in ys]
    if before:
        added[0] = before(added[0])
    wanted = values + scale * sum(added)
    np.testing.assert_allclose(lab.rows(x, 3, width), wanted, rtol=1e-5, atol=2e-5)
    # what a norm of few values makes of tiny differences is not at issue here
    found = lab.rows(x, 3, width).astype(np.float64)
    lab.check_activation(h, after(found), after.slack(found))


def test_without_a_norm(lab: Any, builder: Any) -> None:
    plan = builder(3)
    x, values = residual(lab, plan, 100, 2)
    y, added = residual(lab, plan, 100, 2, "y")
    assert residual_norm(plan, x, y, 100, None, scale=0.5) is None
    lab.run(plan)
    np.testing.assert_allclose(lab.rows(x, 2, 100), values + 0.5 * added, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("width", [32, 416, 4096])
def test_rounded_without_a_norm(width: int, lab: Any, builder: Any) -> None:
    for pose in lab.adapters():
        with lab.posing(*pose):
            plan = builder(3)
            x, values = residual(lab, plan, width, 2)
            y, added = residual(lab, plan, width, 2, "y")
            h = residual_norm(plan, x, y, width, None, "q8", scale=0.5)
            lab.run(plan)
            lab.check_activation(h, lab.rows(x, 2, width).astype(np.float64))
            np.testing.assert_allclose(lab.rows(x, 2, width), values + 0.5 * added, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("width", [96, 300, 1000])
def test_only_the_rows_of_a_step_are_written(width: int, lab: Any, builder: Any) -> None:
    plan = builder(6)
    x, _ = residual(lab, plan, width, 2)
    y, _ = residual(lab, plan, width, 2, "y")
    h = residual_norm(plan, x, y, width, draw(lab, width, "layer", True).norm, "f32")
    assert h is not None
    for buffer in (x, y, h.buffer):
        lab.fill(buffer)
    lab.run(plan)
    for buffer in (x, h.buffer):
        found = lab.rows(buffer, 6, width)
        assert (found[2:] == np.float32(-123456.75)).all()
        assert (found[:2] != found[5, 0]).all()


@pytest.mark.parametrize("kind", ["rms", "layer"])
def test_a_row_is_the_same_bits_in_any_batch_and_without_subgroups(kind: str, lab: Any, builder: Any) -> None:
    for width in (96, 1001, 3000):
        reference = draw(lab, width, kind, True)
        found = []
        many = builder(8)
        x, values = residual(lab, many, width, 7)
        for _, size in {(kind, size) for kind, size in lab.adapters() if kind == "cpu"}:
            with lab.posing("cpu", size):
                many.dispatches = []
                h = norm(many, x, width, reference.norm, "f32")
                lab.run(many)
                found.append(lab.rows(h.buffer, 7, width)[6])
                one = builder(1)
                alone, _ = residual(lab, one, width, 1)
                lab.write_rows(alone, values[6:])
                h = norm(one, alone, width, reference.norm, "f32")
                lab.run(one)
                found.append(lab.rows(h.buffer, 1, width)[0])
        assert all(np.array_equal(each, found[0]) for each in found)


def test_a_layer_norm_of_a_small_spread_around_a_large_mean(lab: Any, builder: Any) -> None:
    """The squares are those of what is left without the mean, lest they drown in it."""
    plan = builder(1)
    x, _ = residual(lab, plan, 768, 1)
    values = (1000 + 0.01 * lab.rng.standard_normal((1, 768))).astype(np.float32)
    lab.write_rows(x, values)
    reference = Reference(Norm(lab.vector(np.ones(768)), 1e-12, None, "layer"), np.ones(768), np.zeros(768))
    h = norm(plan, x, 768, reference.norm, "f32")
    lab.run(plan)
    wanted = reference(values.astype(np.float64))
    # the mean itself is rounded: 3e-5 of a spread of 0.01
    np.testing.assert_allclose(lab.rows(h.buffer, 1, 768), wanted, rtol=0, atol=0.02)


@pytest.mark.parametrize("width", [33, 96, 384, 1024])
def test_in_place(width: int, lab: Any, builder: Any) -> None:
    """As where norms stand behind sums: the residual stream is what was normed."""
    for codec in codecs(width):
        plan = builder(5)
        first, second = draw(lab, width, "layer", True), draw(lab, width, "layer", True)
        x, values = residual(lab, plan, width, 3)
        y, added = residual(lab, plan, width, 3, "y")
        norm(plan, x, width, first.norm, codec, in_place=True, label="first")
        h = residual_norm(plan, x, y, width, second.norm, codec, in_place=True)
        assert h is not None and (h.buffer is x) == (codec == "f32")
        lab.run(plan)
        wanted = second(first(values) + added)
        lab.check_activation(h, wanted, 1e-4)
        np.testing.assert_allclose(lab.rows(x, 3, width), wanted, rtol=1e-4, atol=1e-4)
