"""`wgpu-engine list` and `wgpu-engine rm`: the models in the store."""

from typing import TYPE_CHECKING, Annotated

import typer

from wgpu_engine.cli import terminal

if TYPE_CHECKING:
    from wgpu_engine.files.store import StoredModel


def list_models(
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON array of the models in the store, for scripts.")
    ] = False,
) -> None:
    """Show the models in the store, and those that can be pulled by name.

    Examples:
      wgpu-engine list
      wgpu-engine list --json
    """
    from wgpu_engine.files.catalogue import CATALOGUE
    from wgpu_engine.files.store import Store

    store = Store()
    models = store.models()
    if as_json:
        terminal.write_json([_as_dict(model) for model in models])
        return
    console = terminal.console()
    if models:
        rows = [
            (_short_name(model), terminal.size(model.size), f"{model.modified.astimezone():%Y-%m-%d}", model.path.name)
            for model in models
        ]
        console.print(terminal.table(["name", "size", "pulled", "file"], rows, right=["size"]))
        console.print(f"\nin {store.folder}", soft_wrap=True)
    else:
        console.print(f"There are no models in {store.folder} yet.")
    files = {model.path.name for model in models}
    missing = [entry for entry in CATALOGUE if entry.file not in files]
    if missing:
        console.print("\nReady to pull by name:")
        console.print(terminal.table(["", ""], [(entry.name, entry.about) for entry in missing], header=False))


def remove(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Names that `list` shows.")],
) -> None:
    """Delete models from the store.

    Examples:
      wgpu-engine rm smollm2
    """
    from wgpu_engine.files.store import Store

    store = Store()
    for name in names:
        store.remove(name)
        terminal.note(f"removed {name}")


def _short_name(model: "StoredModel") -> str:
    """The catalogue's name of a model, where it has one."""
    from wgpu_engine.files.catalogue import CATALOGUE

    return next((entry.name for entry in CATALOGUE if entry.file == model.path.name), model.name)


def _as_dict(model: "StoredModel") -> dict[str, str | int | None]:
    return {
        "name": _short_name(model),
        "path": str(model.path),
        "size": model.size,
        "sha256": model.sha256,
        "source": model.source,
        "modified": model.modified.isoformat(),
    }
