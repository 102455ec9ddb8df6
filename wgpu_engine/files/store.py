"""The model store: GGUF files, and folders of safetensors, each with a small record of where it came from.

Nothing is ever changed in place: files and records are written beside their final name and renamed, so that an
interruption at any moment leaves the store sound.
"""

import json
import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from wgpu_engine.errors import EngineError, ModelNotFoundError, RequestError
from wgpu_engine.files import catalogue
from wgpu_engine.files.model_file import part_names

HOME_VARIABLE = "WGPU_ENGINE_HOME"
SUFFIX = ".gguf"
PARTIAL = ".part"
_CONFIG = "config.json"
_NAME = re.compile(r"[^\W_][\w.+@=,() -]{0,199}")


@dataclass(frozen=True)
class Record:
    """What is known of a file, or of a folder, since it was fetched."""

    size: int
    """bytes, of all files"""
    sha256: str
    """of a folder: that of the lines `sha256sum` would print for its files"""
    source: str


@dataclass(frozen=True)
class StoredModel:
    """A model in the store."""

    name: str
    """the file's name without `.gguf`, or the folder's"""
    path: Path
    """the file, the first part, or the folder"""
    size: int
    """bytes, of all parts"""
    sha256: str | None
    """as in its record; None where there is none"""
    source: str | None
    modified: datetime


class Store:
    """Models by name.

    Args:
        home: the folder; by default `WGPU_ENGINE_HOME`, else the user's cache folder. Made when first written to.
    """

    def __init__(self, home: Path | None = None) -> None:
        self.home = home or _default_home()
        self.folder = self.home / "models"

    def models(self) -> list[StoredModel]:
        """All models, by name. A split model counts once, and only when all its parts are there.

        A folder is a model if it holds config.json.
        """
        found = []
        for path in sorted(self.folder.glob("*"), key=lambda path: path.name.lower()):
            try:
                if path.is_dir():
                    if PARTIAL in path.suffixes or not _NAME.fullmatch(path.name) or not (path / _CONFIG).exists():
                        continue
                    parts = [file for file in path.rglob("*") if file.is_file()]
                else:
                    parts = self._parts(path)
                    if path.suffix != SUFFIX or path != parts[0]:
                        continue
                status = [part.stat() for part in parts]
            except OSError:
                continue
            record = self.record(path.name)
            found.append(
                StoredModel(
                    name=_model_name(path),
                    path=path,
                    size=sum(stat.st_size for stat in status),
                    sha256=record.sha256 if record else None,
                    source=record.source if record else None,
                    modified=datetime.fromtimestamp(max(stat.st_mtime for stat in status), UTC),
                )
            )
        return found

    def path_for(self, name: str, suffix: str = SUFFIX) -> Path:
        """Where a file of that name is kept, whether it is there or not; `.gguf` may be left out.

        Args:
            suffix: nothing for a folder.

        Raises:
            RequestError: not a name, but a path or something worse.
        """
        if not _NAME.fullmatch(name):
            raise RequestError(f"{name!r:.80} can't be a model's name: letters, digits and .-_+ are allowed")
        return self.folder / (name if name.endswith(suffix) else name + suffix)

    def place_of(self, entry: catalogue.CatalogueEntry) -> Path:
        """Where a model of the catalogue is kept, whether it is there or not."""
        return self.path_for(entry.file, "" if isinstance(entry.source, catalogue.PackageFolder) else SUFFIX)

    def find(self, name_or_path: str | Path) -> Path:
        """The file or folder of a model: a path that exists, a name in the store, or one of the catalogue once pulled.

        Raises:
            ModelNotFoundError: neither; the message says how to get it.
        """
        path = Path(name_or_path)
        if _exists(path) and not path.is_dir():
            return path
        name = str(name_or_path)
        stored = self._stored(name)
        if stored is not None:
            return stored.path
        if name and _exists(path):
            return path
        if catalogue.lookup(name) or name.startswith(("hf:", "https://", "http://")):
            raise ModelNotFoundError(f"{name} hasn't been pulled yet: run `wgpu-engine pull {name}`")
        if isinstance(name_or_path, Path) or path.name != name:
            raise ModelNotFoundError(f"there is no file {name}: check the path")
        raise ModelNotFoundError(f"there is no model {name!r:.200}: {self._advice(name)}")

    def remove(self, name: str) -> None:
        """Delete a model, its records and what is left of an interrupted download of it.

        Raises:
            ModelNotFoundError: the store has no such model.
        """
        entry = catalogue.lookup(name)
        stored = self._stored(name)
        if stored is None and not _NAME.fullmatch(name):
            raise ModelNotFoundError(f"there is no model {name!r:.200} in the store: `wgpu-engine list` shows what is")
        if stored:
            places = self._parts(stored.path)
        elif entry:
            places = self._parts(self.place_of(entry))
        else:
            places = [*self._parts(self.path_for(name)), self.path_for(name, "")]
        gone = False
        for part in places:
            # The record last, so that an interruption leaves nothing that a second call would not find.
            for victim in (part, *part.parent.glob(part.name + PARTIAL + "*"), record_path(part)):
                try:
                    if victim.is_symlink() or not victim.is_dir():
                        victim.unlink()
                    elif victim != part:
                        shutil.rmtree(victim)
                    elif stored or entry:
                        discard_folder(victim)
                    else:
                        continue  # no model is in that folder
                    gone = True
                except FileNotFoundError:
                    pass
                except OSError as error:
                    raise EngineError(f"{victim} can't be deleted ({error.strerror}): check its permissions") from error
        if not gone:
            raise ModelNotFoundError(f"there is no model {name!r:.200} in the store: `wgpu-engine list` shows what is")

    def record(self, file: str) -> Record | None:
        """What is known of a file in the store; None where its record is absent or unreadable."""
        fields = read_record(record_path(self.folder / file))
        try:
            return Record(int(fields["size"]), str(fields["sha256"]), str(fields["source"]))
        except (KeyError, TypeError, ValueError):
            return None

    def register(self, file: str, record: Record) -> None:
        """Remember where a file came from."""
        write_record(record_path(self.folder / file), vars(record))

    def _parts(self, path: Path) -> list[Path]:
        return [path.with_name(part) for part in part_names(path.name)]

    def _stored(self, name: str) -> StoredModel | None:
        """The model that a name, an alias, a file's name or a source means, in any case."""
        models = self.models()
        entry = catalogue.lookup(name)
        wanted = {name, name.removesuffix(SUFFIX)} | ({entry.file.removesuffix(SUFFIX)} if entry else set())
        lowered = {key.lower() for key in wanted}
        for model in models:
            if model.path.name == (entry.file if entry else name):
                return model
        for model in models:
            if model.name in wanted or model.source == name:
                return model
        for model in models:
            stem = re.sub(r"-00001-of-\d{5}$", "", model.name)
            if model.name.lower() in lowered or stem.lower() in lowered:
                return model
        return None

    def _advice(self, name: str) -> str:
        known = {model.name for model in self.models()} | set(catalogue.names())
        close = get_close_matches(name.removesuffix(SUFFIX).lower(), [key.lower() for key in known], n=2, cutoff=0.5)
        matches = [key for key in sorted(known) if key.lower() in close]
        if matches:
            return f"did you mean {' or '.join(matches)}? (`wgpu-engine pull NAME` fetches what isn't in the store yet)"
        return f"pull one with `wgpu-engine pull NAME` (such as {', '.join(catalogue.names())}) or give a file's path"


def discard_folder(folder: Path) -> None:
    """Delete a folder; under another name first, so that an interruption leaves no half of a model."""
    gone = folder.with_name(folder.name + PARTIAL + ".gone")
    if gone.exists():
        shutil.rmtree(gone)
    shutil.rmtree(folder.replace(gone))


def partial_path(path: Path) -> Path:
    """Where a file grows while it is fetched."""
    return path.with_name(path.name + PARTIAL)


def record_path(path: Path) -> Path:
    return path.with_name(path.name + ".json")


def read_record(path: Path) -> dict[str, Any]:
    """The fields of a record; none where there is no readable one."""
    try:
        fields = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


def write_record(path: Path, fields: dict[str, Any]) -> None:
    """Write a record whole or not at all."""
    handle, temporary = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "w") as file:
            json.dump(fields, file)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _model_name(path: Path) -> str:
    return path.name if path.is_dir() else path.name.removesuffix(SUFFIX)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _default_home() -> Path:
    if home := os.environ.get(HOME_VARIABLE):
        return Path(home).expanduser()
    from platformdirs import user_cache_path

    return user_cache_path("wgpu_engine")
