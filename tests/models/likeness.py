"""How alike logits are."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wgpu_engine import LLM

Doubles = NDArray[np.float64]


def relative(found: NDArray[Any], wanted: NDArray[Any]) -> float:
    """Largest difference, relative to the largest value that is wanted."""
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())


def cosines(a: NDArray[Any], b: NDArray[Any]) -> Doubles:
    """Of each row with its like."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    return np.asarray((a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1))


def both_precisions(path: Path, ids: list[int], **options: Any) -> tuple[Doubles, Doubles]:
    """Logits [tokens, vocab] of a model in `exact` and in `fast`, which are never the same."""
    found = []
    for precision in ("exact", "fast"):
        with LLM(path, precision=precision, ctx_size=64, **options) as llm:
            found.append(llm.logits(ids).astype(np.float64))
    assert (found[0] != found[1]).any()
    return found[0], found[1]
