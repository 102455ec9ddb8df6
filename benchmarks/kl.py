"""How far `fast` is from `exact`: mean Kullback-Leibler divergence over the tokens of a text.

Usage: python benchmarks/kl.py [MODEL] [TEXTFILE] [--tokens N] [--device NAME]
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import typer
from numpy.typing import NDArray

from wgpu_engine import LLM
from wgpu_engine.cli import terminal
from wgpu_engine.errors import EngineError, RequestError

_TEXT = Path(__file__).with_name("text.txt")
_ROWS = 32
"""positions in float64 at once"""


@dataclass(frozen=True)
class Divergence:
    """Of each position's next-token distribution, in nats."""

    kl: NDArray[np.float64]
    """KL(exact, fast) [tokens]"""
    agree: NDArray[np.bool_]
    """whether both have the same likeliest token [tokens]"""


def divergence(exact: NDArray[np.float32], fast: NDArray[np.float32]) -> Divergence:
    """Of logits [tokens, vocab], in float64."""
    kl = np.empty(len(exact))
    for start in range(0, len(exact), _ROWS):
        rows = slice(start, start + _ROWS)
        p, q = _log_softmax(exact[rows]), _log_softmax(fast[rows])
        kl[rows] = (np.exp(p) * (p - q)).sum(axis=1)
    return Divergence(kl, exact.argmax(axis=1) == fast.argmax(axis=1))


def _log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    result = logits.astype(np.float64)
    result -= result.max(axis=1, keepdims=True)
    result -= np.log(np.exp(result).sum(axis=1, keepdims=True))
    return result


def measure(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="Path of a GGUF file, or a name in the store.")
    ] = "smollm2",
    text: Annotated[
        Path, typer.Argument(metavar="TEXTFILE", help="Ordinary text.", dir_okay=False, exists=True)
    ] = _TEXT,
    tokens: Annotated[int, typer.Option(min=1, help="How many tokens of it.")] = 500,
    device: Annotated[str | None, typer.Option(help="Adapter, by its number or a part of its name.")] = None,
) -> None:
    """Print the mean KL divergence of `fast` from `exact`, in nats, and how often their likeliest tokens agree."""
    ids, exact = _logits(model, "exact", text, tokens, device)
    found = divergence(exact, _logits(model, "fast", text, tokens, device)[1])
    count = len(ids)
    agreed = int(found.agree.sum())
    rows = [
        ("mean KL", f"{found.kl.mean():.5f}"),
        ("median", f"{np.median(found.kl):.5f}"),
        ("99th percentile", f"{np.percentile(found.kl, 99):.5f}"),
        ("largest", f"{found.kl.max():.5f}"),
        ("same likeliest token", f"{agreed} of {count} ({100 * agreed / count:.1f} %)"),
    ]
    console = terminal.console()
    console.print(f"{model}, fast from exact over {count} tokens of {text.name}\n")
    console.print(terminal.table(["", "nats"], rows, right=["nats"]))


def _logits(
    model: str, precision: Literal["exact", "fast"], text: Path, tokens: int, device: str | None
) -> tuple[list[int], NDArray[np.float32]]:
    """The ids of the text's first tokens and their logits [tokens, vocab]."""
    with LLM(model, precision=precision, device=device, ctx_size=tokens) as llm:
        ids = llm.tokenize(text.read_text(encoding="utf-8"))[:tokens]
        if len(ids) < tokens:
            raise RequestError(f"{text} has {len(ids)} tokens: use a longer text, or --tokens {len(ids)}")
        return ids, llm.logits(ids)


if __name__ == "__main__":
    try:
        typer.run(measure)
    except EngineError as problem:
        terminal.complain(str(problem))
        sys.exit(2)
