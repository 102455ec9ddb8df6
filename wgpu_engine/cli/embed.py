"""`wgpu-engine embed`: embeddings of texts."""

import json
import sys
import warnings
from typing import Annotated

import typer

from wgpu_engine.cli import terminal
from wgpu_engine.cli.options import AsJson, DeviceOptions, ModelName
from wgpu_engine.cli.progress import ProgressDisplay
from wgpu_engine.errors import RequestError


def embed(
    options: DeviceOptions,
    model: ModelName,
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT", help="Texts; where absent, each line of stdin is one.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print an embedding for each text: a line of numbers of length 1.

    The model is an encoder (BERT), such as `minilm`.
    Texts longer than it takes lose their end, with a warning; empty
    ones keep their line, as in sentence-transformers, with one too.

    Examples:
      wgpu-engine embed minilm "A fox jumps." "A dog sleeps."
      wgpu-engine embed minilm --json < sentences.txt > embeddings.json
      wgpu-engine embed ./bge-small-en-v1.5.gguf --precision exact "Why is the sky blue?"
    """
    wanted = texts or _lines(model)
    from wgpu_engine.engine.embedder import Embedder

    with ProgressDisplay() as progress, Embedder(model, **options.keywords(), progress=progress) as embedder:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            found = embedder.embed(wanted, progress)
        odd = [*embedder.warnings, *(str(warning.message) for warning in caught)]
        adapter = embedder.adapter.name
    for warning in odd:
        terminal.note(f"warning: {warning}")
    rows = [[float(f"{value:.9g}") for value in row] for row in found.tolist()]
    if as_json:
        report = {"model": model, "adapter": adapter, "width": found.shape[1], "embeddings": rows}
        terminal.write(json.dumps(report) + "\n")
    else:
        terminal.write("".join(" ".join(map(str, row)) + "\n" for row in rows))


def _lines(model: str) -> list[str]:
    if sys.stdin is None or sys.stdin.isatty():
        raise RequestError(
            f"there is no text for the model {model!r:.80}: add texts in quotes after the model, or pipe lines in"
        )
    try:
        # not `splitlines`, for which much else than an end of line ends one
        lines = [line.removesuffix("\r") for line in sys.stdin.buffer.read().decode().removesuffix("\n").split("\n")]
    except UnicodeDecodeError as error:
        raise RequestError("what comes on stdin is not UTF-8 text: convert it first") from error
    if lines == [""]:
        raise RequestError("there is no text on stdin: pipe lines in, or add texts in quotes after the model")
    return lines
