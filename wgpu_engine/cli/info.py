"""`wgpu-engine info`: what is in a model file, what it takes to run it, and what stands in its way if it doesn't."""

from collections import Counter
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import typer

from wgpu_engine.cli import terminal
from wgpu_engine.cli.model_report import print_report
from wgpu_engine.cli.options import AsJson, ModelName, ModelOptions
from wgpu_engine.errors import EngineError, NoAdapterError

if TYPE_CHECKING:
    from wgpu_engine.engine.rehearsal import Rehearsal
    from wgpu_engine.files.survey import Survey
    from wgpu_engine.gpu.device import AdapterInfo
    from wgpu_engine.text.vocabulary import Vocabulary

EXIT_OBSTACLES = 2
_KINDS = {"gpt2": "byte-level BPE", "llama": "SentencePiece", "bert": "WordPiece"}


def info(options: ModelOptions, model: ModelName = "smollm2", as_json: AsJson = False) -> None:
    """Show what a model is, its tensors by type, and the memory it takes on the chosen adapter.

    Leaves with 0 where it will run. Where it won't, says which
    tensor or key stands in the way, and leaves with 2.

    Examples:
      wgpu-engine info smollm2
      wgpu-engine info ./model.gguf --ctx-size 8192 --kv-type f32
      wgpu-engine info smollm2 --json
    """
    from wgpu_engine.files.store import Store
    from wgpu_engine.files.survey import survey
    from wgpu_engine.platform.drive import drive

    with drive(survey(Store().find(model))) as file:
        if options.quantize is not None:
            _quantize(file, options.quantize)
        report = _describe(file, options)
    if as_json:
        terminal.write_json(report)
    else:
        print_report(report)
    if report["obstacles"]:
        raise typer.Exit(EXIT_OBSTACLES)


def _quantize(file: "Survey", name: str) -> None:
    from wgpu_engine.files.model_file import ModelFile
    from wgpu_engine.quantize.convert import writable
    from wgpu_engine.quantize.recipe import recipe

    model = ModelFile(file.path, file.metadata, file.tensors, tuple(file.sources))
    made = recipe(model, writable(name))
    file.tensors = made.file.tensors
    file.notes += tuple(made.notes)


def _describe(file: "Survey", options: ModelOptions) -> dict[str, Any]:
    from wgpu_engine.engine.rehearsal import Rehearsal, rehearse
    from wgpu_engine.platform.drive import drive

    adapter = _adapter(options)
    rehearsal = Rehearsal()
    if file.whole:
        rehearsal = drive(
            rehearse(
                file.metadata,
                file.tensors,
                file.unreadable,
                adapter,
                ctx_size=options.ctx_size,
                precision=options.precision,
                kv_type=options.kv_type,
            )
        )
    text = _text(file, rehearsal)
    memory = _memory(file, rehearsal, adapter, options)
    obstacles = [*file.obstacles, *rehearsal.obstacles, *text.obstacles]
    if memory and memory["refusal"]:
        obstacles.append(memory.pop("refusal"))
    architecture = _plain(file, "general.architecture")
    description = rehearsal.description
    return {
        "path": str(file.path),
        "kind": file.kind,
        "name": _plain(file, "general.name"),
        "architecture": architecture,
        "layers": description.layers if description else None,
        "width": description.width if description else None,
        "parameters": _parameters(file),
        "active_parameters": description.active_parameters if description else None,
        "encodes": description.encodes if description else None,
        "context": description.context if description else _plain(file, f"{architecture}.context_length"),
        "license": _plain(file, "general.license"),
        "file_bytes": file.file_bytes,
        "tensors": _types(file),
        "unused_tensors": rehearsal.unused,
        "tokenizer": text.tokenizer,
        "chat_template": text.template,
        "memory": memory,
        "dispatches_per_token": rehearsal.dispatches,
        "warnings": [*file.notes, *rehearsal.warnings],
        "supported": not obstacles,
        "obstacles": obstacles,
    }


def _types(file: "Survey") -> dict[str, dict[str, Any]]:
    """Count and bytes of the tensors of each type, the largest first; bytes are None where nobody knows."""
    counts, sizes = Counter(tensor.type.name for tensor in file.tensors.values()), Counter[str]()
    for tensor in file.tensors.values():
        sizes[tensor.type.name] += tensor.nbytes
    types: dict[str, dict[str, Any]] = {
        name: {"count": counts[name], "bytes": size} for name, size in sizes.most_common()
    }
    for name, count in Counter(tensor.type for tensor in file.unreadable).items():
        types[name] = {"count": count + counts[name], "bytes": file.sizes.get(name)}
    return types


def _parameters(file: "Survey") -> int:
    shapes = [tensor.shape for tensor in file.tensors.values()] + [tensor.shape for tensor in file.unreadable]
    return sum(map(prod, shapes))


@dataclass
class _Text:
    """What is known of tokenizer and chat template, and what is wrong with them."""

    tokenizer: dict[str, Any] | None
    template: dict[str, Any] | None
    obstacles: list[str]


def _text(file: "Survey", rehearsal: "Rehearsal") -> _Text:
    from wgpu_engine.platform.tokenizers_encoder import TokenizersEncoder
    from wgpu_engine.text.chat_template import ChatTemplate
    from wgpu_engine.text.hf_tokenizer import NoTokenizer
    from wgpu_engine.text.opening import open_tokenizer

    found = _Text(None, None, [])
    if not any(key.startswith("tokenizer.") for key in file.metadata):
        return found
    named = {
        "kind": _plain(file, "tokenizer.ggml.model"),
        "pre": _plain(file, "tokenizer.ggml.pre"),
        "tokens": None,
    }
    found.tokenizer = named
    vocabulary: Vocabulary | None = None
    size = rehearsal.description.vocab if rehearsal.description else _tokens(file)
    try:
        tokenizer = open_tokenizer(file.metadata, size, TokenizersEncoder)
        vocabulary = tokenizer.vocabulary
        none = isinstance(tokenizer, NoTokenizer)
        named["kind"] = "none" if none else _KINDS[vocabulary.kind]
        named["tokens"] = None if none else len(vocabulary)
    except EngineError as error:
        found.obstacles.append(str(error))
    try:
        template = (
            ChatTemplate.from_metadata(file.metadata, vocabulary)
            if vocabulary
            else ChatTemplate(str(file.metadata["tokenizer.chat_template"]))
            if "tokenizer.chat_template" in file.metadata
            else None
        )
        if template is not None:
            found.template = {"origin": template.origin, "tools": template.takes_tools}
    except EngineError as error:
        found.obstacles.append(str(error))
    return found


def _tokens(file: "Survey") -> int:
    tokens = file.metadata.get("tokenizer.ggml.tokens")
    return len(tokens) if isinstance(tokens, list) else 0


def _memory(
    file: "Survey", rehearsal: "Rehearsal", adapter: "AdapterInfo | None", options: ModelOptions
) -> dict[str, Any] | None:
    """Bytes that the model takes with these options, and those there are; `available` is None where nobody tells."""
    from wgpu_engine.engine.memory import check_budget, context_size, footprint, memory_budget, weight_bytes
    from wgpu_engine.errors import OutOfMemoryError, RequestError

    description = rehearsal.description
    if description is None or file.unreadable:
        return None
    try:
        ctx_size = context_size(description, options.ctx_size)
    except RequestError:
        # the rehearsal has said it
        return None
    weights = weight_bytes(file.tensors.values(), options.precision)
    need = footprint(description, weights, ctx_size, "f32" if description.encodes else options.kv_type)
    available = options.memory_budget or (memory_budget(adapter) if adapter else None)
    refusal = None
    try:
        check_budget(need, available, ctx_size)
    except OutOfMemoryError as error:
        refusal = str(error)
    return {
        "adapter": adapter.name if adapter else None,
        "ctx_size": ctx_size,
        "weights": need.weights,
        "kv": need.kv,
        "total": need.total,
        "available": available,
        "fits": None if available is None else refusal is None,
        "refusal": refusal,
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


def _plain(file: "Survey", key: str) -> str | int | None:
    """A text or number of the metadata; None where it is absent or something else."""
    value = file.metadata.get(key)
    return value if isinstance(value, str | int) else None
