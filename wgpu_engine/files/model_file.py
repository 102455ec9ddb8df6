"""A model on the disk: one GGUF file, or one that was split into parts; a folder becomes the same (`hf_folder.py`)."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from wgpu_engine.errors import ModelFileError
from wgpu_engine.files.gguf import GGUF, TensorInfo, Value, read_gguf
from wgpu_engine.platform.closing import Closing
from wgpu_engine.platform.file_source import FileSource

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
    """the file, the first part, or the folder"""
    metadata: dict[str, Value]
    tensors: dict[str, TensorInfo]
    sources: tuple[FileSource, ...]
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

    def close(self) -> None:
        for source in self.sources:
            source.close()


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
    sources: list[FileSource] = []
    try:
        parts: list[GGUF] = []
        for part in paths if path.exists() else [path]:
            sources.append(FileSource(part))
            parts.append(await read_gguf(sources[-1]))
            _check_part(sources[-1].name, parts[-1], len(parts) - 1, len(paths))
        tensors = _join(sources, parts)
    except BaseException:
        for source in sources:
            source.close()
        raise
    return ModelFile(paths[0], parts[0].metadata, tensors, tuple(sources), parts[0].kinds)


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


def _join(sources: list[FileSource], parts: list[GGUF]) -> dict[str, TensorInfo]:
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
