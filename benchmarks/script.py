"""What the benchmarks' command lines share."""

import sys
from collections.abc import Callable
from typing import Annotated

import typer

from wgpu_engine.cli import terminal
from wgpu_engine.errors import EngineError

Model = Annotated[str, typer.Argument(metavar="MODEL", help="Path of a GGUF file, or a name in the store.")]
Device = Annotated[str | None, typer.Option(help="Adapter, by its number or a part of its name.")]


def run(command: Callable[..., None]) -> None:
    """Runs a command with the options that it was given; what can be mended is said in a sentence."""
    try:
        typer.run(command)
    except EngineError as problem:
        terminal.complain(str(problem))
        sys.exit(2)
