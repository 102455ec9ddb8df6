"""Opens a model, whichever kind of files it is in."""

from pathlib import Path

from wgpu_engine.files.hf_folder import open_folder
from wgpu_engine.files.model_file import ModelFile, open_model


async def open_any(path: Path) -> ModelFile:
    """Open a GGUF file, or a folder of safetensors; raises as `open_model` and `open_folder` do."""
    return await (open_folder(path) if path.is_dir() else open_model(path))
