"""`wgpu-engine bundle`: the folder for browsers, which any host of static files can serve."""

from pathlib import Path
from typing import Annotated

import typer

from wgpu_engine.cli import terminal
from wgpu_engine.cli.progress import ProgressDisplay
from wgpu_engine.errors import RequestError

KIOSK_PANEL = "Kiosk"


def bundle(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The folder to write: new, or an earlier bundle.")],
    model: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME|FILE",
            help="A model to put in: a name that `list` shows or a GGUF file; may be repeated.",
        ),
    ] = None,
    title: Annotated[str | None, typer.Option(help="What the page is called.")] = None,
    pyodide_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Pyodide's files; by default npm fetches them once."),
    ] = None,
    kiosk: Annotated[
        bool,
        typer.Option(
            "--kiosk",
            help="For a screen that stands by itself: loads its model unasked, has no settings.",
            rich_help_panel=KIOSK_PANEL,
        ),
    ] = False,
    system_prompt: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="What the model is told before each chat.", rich_help_panel=KIOSK_PANEL),
    ] = None,
    idle_reset: Annotated[
        int | None,
        typer.Option(
            min=5,
            max=86400,
            metavar="SECONDS",
            help="Without a touch for so long, the chat is cleared; by default 120.",
            rich_help_panel=KIOSK_PANEL,
        ),
    ] = None,
) -> None:
    """Write a folder with all that a browser needs to chat, without any server but one for static files.

    Examples:
      wgpu-engine bundle ./site
      wgpu-engine bundle ./site --model smollm2 --title "Chat"
      wgpu-engine bundle ./site --model smollm2 --kiosk --system-prompt "You are the guide of a museum."
    """
    from wgpu_engine.bundle.folder import TITLE, Kiosk, build
    from wgpu_engine.bundle.models import choose
    from wgpu_engine.files.store import Store

    if not kiosk and (system_prompt is not None or idle_reset is not None):
        raise RequestError("--system-prompt and --idle-reset are for a kiosk: add --kiosk")
    if title is not None and not title.strip():
        raise RequestError("--title is empty: give the page a name, or leave it out")
    store = Store()
    models = [choose(name, store) for name in model or []]
    with ProgressDisplay() as progress:
        built = build(
            out,
            models,
            store.home / "bundle",
            title=title,
            kiosk=Kiosk(title or TITLE, system_prompt, idle_reset or 120) if kiosk else None,
            pyodide_dir=pyodide_dir,
            progress=progress,
        )
    rows = [
        (part.name, f"{part.files:,}", terminal.size(part.size), terminal.size(part.gzipped) if part.gzipped else "")
        for part in built.parts
    ]
    console = terminal.console()
    console.print(terminal.table(["", "files", "size", "gzipped"], rows, right=["files", "size", "gzipped"]))
    gzipped = terminal.size(sum(part.gzipped or 0 for part in built.parts))
    console.print(f"\n{built.folder} is ready; without models visitors fetch {gzipped} once.", soft_wrap=True)
    for note in built.notes:
        terminal.note(f"note: {note}")
    console.print(f"Try it:  python3 -m http.server 8000 --directory {built.folder}", soft_wrap=True)
    console.print("         then open http://localhost:8000/ in a browser with WebGPU")
    console.print("Publish: copy the folder to any static host with HTTPS; README.txt in it says more", soft_wrap=True)
