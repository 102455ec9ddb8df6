"""Embeddings out of rows, against float64."""

from typing import Any

import numpy as np
import pytest

from wgpu_engine.ops.pool import pool
from wgpu_engine.ops.state import Row, pack_state


def rows_of(lengths: list[int]) -> tuple[list[Row], list[int]]:
    """Texts of so many rows, one behind the other, and their first rows."""
    rows, firsts = [], []
    for slot, length in enumerate(lengths):
        firsts.append(len(rows))
        rows += [Row(0, position, slot, sees=length - 1) for position in range(length)]
    return rows, firsts


@pytest.mark.parametrize("kind", ["mean", "cls"])
@pytest.mark.parametrize("width", [1, 3, 32, 100, 384, 1027])
def test_pool(kind: str, width: int, lab: Any, builder: Any) -> None:
    rows, firsts = rows_of([3, 1, 20, 7])
    for pose in lab.adapters():
        plan = builder(40, 6)
        values = lab.rng.standard_normal((len(rows), width)).astype(np.float32)
        x = plan.floats(width, "x")
        lab.fill(x, np.float32(np.nan))
        lab.write_rows(x, values)
        with lab.posing(*pose):
            embeddings = pool(plan, x, width, kind)
        lab.fill(embeddings)
        lab.device.write(plan.state, 0, pack_state(rows, firsts))
        lab.run(plan)
        found = lab.rows(embeddings, 6, width)
        assert (found[4:] < -100_000).all()
        ends = [*firsts[1:], len(rows)]
        for output, (first, end) in enumerate(zip(firsts, ends, strict=True)):
            wanted = values[first : first + 1 if kind == "cls" else end].astype(np.float64).mean(axis=0)
            wanted /= np.linalg.norm(wanted)
            np.testing.assert_allclose(found[output], wanted, rtol=1e-5, atol=1e-6)


def test_the_same_bits_in_any_batch(lab: Any, builder: Any) -> None:
    values = lab.rng.standard_normal((9, 96)).astype(np.float32)
    found = []
    for lengths, output in (([9], 0), ([5, 9, 3], 1)):
        rows, firsts = rows_of(lengths)
        plan = builder(32, 4)
        x = plan.floats(96, "x")
        padded = np.zeros((32, 96), np.float32)
        padded[firsts[output] : firsts[output] + 9] = values
        lab.write_rows(x, padded)
        embeddings = pool(plan, x, 96, "mean")
        lab.device.write(plan.state, 0, pack_state(rows, firsts))
        lab.run(plan)
        found.append(lab.rows(embeddings, 4, 96)[output])
    assert np.array_equal(*found)


def test_zeros_are_not_divided_by_zero(lab: Any, builder: Any) -> None:
    rows, firsts = rows_of([2])
    plan = builder(2, 1)
    x = plan.floats(8, "x")
    lab.write_rows(x, np.zeros((2, 8)))
    embeddings = pool(plan, x, 8, "mean")
    lab.device.write(plan.state, 0, pack_state(rows, firsts))
    lab.run(plan)
    assert not lab.rows(embeddings, 1, 8).any()
