"""What can be found out of a model on the disk that perhaps doesn't load: `info` says what stands in its way.

Nothing is raised for what a file holds; only one that can't be opened at all, or is no model, is an error.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from wgpu_engine.errors import EngineError
from wgpu_engine.files.gguf import TensorInfo, UnreadableTensor, survey_gguf
from wgpu_engine.files.gguf_window import Value
from wgpu_engine.files.hf_config import read_json
from wgpu_engine.files.hf_folder import open_folder
from wgpu_engine.files.model_file import open_model, part_names
from wgpu_engine.files.safetensors import read_safetensors
from wgpu_engine.platform.closing import Closing
from wgpu_engine.platform.file_source import FileSource
from wgpu_engine.platform.source import ModelSource

_CONFIG_BYTES = 1 << 24


@dataclass
class Survey(Closing):
    """A model's files. A context manager that closes them."""

    path: Path
    """the file, the first part, or the folder"""
    kind: str
    """GGUF or safetensors"""
    metadata: dict[str, Value] = field(default_factory=dict)
    tensors: dict[str, TensorInfo] = field(default_factory=dict)
    unreadable: list[UnreadableTensor] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    """bytes of tensors that are in `unreadable`, by type, where they are known"""
    file_bytes: int = 0
    obstacles: list[str] = field(default_factory=list)
    """sentences that say why it doesn't load"""
    notes: tuple[str, ...] = ()
    """sentences on what becomes of it where it does"""
    whole: bool = True
    """whether all tensors are known by name"""
    sources: list[ModelSource] = field(default_factory=list)

    def close(self) -> None:
        for source in self.sources:
            source.close()


async def survey(path: Path) -> Survey:
    """Looks at a GGUF file, at all parts of a split one, or at a folder of safetensors.

    Raises:
        ModelNotFoundError: no such file.
        ModelFileError: nothing of it can be read, since it is something else.
    """
    return await (_survey_folder(path) if path.is_dir() else _survey_gguf(path))


async def _survey_gguf(path: Path) -> Survey:
    names = part_names(path.name)
    paths = [path.with_name(name) for name in names]
    found = Survey(paths[0], "GGUF")
    faults: list[EngineError] = []
    try:
        for part in paths if path.exists() else [path]:
            if not part.exists() and part != path:
                found.whole = False
                continue
            found.sources.append(FileSource(part))
            read = await survey_gguf(found.sources[-1])
            if not read.version:
                raise read.faults[0]
            found.metadata = read.metadata | found.metadata
            found.tensors |= read.tensors
            found.unreadable += read.unreadable
            found.whole &= read.whole
            faults += read.faults
        found.file_bytes = sum(source.size for source in found.sources)
        found.obstacles += [*_by_type(found.unreadable), *map(str, faults)]
        await _open_too(found, path)
    except BaseException:
        found.close()
        raise
    return found


def _by_type(tensors: Sequence[UnreadableTensor]) -> Iterator[str]:
    """A sentence for each type, which names the first tensor of it."""
    for name in dict.fromkeys(tensor.type for tensor in tensors):
        first, *others = (tensor for tensor in tensors if tensor.type == name)
        yield str(first.fault) + (f" (and {len(others)} more of this type)" if others else "")


async def _open_too(found: Survey, path: Path) -> None:
    """Adds what is only found when parts are put together."""
    try:
        (await open_model(path)).close()
    except EngineError as error:
        if not any(said.startswith(str(error)) for said in found.obstacles):
            found.obstacles.append(str(error))


async def _survey_folder(path: Path) -> Survey:
    found = Survey(path, "safetensors")
    try:
        model = await open_folder(path)
    except EngineError as error:
        # what the folder says of itself, its files one by one
        config = await read_json(path / "config.json", _CONFIG_BYTES) if (path / "config.json").exists() else None
        if config is None:
            raise
        found.obstacles.append(str(error))
        found.whole = False
        await _list_files(found, config)
        return found
    found.metadata, found.tensors, found.sources = model.metadata, model.tensors, list(model.sources)
    found.file_bytes, found.notes = model.file_bytes, model.notes
    return found


async def _list_files(found: Survey, config: dict[str, object]) -> None:
    named = config.get("architectures")
    name = named[0] if isinstance(named, list) and named else config.get("model_type")
    found.metadata["general.name"] = found.path.resolve().name
    if isinstance(name, str):
        found.metadata["general.architecture"] = name
        context = config.get("max_position_embeddings")
        if isinstance(context, int):
            found.metadata[f"{name}.context_length"] = context
    for file in sorted(found.path.glob("*.safetensors")):
        try:
            with FileSource(file) as source:
                found.file_bytes += source.size
                for tensor in (await read_safetensors(source)).tensors.values():
                    found.unreadable.append(UnreadableTensor(tensor.name, tensor.dtype, tensor.shape))
                    found.sizes[tensor.dtype] = found.sizes.get(tensor.dtype, 0) + tensor.nbytes
        except EngineError as error:
            if str(error) not in found.obstacles:
                found.obstacles.append(str(error))
