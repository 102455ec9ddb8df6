"""Opening a model for a command."""

from typing import TYPE_CHECKING

from wgpu_engine.cli import terminal
from wgpu_engine.cli.options import ModelOptions
from wgpu_engine.cli.progress import ProgressDisplay

if TYPE_CHECKING:
    from wgpu_engine.engine.llm import LLM


def open_llm(model: str, options: ModelOptions) -> "LLM":
    """Load `model` onto the chosen adapter, with progress bars; what is odd about it is said on stderr.

    Raises:
        EngineError: no such model, a damaged one, no adapter, or too little memory.
    """
    from wgpu_engine.engine.llm import LLM

    with ProgressDisplay() as progress:
        llm = LLM(model, **options.keywords(), progress=progress)
    for warning in llm.warnings:
        terminal.note(f"warning: {warning}")
    return llm
