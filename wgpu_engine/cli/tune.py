"""`wgpu-engine tune`: find the fastest kernels for a model on an adapter."""

from wgpu_engine.cli import terminal
from wgpu_engine.cli.loading import open_llm
from wgpu_engine.cli.options import ModelName, ModelOptions
from wgpu_engine.cli.progress import ProgressDisplay


def tune(options: ModelOptions, model: ModelName = "smollm2") -> None:
    """Time the variants of a model's kernels on this adapter, and keep the fastest for all later starts.

    The defaults suit most adapters of a kind; this measures yours. It takes a few seconds on a GPU.

    Examples:
      wgpu-engine tune smollm2
      wgpu-engine tune ./model.gguf --device 1
    """
    with open_llm(model, options) as llm:
        with ProgressDisplay() as progress:
            found = llm.tune(progress)
        rows = []
        for problem, variant in found.items():
            what = f"{problem.quant} {problem.features} x {problem.k}" + (", gated" if problem.ports == 2 else "")
            how = f"{variant.team} threads a feature" if variant.team else "a thread for 4 features"
            extra = [
                f"{variant.tile} row{'s' if variant.tile > 1 else ''} a thread",
                *(["shared loads"] if variant.share else []),
            ]
            rows.append((what, str(problem.columns), ", ".join([how, *extra])))
        terminal.console().print(terminal.table(["product", "rows", "fastest"], rows, right=["rows"]))
        terminal.note(f"Kept: models take these kernels on {llm.adapter.name} from now on.")
