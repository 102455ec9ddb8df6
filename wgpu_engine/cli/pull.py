"""`wgpu-engine pull`: bring a model into the store."""

from typing import Annotated

import typer

from wgpu_engine.cli import terminal
from wgpu_engine.cli.progress import ProgressDisplay


def pull(
    source: Annotated[str, typer.Argument(metavar="NAME|hf:ORG/REPO/FILE|URL", help="What to fetch.")] = "smollm2",
) -> None:
    """Fetch a model into the store. After an interruption the same command goes on where it stopped.

    Examples:
      wgpu-engine pull smollm2
      wgpu-engine pull hf:HuggingFaceTB/SmolLM2-360M-Instruct-GGUF/smollm2-360m-instruct-q8_0.gguf
      wgpu-engine pull https://example.org/model.gguf
    """
    from wgpu_engine.files.download import pull as fetch
    from wgpu_engine.files.store import Store

    with ProgressDisplay() as progress:
        path = fetch(source, Store(), progress)
    terminal.note(f"{source} is in {path}")
