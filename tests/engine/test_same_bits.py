"""In `exact` a row's logits are the same bits whatever shares the step, however it is cut and wherever it is split."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from wgpu_engine import LLM
from wgpu_engine.engine.engine import Engine
from wgpu_engine.ops.state import Row
from wgpu_engine.platform.drive import drive

SLOTS = 4
CONTEXT = 4096


@pytest.fixture(scope="module", params=["F32", "Q4_0", "windows", "convolutions"])
def engine(
    request: pytest.FixtureRequest, tiny_llama: Callable[..., Path], tiny_lfm2: Callable[..., Path]
) -> Iterator[Engine]:
    """Four slots of 4096 positions over a random llama, or a model that has windows or convolutions."""
    if request.param == "convolutions":
        path = tiny_lfm2("cac", biases=True, context=CONTEXT)
    elif request.param == "windows":
        path = tiny_llama(context=CONTEXT, metadata={"attention.sliding_window": 20})
    else:
        path = tiny_llama(types={"": request.param}, biases=True, context=CONTEXT)
    with LLM(path, precision="exact", ctx_size=32) as llm:
        yield Engine(llm._device, llm._engine.model, ctx_size=CONTEXT, slots=SLOTS, precision="exact")


def step(engine: Engine, rows: Sequence[Row], reach: int | None = None) -> list[bytes]:
    """The logits of each row."""
    for row in rows:
        engine.reserve(row.slot, row.position + 1)
    return drive(engine.logits(rows, reach or 1 + max(row.position for row in rows)))


def alone(engine: Engine, ids: Sequence[int], chunk: int, slot: int = 0) -> list[bytes]:
    """The logits of each position of a sequence that comes in chunks."""
    rows = [Row(token, position, slot) for position, token in enumerate(ids)]
    return [bits for start in range(0, len(ids), chunk) for bits in step(engine, rows[start : start + chunk])]


def differing(a: Sequence[bytes], b: Sequence[bytes]) -> list[int]:
    assert len(a) == len(b)
    return [i for i, (x, y) in enumerate(zip(a, b, strict=True)) if x != y]


def test_any_chunks(engine: Engine, rng: np.random.Generator) -> None:
    ids = rng.integers(0, 256, 150).tolist()
    wanted = alone(engine, ids, 1)
    assert len(set(wanted)) == len(wanted)
    for chunk in (2, 7, 64, 128):
        assert differing(alone(engine, ids, chunk), wanted) == [], f"chunks of {chunk}"


def test_any_company(engine: Engine, rng: np.random.Generator) -> None:
    """Four sequences of different lengths, in steps of ragged rows in any order."""
    sequences = [rng.integers(0, 256, length).tolist() for length in (140, 61, 90, 9)]
    wanted = [alone(engine, ids, 64, slot) for slot, ids in enumerate(sequences)]
    for _ in range(2):
        order = rng.permutation(SLOTS)
        found: list[list[bytes]] = [[] for _ in sequences]
        while any(len(got) < len(ids) for got, ids in zip(found, sequences, strict=True)):
            most = int(rng.choice([1, 4, 40]))
            rows: list[Row] = []
            for i in rng.permutation(SLOTS):
                start = len(found[i])
                for position in range(start, min(start + int(rng.integers(0, most + 1)), len(sequences[i]))):
                    rows.append(Row(sequences[i][position], position, int(order[i])))
            if not rows:
                continue
            sequence_of = {int(order[i]): i for i in range(SLOTS)}
            for row, bits in zip(rows, step(engine, rows), strict=True):
                found[sequence_of[row.slot]].append(bits)
        for got, ids in zip(found, wanted, strict=True):
            assert differing(got, ids) == []


@pytest.mark.parametrize("length", [200, 257, 700, 1100])
def test_any_split(engine: Engine, rng: np.random.Generator, length: int) -> None:
    """Plans of many rows pass over the context in one go; those of few are split, the more the farther they reach."""
    ids = rng.integers(0, 256, length).tolist()
    rows = [Row(token, position, 0) for position, token in enumerate(ids)]
    wanted = alone(engine, ids, 128)[-8:]
    for reach in (length, 1024, CONTEXT):
        if reach < length:
            continue
        for count in (1, 3, 8, 9):
            found = step(engine, rows[-count:], reach)
            assert differing(found[-8:], wanted[-count:]) == [], f"{count} rows of a plan for {reach} positions"


@pytest.mark.model
def test_a_real_model(smollm2_exact: LLM, rng: np.random.Generator) -> None:
    llm = smollm2_exact
    engine = Engine(llm._device, llm._engine.model, ctx_size=320, slots=SLOTS, precision="exact")
    try:
        ids = rng.integers(0, engine.vocab, 66).tolist()
        rows = [Row(token, position, 0) for position, token in enumerate(ids)]
        wanted = alone(engine, ids, 64)
        sevens = [bits for start in range(38, 66, 7) for bits in step(engine, rows[start : start + 7])]
        assert differing(sevens, wanted[38:]) == []
        assert differing([step(engine, [row])[0] for row in rows[-6:]], wanted[-6:]) == []
        others = [rng.integers(0, engine.vocab, length).tolist() for length in (30, 7, 50)]
        together = rows[:40]
        together += [Row(token, i, slot) for slot, other in enumerate(others, 1) for i, token in enumerate(other)]
        assert differing(step(engine, together)[:40], wanted[:40]) == []
        more = [Row(5, len(other), slot) for slot, other in enumerate(others, 1)]
        assert differing(step(engine, [*more, *rows[40:]])[3:], wanted[40:]) == []
    finally:
        engine.free()
