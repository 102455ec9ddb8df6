"""`wgpu-engine quantize`: write a model with its weights in another type."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wgpu_engine.cli import terminal
from wgpu_engine.cli.progress import ProgressDisplay
from wgpu_engine.errors import EngineError, ModelFileError, RequestError

if TYPE_CHECKING:
    from wgpu_engine.files.model_file import ModelFile


def quantize(
    model: Annotated[
        str, typer.Argument(metavar="IN", help="A GGUF file, a model's folder, or a name that `list` shows.")
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The GGUF file to write.")],
    kind: Annotated[str, typer.Argument(metavar="TYPE", help="Of the weights, such as Q4_K, Q6_K, Q8_0 or BF16.")],
    pure: Annotated[
        bool, typer.Option("--pure", help="Embedding and output too, which otherwise get Q6_K below four bits.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace OUT if it exists.")] = False,
) -> None:
    """Write a GGUF file of a model with its weights in another type. Vectors and norms stay in float.

    Quantize from F32, F16 or BF16 where you can: what is quantized already loses a second time.
    A file made from a folder keeps its tokenizer.json, which this engine reads and others may not.

    Examples:
      wgpu-engine quantize ./Llama-folder llama-q4.gguf Q4_K
      wgpu-engine quantize model-f16.gguf model-q2.gguf Q2_K --pure
    """
    from wgpu_engine.files.opening import open_any
    from wgpu_engine.files.store import Store
    from wgpu_engine.platform.drive import drive
    from wgpu_engine.quantize.convert import writable
    from wgpu_engine.quantize.gguf_file import write_gguf
    from wgpu_engine.quantize.recipe import recipe

    target = writable(kind)
    if str(out) == "-":
        raise RequestError("a GGUF file can't be written to a pipe: give the name of a file")
    with drive(open_any(Store().find(model))) as file:
        if not any(len(tensor.shape) > 1 for tensor in file.tensors.values()):
            raise ModelFileError(f"{file.path} has no weights to quantize: give a file with a whole model")
        _warn_of_what_does_not_run(file)
        made = recipe(file, target, pure=pure, requantize=True)
        if made.requantized:
            terminal.note(
                f"warning: {made.requantized} tensors of {file.path} are quantized already and lose a second time: "
                "take the model in F16 or BF16 if you can"
            )
        with ProgressDisplay() as progress:
            write_gguf(made.file, out, target, progress, replace=force)
    for note in (*file.notes, *made.notes):
        terminal.note(note)
    size = out.stat().st_size
    weights = sum(tensor.rows * tensor.columns for tensor in made.file.tensors.values())
    terminal.note(f"{out} has {terminal.size(size)}, {8 * size / weights:.2f} bits a weight")


def _warn_of_what_does_not_run(file: "ModelFile") -> None:
    """Others may run it; we still write it."""
    from wgpu_engine.models.registry import describe

    try:
        describe(file.metadata, file.tensors)
    except EngineError as error:
        terminal.note(f"warning: what is written will not run here: {error}")
