"""Language models on any WebGPU adapter, from Python and in the browser."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wgpu_engine.engine.embedder import Embedder
    from wgpu_engine.engine.llm import LLM

__version__ = "0.1.0"
__all__ = ["LLM", "Embedder", "__version__"]


def __getattr__(name: str) -> Any:
    # the browser imports this package without the libraries that these stand on
    if name == "Embedder":
        from wgpu_engine.engine.embedder import Embedder

        return Embedder
    if name == "LLM":
        from wgpu_engine.engine.llm import LLM

        return LLM
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
