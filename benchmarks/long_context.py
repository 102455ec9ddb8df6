"""How decoding slows down as the context grows: tokens/s at the end of contexts of several lengths.

Usage: python benchmarks/long_context.py [MODEL] [-n 32] [-r 3] [--contexts 128,1024,4096]
"""

import statistics
from pathlib import Path
from typing import Annotated

import typer
from script import Device, Model, run

from wgpu_engine import LLM
from wgpu_engine.cli import terminal

_TEXT = Path(__file__).with_name("text.txt")


def measure(
    model: Model = "smollm2",
    new_tokens: Annotated[int, typer.Option("-n", min=2, help="Tokens to generate.")] = 32,
    repetitions: Annotated[int, typer.Option("-r", min=1, help="Runs at each length; medians are printed.")] = 3,
    contexts: Annotated[str, typer.Option(metavar="LENGTHS", help="Contexts, in tokens.")] = "128,1024,4096",
    device: Device = None,
) -> None:
    """Print decode speeds with the last of the new tokens at these contexts, and their ratios to the first."""
    lengths = _lengths(contexts, new_tokens)
    with LLM(model, device=device, ctx_size=max(lengths)) as llm:
        words = llm.tokenize(_TEXT.read_text(encoding="utf-8"))
        ids = [words[i % len(words)] for i in range(max(lengths))]
        speeds: dict[int, list[float]] = {length: [] for length in lengths}
        for length in sorted(lengths):
            # reads the prompt, which the rounds below find in the cache, and makes the plans for this length
            _decode_speed(llm, ids[: length - new_tokens], new_tokens)
        for _ in range(repetitions):
            # downwards, so that each prompt is the beginning of the one in the cache
            for length in sorted(lengths, reverse=True):
                speeds[length].append(_decode_speed(llm, ids[: length - new_tokens], new_tokens))
        adapter = llm.adapter.name
    medians = {length: statistics.median(speeds[length]) for length in lengths}
    first = medians[lengths[0]]
    columns = ["context", "tokens/s", "range", f"of that at {lengths[0]}"]
    rows = [
        (
            length,
            f"{medians[length]:.2f}",
            f"{min(speeds[length]):.2f} to {max(speeds[length]):.2f}",
            f"{100 * medians[length] / first:.0f} %",
        )
        for length in lengths
    ]
    console = terminal.console()
    console.print(f"{model} on {adapter}, decode\n")
    console.print(terminal.table(columns, rows, right=columns))


def _lengths(text: str, new_tokens: int) -> list[int]:
    try:
        lengths = [int(part) for part in text.split(",")]
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is no list of numbers: write it like 128,1024") from error
    if min(lengths) <= new_tokens:
        raise typer.BadParameter(f"a context must be longer than the {new_tokens} new tokens")
    return lengths


def _decode_speed(llm: LLM, prompt: list[int], new_tokens: int) -> float:
    return llm.generate(prompt, max_tokens=new_tokens, temperature=0.0, ignore_eos=True).timings.decode_per_s


if __name__ == "__main__":
    run(measure)
