"""How far `fast` is from `exact`: mean Kullback-Leibler divergence over the tokens of a text.

Usage: python benchmarks/kl.py [MODEL] [TEXTFILE] [--tokens N] [--device NAME]
"""

from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import typer
from numpy.typing import NDArray
from script import Device, Model, run

from wgpu_engine import LLM
from wgpu_engine.cli import terminal
from wgpu_engine.engine.divergence import divergence, log_softmax
from wgpu_engine.errors import RequestError

_TEXT = Path(__file__).with_name("text.txt")
_ROWS = 32
"""positions in float64 at once"""


def divergences(exact: NDArray[np.float32], fast: NDArray[np.float32]) -> NDArray[np.float64]:
    """KL(exact, fast) [tokens] in nats, of logits [tokens, vocab]."""
    pieces = [slice(start, start + _ROWS) for start in range(0, len(exact), _ROWS)]
    return np.concatenate([divergence(log_softmax(exact[rows]), log_softmax(fast[rows])) for rows in pieces])


def measure(
    model: Model = "smollm2",
    text: Annotated[
        Path, typer.Argument(metavar="TEXTFILE", help="Ordinary text.", dir_okay=False, exists=True)
    ] = _TEXT,
    tokens: Annotated[int, typer.Option(min=1, help="How many tokens of it.")] = 500,
    device: Device = None,
) -> None:
    """Print the mean KL divergence of `fast` from `exact`, in nats, and how often their likeliest tokens agree."""
    ids, exact = _logits(model, "exact", text, tokens, device)
    fast = _logits(model, "fast", text, tokens, device)[1]
    kl, count = divergences(exact, fast), len(ids)
    agreed = int((exact.argmax(axis=1) == fast.argmax(axis=1)).sum())
    rows = [
        ("mean KL", f"{kl.mean():.5f}"),
        ("median", f"{np.median(kl):.5f}"),
        ("99th percentile", f"{np.percentile(kl, 99):.5f}"),
        ("largest", f"{kl.max():.5f}"),
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
    run(measure)
