"""What a model makes of tokens that are given: logits and probabilities at their positions, nothing sampled."""

from collections.abc import AsyncGenerator, Iterator, Sequence

from wgpu_engine.engine.engine import Engine
from wgpu_engine.engine.sequence import check_prompt
from wgpu_engine.ops.state import Row

_SLOT = 0


async def logits(engine: Engine, ids: Sequence[int], first: int = 0) -> AsyncGenerator[list[bytes], None]:
    """Logits f32 [vocab] at the positions of `ids` from `first` on, some at a time, while no sequence runs.

    Raises:
        RequestError: `ids` is empty or holds an id that the model lacks.
        ContextFullError: `ids` are more than the context holds.
    """
    for rows, outputs in _steps(engine, ids, first):
        if found := await engine.logits(rows, len(ids), outputs):
            yield found


async def log_probs(engine: Engine, ids: Sequence[int], first: int = 1) -> list[float]:
    """Natural logarithms of the probabilities of the tokens of `ids` from the `first` on, each after those before.

    NaN where the model gives no numbers. Raises like `logits`.
    """
    found: list[float] = []
    for rows, outputs in _steps(engine, ids, first - 1):
        # nothing is asked of the last position, which has no successor
        outputs = [output for output in outputs if rows[output].position + 1 < len(ids)]
        tokens = [ids[rows[output].position + 1] for output in outputs]
        found += await engine.log_probs(rows, len(ids), outputs, tokens)
    return found


def _steps(engine: Engine, ids: Sequence[int], first: int) -> Iterator[tuple[list[Row], list[int]]]:
    """The rows of `ids` in steps, and those rows of each step whose position is `first` or later."""
    check_prompt(ids, engine.vocab, engine.ctx_size, 0)
    # nothing can go on from where it was: what layers keep in rings is overwritten
    engine.blocks.clear()
    try:
        engine.reserve(_SLOT, len(ids))
        step = engine.prefill_rows
        for start in range(0, len(ids), step):
            rows = [Row(token, start + i, _SLOT) for i, token in enumerate(ids[start : start + step])]
            yield rows, list(range(min(max(first - start, 0), len(rows)), len(rows)))
    finally:
        engine.blocks.release(_SLOT)
