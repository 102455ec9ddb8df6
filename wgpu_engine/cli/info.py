"""`wgpu-engine info`: what is in a model file, and what it takes to run it."""

from collections import Counter
from typing import TYPE_CHECKING, Any

from wgpu_engine.cli import terminal
from wgpu_engine.cli.options import AsJson, ModelName, ModelOptions

if TYPE_CHECKING:
    from wgpu_engine.files.model_file import ModelFile


def info(options: ModelOptions, model: ModelName = "smollm2", as_json: AsJson = False) -> None:
    """Show what a model is, its tensors by type, and the memory it takes on the chosen adapter.

    Examples:
      wgpu-engine info smollm2
      wgpu-engine info ./model.gguf --ctx-size 8192 --kv-type f32
      wgpu-engine info smollm2 --json
    """
    from wgpu_engine.files.model_file import open_model
    from wgpu_engine.files.store import Store
    from wgpu_engine.platform.drive import drive

    with drive(open_model(Store().find(model))) as file:
        report = _describe(file)
    if as_json:
        terminal.write_json(report)
    else:
        _print(report)


def _describe(file: "ModelFile") -> dict[str, Any]:
    counts = Counter(tensor.type.name for tensor in file.tensors.values())
    sizes: Counter[str] = Counter()
    for tensor in file.tensors.values():
        sizes[tensor.type.name] += tensor.nbytes
    architecture = _plain(file, "general.architecture")
    return {
        "path": str(file.path),
        "name": _plain(file, "general.name"),
        "architecture": architecture,
        "context": _plain(file, f"{architecture}.context_length"),
        "license": _plain(file, "general.license"),
        "file_bytes": file.file_bytes,
        "tensors": {name: {"count": counts[name], "bytes": sizes[name]} for name, _ in sizes.most_common()},
    }


def _plain(file: "ModelFile", key: str) -> str | int | None:
    """A text or number of the metadata; None where it is absent or something else."""
    value = file.metadata.get(key)
    return value if isinstance(value, str | int) else None


def _print(report: dict[str, Any]) -> None:
    console = terminal.console()
    for name in ("path", "name", "architecture", "context", "license"):
        if report[name] is not None:
            console.print(f"{name + ':':14}{terminal.printable(str(report[name])[:200])}", soft_wrap=True)
    rows = [(name, each["count"], terminal.size(each["bytes"])) for name, each in report["tensors"].items()]
    console.print()
    console.print(terminal.table(["type", "tensors", "size"], rows, right=["tensors", "size"]))
