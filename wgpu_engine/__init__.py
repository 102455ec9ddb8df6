"""Language models on any WebGPU adapter, from Python and in the browser."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wgpu_engine.engine.llm import LLM

__version__ = "0.1.0"
__all__ = ["LLM", "__version__"]


def __getattr__(name: str) -> Any:
    # the browser imports this package without the libraries that LLM stands on
    if name == "LLM":
        from wgpu_engine.engine.llm import LLM

        return LLM
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
