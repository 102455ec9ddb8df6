"""A model in one GGUF file, or in one that was split into parts; a folder becomes the same (`hf_folder.py`)."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from wgpu_engine.errors import ModelFileError
from wgpu_engine.files.gguf import GGUF, TensorInfo, Value, read_gguf
from wgpu_engine.platform.closing import Closing
from wgpu_engine.platform.file_source import FileSource
from wgpu_engine.platform.source import ModelSource

_PART = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.ASCII)


def part_names(name: str) -> list[str]:
    """The file names of all parts of the model that `name` belongs to; `[name]` where it isn't a part."""
    match = _PART.fullmatch(name)
    if match is None or not 1 <= int(match["number"]) <= int(match["count"]):
        return [name]
    return [f"{match['stem']}-{i:05}-of-{match['count']}.gguf" for i in range(1, int(match["count"]) + 1)]


@dataclass(frozen=True)
class ModelFile(Closing):
    """An open model: its metadata, and where the bytes of each tensor are. A context manager that closes it."""

    path: Path
    """the file, the first part, or the folder; a name alone where the files are elsewhere"""
    metadata: dict[str, Value]
    tensors: dict[str, TensorInfo]
    sources: tuple[ModelSource, ...]
    kinds: dict[str, int] = field(default_factory=dict)
    """GGUF's id of each metadata value's type; empty where they don't come from GGUF"""
    notes: tuple[str, ...] = ()
    """what a user should know of it, a sentence each"""

    @property
    def file_bytes(self) -> int:
        return sum(source.size for source in self.sources)

    @property
    def tensor_bytes(self) -> int:
        return sum(tensor.nbytes for tensor in self.tensors.values())

    async def fetch(self) -> None:
        """Brings here what of the files is elsewhere, so that it is there when it is read. Raises as the sources do."""
        for source in self.sources:
            await source.fetch()

    def close(self) -> None:
        _close(self.sources)


async def open_model(path: Path) -> ModelFile:
    """Open a GGUF file; given any part of a split one, the others are found beside it.

    Raises:
        ModelNotFoundError: no such file.
        ModelFileError: a file is damaged, or a part is missing or of another model.
        UnsupportedModelError: this version can't read it.
    """
    paths = [path.with_name(name) for name in part_names(path.name)]
    if path.exists():
        missing = [part.name for part in paths if not part.exists()]
        if missing:
            raise ModelFileError(f"{path} is one of {len(paths)} parts: put {_some(missing)} into the same folder")
    return await _opened(map(FileSource, paths if path.exists() else [path]), len(paths), paths[0])


async def open_sources(sources: Sequence[ModelSource]) -> ModelFile:
    """Open a GGUF file, or all parts of a split one in any order, that are no files of this machine.

    Closing the model closes the sources; so does failing to open it.

    Raises:
        ModelFileError: a file is damaged, a part is missing, or they are of several models.
        UnsupportedModelError: this version can't read it.
    """
    by_name = {source.name: source for source in sources}
    names = part_names(next(iter(by_name), ""))
    try:
        if not sources or len(by_name) < len(sources) or not by_name.keys() <= set(names):
            raise ModelFileError("these files aren't of one model: choose one GGUF file, or all parts of a split one")
        missing = [name for name in names if name not in by_name]
        if missing:
            raise ModelFileError(f"{sources[0].name} is one of {len(names)} parts: add {_some(missing)}")
        return await _opened((by_name[name] for name in names), len(names), Path(names[0]))
    except BaseException:
        _close(sources)
        raise


async def _opened(sources: Iterable[ModelSource], count: int, path: Path) -> ModelFile:
    """The model in `count` files, which are closed where it can't be opened."""
    opened: list[ModelSource] = []
    try:
        parts: list[GGUF] = []
        for source in sources:
            opened.append(source)
            parts.append(await read_gguf(source))
            _check_part(source.name, parts[-1], len(parts) - 1, count)
        tensors = _join(opened, parts)
    except BaseException:
        _close(opened)
        raise
    return ModelFile(path, parts[0].metadata, tensors, tuple(opened), parts[0].kinds)


def _close(sources: Iterable[ModelSource]) -> None:
    for source in sources:
        source.close()


def _some(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{', '.join(names[:3])} and {len(names) - 3} more"


def _check_part(name: str, part: GGUF, number: int, count: int) -> None:
    """Compare what a file says of its place in a split model with its name; `number` counts from 0."""
    said_count = part.metadata.get("split.count", 0 if count > 1 else 1)
    said_number = part.metadata.get("split.no", 0)
    if count == 1 and isinstance(said_count, int) and said_count > 1:
        raise ModelFileError(
            f"{name} is one of {said_count} parts of a split model: give each its name back, as in "
            f"model-00001-of-{said_count:05}.gguf, in one folder"
        )
    if count > 1 and (said_count != count or said_number != number):
        raise ModelFileError(
            f"{name} isn't part {number + 1} of {count} by its own metadata: download the parts of one model again"
        )


def _join(sources: Sequence[ModelSource], parts: list[GGUF]) -> dict[str, TensorInfo]:
    tensors: dict[str, TensorInfo] = {}
    for source, part in zip(sources, parts, strict=True):
        twice = tensors.keys() & part.tensors.keys()
        if twice:
            raise ModelFileError(
                f"{source.name} repeats the tensor {min(twice)!r} of another part: download all parts again"
            )
        tensors |= part.tensors
    total = parts[0].metadata.get("split.tensors.count", len(tensors))
    if len(parts) > 1 and total != len(tensors):
        raise ModelFileError(
            f"{sources[0].name} and its other parts hold {len(tensors)} tensors instead of {total!r:.20}: download all "
            f"parts of one model again"
        )
    return tensors
