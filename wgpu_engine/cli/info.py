"""`wgpu-engine info`: what is in a model file, and what it takes to run it."""

from collections import Counter
from typing import TYPE_CHECKING, Any

from wgpu_engine.cli import terminal
from wgpu_engine.cli.options import AsJson, ModelName, ModelOptions
from wgpu_engine.errors import ModelFileError, NoAdapterError, UnsupportedModelError

if TYPE_CHECKING:
    from wgpu_engine.files.model_file import ModelFile
    from wgpu_engine.gpu.device import AdapterInfo


def info(options: ModelOptions, model: ModelName = "smollm2", as_json: AsJson = False) -> None:
    """Show what a model is, its tensors by type, and the memory it takes on the chosen adapter.

    Examples:
      wgpu-engine info smollm2
      wgpu-engine info ./model.gguf --ctx-size 8192 --kv-type f32
      wgpu-engine info smollm2 --json
    """
    from wgpu_engine.files.opening import open_any
    from wgpu_engine.files.store import Store
    from wgpu_engine.platform.drive import drive

    with drive(open_any(Store().find(model))) as file:
        report = _describe(_quantized(file, options.quantize), options)
    if as_json:
        terminal.write_json(report)
    else:
        _print(report)


def _quantized(file: "ModelFile", quantize: str | None) -> "ModelFile":
    if quantize is None:
        return file
    from wgpu_engine.quantize.convert import writable
    from wgpu_engine.quantize.recipe import recipe

    return recipe(file, writable(quantize)).file


def _describe(file: "ModelFile", options: ModelOptions) -> dict[str, Any]:
    counts = Counter(tensor.type.name for tensor in file.tensors.values())
    sizes: Counter[str] = Counter()
    for tensor in file.tensors.values():
        sizes[tensor.type.name] += tensor.nbytes
    architecture = _plain(file, "general.architecture")
    report: dict[str, Any] = {
        "path": str(file.path),
        "name": _plain(file, "general.name"),
        "architecture": architecture,
        "parameters": sum(tensor.rows * tensor.columns for tensor in file.tensors.values()),
        "context": _plain(file, f"{architecture}.context_length"),
        "license": _plain(file, "general.license"),
        "file_bytes": file.file_bytes,
        "tensors": {name: {"count": counts[name], "bytes": sizes[name]} for name, _ in sizes.most_common()},
    }
    try:
        return report | {"supported": True, "unsupported_because": None, "memory": _memory(file, options)}
    except (UnsupportedModelError, ModelFileError) as error:
        return report | {"supported": False, "unsupported_because": str(error), "memory": None}


def _memory(file: "ModelFile", options: ModelOptions) -> dict[str, Any]:
    """Bytes that the model takes with these options, and those there are; `available` is None where nobody tells."""
    from wgpu_engine.engine.memory import context_size, footprint, memory_budget
    from wgpu_engine.models.registry import describe

    description = describe(file.metadata, file.tensors)
    ctx_size = context_size(description, options.ctx_size)
    need = footprint(description, file.tensor_bytes, ctx_size, options.kv_type)
    adapter = _adapter(options)
    available = options.memory_budget or (memory_budget(adapter) if adapter else None)
    return {
        "adapter": adapter.name if adapter else None,
        "ctx_size": ctx_size,
        "weights": need.weights,
        "kv": need.kv,
        "total": need.total,
        "available": available,
        "fits": None if available is None else need.total <= available,
    }


def _adapter(options: ModelOptions) -> "AdapterInfo | None":
    """The adapter that would run the model; None where there is none at all and none was asked for."""
    from wgpu_engine.gpu.adapters import choose_adapter

    try:
        return choose_adapter(options.device)[0]
    except NoAdapterError:
        if options.device is not None:
            raise
        return None


def _plain(file: "ModelFile", key: str) -> str | int | None:
    """A text or number of the metadata; None where it is absent or something else."""
    value = file.metadata.get(key)
    return value if isinstance(value, str | int) else None


def _print(report: dict[str, Any]) -> None:
    console = terminal.console()
    facts = {name: report[name] for name in ("path", "name", "architecture", "context", "license")}
    facts["parameters"] = f"{report['parameters'] / 1e6:,.1f} million"
    for name, fact in facts.items():
        if fact is not None:
            console.print(f"{name + ':':14}{terminal.printable(str(fact)[:200])}", soft_wrap=True)
    rows = [(name, each["count"], terminal.size(each["bytes"])) for name, each in report["tensors"].items()]
    console.print()
    console.print(terminal.table(["type", "tensors", "size"], rows, right=["tensors", "size"]))
    console.print()
    memory = report["memory"]
    if memory is None:
        console.print(f"It does not run: {terminal.printable(report['unsupported_because'])}.", soft_wrap=True)
        return
    console.print(
        f"It takes {terminal.size(memory['total'])} with a context of {memory['ctx_size']}: "
        f"{terminal.size(memory['weights'])} for weights, {terminal.size(memory['kv'])} for the KV cache, the rest to "
        "work in.",
        soft_wrap=True,
    )
    if memory["available"] is not None:
        verdict = "fits" if memory["fits"] else "does NOT fit"
        where, free = memory["adapter"] or "the budget", terminal.size(memory["available"])
        console.print(f"It {verdict} {terminal.printable(where)}: {free} are free.", soft_wrap=True)
    elif memory["adapter"] is not None:
        console.print(f"{terminal.printable(memory['adapter'])} does not tell how much it has.", soft_wrap=True)
    else:
        console.print('There is no adapter to run it on: see "wgpu-engine doctor".', soft_wrap=True)
