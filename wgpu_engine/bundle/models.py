"""Models for a bundle: can a browser run them, what are they called, and what are their parts' hashes."""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wgpu_engine.bundle.page_encoder import PageEncoder
from wgpu_engine.engine.memory import context_size, footprint, weight_bytes
from wgpu_engine.engine.rehearsal import Rehearsal, rehearse
from wgpu_engine.errors import BundleError, EngineError, ModelFileError
from wgpu_engine.files import catalogue
from wgpu_engine.files.model_file import part_names
from wgpu_engine.files.store import Store
from wgpu_engine.files.survey import Survey, survey
from wgpu_engine.gpu.device import AdapterInfo, Limits
from wgpu_engine.platform.drive import drive
from wgpu_engine.text.opening import open_tokenizer

PART = 16 << 20
"""bytes of a file that the page fetches, checks and keeps at once"""
_BROWSER = AdapterInfo(0, "a browser's", "other", "WebGPU", "", limits=Limits(1 << 30, 1 << 30))
"""limits that browsers grant on today's graphics chips and on SwiftShader"""
_READ = 1 << 20
_LONGEST_TITLE = 80


@dataclass(frozen=True)
class BundleModel:
    """A model that goes into a bundle."""

    id: str
    """lower-case letters, digits, hyphens and dots; the name of its folder"""
    title: str
    license: str | None
    memory_bytes: int
    """on the adapter, with the context that the page asks for by default"""
    paths: tuple[Path, ...]
    """its files, in order"""

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return sum(path.stat().st_size for path in self.paths)

    def place(self, path: Path) -> str:
        """Where one of its files lies in the bundle."""
        return f"models/{self.id}/{_plain(path.name)}"


def choose(name: str, store: Store) -> BundleModel:
    """The model of that name in the store, or of that path.

    Raises:
        ModelNotFoundError: there is none.
        ModelFileError: it is damaged, or no GGUF file.
        BundleError: a browser can't run it; the sentence says why.
    """
    path = store.find(name)
    if path.suffix == ".safetensors" and not path.is_dir():
        folder = path.parent
        raise ModelFileError(
            f"{path} is a safetensors file, and browsers load GGUF files: write one from its folder with "
            f"`wgpu-engine quantize {folder} {_plain(path.stem)}.gguf Q8_0` and bundle that"
        )
    if path.is_dir():
        with drive(survey(path)) as file:
            if not file.obstacles and file.whole:
                _refuse_encoders(name, _rehearsed(file))
        raise ModelFileError(
            f"{path} is a folder, and browsers load GGUF files: write one with "
            f"`wgpu-engine quantize {name} {_plain(path.name)}.gguf Q8_0` and bundle that"
        )
    with drive(survey(path)) as file:
        memory = _memory(name, file)
        title, license = _known(file, "general.name"), _known(file, "general.license")
    entry = _entry(path)
    if entry:
        title, license = re.split("[,:]", entry.about)[0], entry.license
    paths = tuple(path.with_name(part) for part in part_names(path.name))
    stem = re.sub(r"-00001-of-\d{5}$", "", paths[0].name.removesuffix(".gguf"))
    return BundleModel(
        _plain(entry.name if entry else stem).lower(), (title or stem)[:_LONGEST_TITLE], license, memory, paths
    )


def copy_hashed(path: Path, target: Path, wrote: Callable[[int], None]) -> dict[str, Any]:
    """Copy a model's file, and tell its size and hashes as `bundle.json` does.

    Args:
        wrote: called with the count of bytes after each MiB.
    """
    whole, parts, part = hashlib.sha256(), [], hashlib.sha256()
    size = 0
    with path.open("rb") as source, target.open("wb") as copy:
        while data := source.read(_READ):
            copy.write(data)
            whole.update(data)
            part.update(data)
            size += len(data)
            if size % PART == 0:
                parts.append(part.hexdigest())
                part = hashlib.sha256()
            wrote(len(data))
    if size % PART:
        parts.append(part.hexdigest())
    return {"bytes": size, "sha256": whole.hexdigest(), "parts": parts}


def _entry(path: Path) -> catalogue.CatalogueEntry | None:
    """What the catalogue says of a file, wherever it lies."""
    for entry in catalogue.CATALOGUE:
        if entry.file == path.name and entry.size in (None, path.stat().st_size):
            return entry
    return None


def _memory(name: str, file: Survey) -> int:
    """Bytes that it takes on the adapter; raises BundleError for what stands in its way."""
    obstacles = list(file.obstacles)
    if file.whole and not obstacles:
        found = _rehearsed(file)
        obstacles += found.obstacles
        if found.description and not obstacles:
            _refuse_encoders(name, found)
            _check_tokenizer(name, file, found.description.vocab)
            weights = weight_bytes(file.tensors.values(), "fast")
            return footprint(found.description, weights, context_size(found.description, None), "f16").total
    raise BundleError(f"{name} can't go into a bundle: {obstacles[0] if obstacles else 'its tensors are not known'}")


def _rehearsed(file: Survey) -> Rehearsal:
    return drive(
        rehearse(file.metadata, file.tensors, file.unreadable, _BROWSER, ctx_size=None, precision="fast", kv_type="f16")
    )


def _refuse_encoders(name: str, found: Rehearsal) -> None:
    if found.description and found.description.encodes:
        raise BundleError(f"{name} makes embeddings, and the page is for chatting: choose a language model")


def _check_tokenizer(name: str, file: Survey, vocab: int) -> None:
    try:
        open_tokenizer(file.metadata, vocab, PageEncoder)
    except EngineError as error:
        raise BundleError(f"{name} can't go into a bundle: {error}") from error


def _known(file: Survey, key: str) -> str | None:
    """A text of the metadata without control characters; None where it is absent or something else."""
    value = file.metadata.get(key)
    return " ".join("".join(c if c.isprintable() else " " for c in value).split()) if isinstance(value, str) else None


def _plain(name: str) -> str:
    """`name` in letters that need no escaping in a URL and are allowed in every file system."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "model"
