"""The command `wgpu-engine`: its commands, and how errors leave it."""

import contextlib
import functools
import io
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from wgpu_engine import __version__
from wgpu_engine.cli.bench import bench
from wgpu_engine.cli.bundle import bundle
from wgpu_engine.cli.chat import chat
from wgpu_engine.cli.doctor import doctor
from wgpu_engine.cli.embed import embed
from wgpu_engine.cli.info import info
from wgpu_engine.cli.models import list_models, remove
from wgpu_engine.cli.options import grouped
from wgpu_engine.cli.perplexity import perplexity
from wgpu_engine.cli.pull import pull
from wgpu_engine.cli.quantize import quantize
from wgpu_engine.cli.run import run
from wgpu_engine.cli.serve import serve
from wgpu_engine.cli.terminal import complain
from wgpu_engine.cli.tune import tune
from wgpu_engine.cli.usage import Commands
from wgpu_engine.errors import EngineError

EXIT_ERROR = 2
EXIT_INTERRUPTED = 130

app = typer.Typer(
    name="wgpu-engine",
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """`command`, its errors turned into one sentence on stderr and an exit code.

    `WGPU_ENGINE_DEBUG=1` shows the traceback too.
    """

    @functools.wraps(command)
    def call(**values: Any) -> None:
        try:
            command(**values)
        except EngineError as error:
            if os.environ.get("WGPU_ENGINE_DEBUG"):
                traceback.print_exception(error)
            complain(str(error))
            raise typer.Exit(EXIT_ERROR) from error
        except BrokenPipeError as error:
            _discard_stdout()
            raise typer.Exit(EXIT_ERROR) from error
        except OSError as error:
            # a full disk behind stdout, for one; what is foreseen has become an EngineError
            if os.environ.get("WGPU_ENGINE_DEBUG"):
                traceback.print_exception(error)
            _discard_stdout()
            what = error.filename or "the output"
            complain(f"the system refuses {what} ({error.strerror}): check its permissions and the room on the disk")
            raise typer.Exit(EXIT_ERROR) from error
        except KeyboardInterrupt as error:
            raise typer.Exit(EXIT_INTERRUPTED) from error

    return call


def _discard_stdout() -> None:
    """Nobody reads on: keep the interpreter from failing again when it flushes at exit."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


_COMMANDS: dict[str, Callable[..., None]] = {
    "pull": pull,
    "list": list_models,
    "rm": remove,
    "info": info,
    "quantize": quantize,
    "run": run,
    "chat": chat,
    "embed": embed,
    "serve": serve,
    "bundle": bundle,
    "bench": bench,
    "perplexity": perplexity,
    "tune": tune,
    "doctor": doctor,
}
for _name, _command in _COMMANDS.items():
    app.command(_name)(guarded(grouped(_command)))


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"wgpu-engine {__version__}")
        raise typer.Exit


@app.callback()
def overview(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Language models on any GPU, through WebGPU: Vulkan, Metal or DirectX 12, without CUDA.

    Examples:
      wgpu-engine pull smollm2
      wgpu-engine run smollm2 "Why is the sky blue?"
      wgpu-engine chat smollm2
      wgpu-engine doctor
    """


def main() -> None:
    """Run the command line."""
    # where they were closed before the start, Python has none; what would go there goes nowhere
    sys.stdout = sys.stdout or Path(os.devnull).open("w")  # noqa: SIM115
    sys.stderr = sys.stderr or Path(os.devnull).open("w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
