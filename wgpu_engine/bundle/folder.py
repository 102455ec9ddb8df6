"""The self-contained folder: everything that a browser needs, to be put on any host of static files."""

import gzip
import json
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from wgpu_engine import __version__
from wgpu_engine.bundle.bytecode import LOCK, compiled
from wgpu_engine.bundle.lock import lock_file
from wgpu_engine.bundle.models import BundleModel, copy_hashed
from wgpu_engine.bundle.npm import Package, fetch, pinned, sha256_of
from wgpu_engine.bundle.page import MANIFEST, PRECACHE, manifest, page_files, precache
from wgpu_engine.bundle.wheels import browser_wheels
from wgpu_engine.errors import BundleError, RequestError

SUMS = "SHA256SUMS"
DESCRIPTION = "bundle.json"
TITLE = "wgpu_engine"
Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True)
class Kiosk:
    """How a page behaves that stands somewhere by itself."""

    title: str
    system_prompt: str | None
    idle_reset_s: int
    """seconds without a touch until the conversation is cleared"""


@dataclass(frozen=True)
class Part:
    """A folder of the bundle, for the table of what was written."""

    name: str
    files: int
    size: int
    """bytes"""
    gzipped: int | None
    """bytes as most servers send them; None for models, which hardly shrink"""


@dataclass(frozen=True)
class Built:
    """What came of it."""

    folder: Path
    parts: list[Part]
    notes: list[str]
    """what a user should know, a sentence each"""


def build(
    out: Path,
    models: Sequence[BundleModel],
    cache: Path,
    *,
    title: str | None = None,
    kiosk: Kiosk | None = None,
    pyodide_dir: Path | None = None,
    progress: Progress = lambda stage, done, total: None,
) -> Built:
    """Write a bundle into the folder `out`, which is new, empty or an earlier bundle; whole or not at all.

    Args:
        cache: where Pyodide and its bytecode are kept for the next time.
        pyodide_dir: a folder with Pyodide's files, of the pinned version; by default npm fetches them.

    Raises:
        BundleError: `out` holds something else, or a piece is missing.
        RequestError: two models of one name, or a kiosk without a model.
    """
    out = out.resolve()
    _check_out(out)
    ids = [model.id for model in models]
    if twice := {name for name in ids if ids.count(name) > 1}:
        raise RequestError(f"two models are called {min(twice)!r}: rename one of the files")
    if kiosk and not models:
        raise RequestError("a kiosk needs a model: give one with --model")
    files, notes = static_files(cache, pyodide_dir, progress)
    title = title or (kiosk.title if kiosk else TITLE)
    files[MANIFEST] = manifest(files[MANIFEST], title, kiosk is not None)
    out.parent.mkdir(parents=True, exist_ok=True)
    staged = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        entries = _copy_models(models, staged, progress)
        files[DESCRIPTION] = _json(
            {
                "engine": "browser",
                "version": __version__,
                "title": title,
                "kiosk": asdict(kiosk) if kiosk else None,
                "models": entries,
            }
        )
        files["README.txt"] = _README.encode()
        files[PRECACHE] = precache(files)
        sums = {path: sha256_of(data) for path, data in files.items()}
        sums |= {file["path"]: file["sha256"] for entry in entries for file in entry["files"]}
        files[SUMS] = "".join(f"{sum}  {path}\n" for path, sum in sorted(sums.items())).encode()
        for path, data in files.items():
            (staged / path).parent.mkdir(parents=True, exist_ok=True)
            (staged / path).write_bytes(data)
        staged.chmod(0o755)
        _swap(staged, out)
    except BaseException:
        shutil.rmtree(staged, ignore_errors=True)
        raise
    return Built(out, _parts(files, models), notes)


def static_files(
    cache: Path, pyodide_dir: Path | None = None, progress: Progress = lambda stage, done, total: None
) -> tuple[dict[str, bytes], list[str]]:
    """The page, Pyodide, our wheel and those that it needs, by path; and notes for the user.

    Raises:
        BundleError: a piece is missing or damaged.
    """
    notes = []
    core, wheels = _core(cache, pyodide_dir, progress), browser_wheels()
    progress("bytecode", 0, None)
    try:
        core, wheels = compiled(core, wheels, cache)
    except BundleError as error:
        notes.append(f"the page starts about two seconds later than it could, since it has no bytecode: {error}")
    progress("bytecode", 1, 1)
    files = page_files()
    for name, data in core.items():
        files[f"pyodide/{name}"] = data
    for wheel in wheels:
        files[f"pyodide/{wheel.file_name}"] = wheel.data
    files[f"pyodide/{LOCK}"] = lock_file(core[LOCK], wheels)
    return files, notes


def _core(cache: Path, given: Path | None, progress: Progress) -> dict[str, bytes]:
    """Pyodide's own files, checked."""
    (package,) = pinned("pyodide")
    folder = given or cache / f"pyodide-{package.version}"
    if given is None:
        progress("pyodide", 0, None)
        fetch([package], folder)
        progress("pyodide", 1, 1)
    else:
        _check_given(package, given)
    return {file.name: (folder / file.name).read_bytes() for file in package.files}


def _check_given(package: Package, folder: Path) -> None:
    for file in package.files:
        if not (folder / file.name).is_file():
            raise BundleError(
                f"{folder} has no {file.name}: give the folder of the npm package {package.spec}, or leave "
                "--pyodide-dir out"
            )
        if not file.is_in(folder):
            raise BundleError(
                f"{folder / file.name} is not that of Pyodide {package.version}: give the folder of the npm package "
                f"{package.spec}, or leave --pyodide-dir out"
            )


def _copy_models(models: Sequence[BundleModel], staged: Path, progress: Progress) -> list[dict[str, Any]]:
    """Models' entries in `bundle.json`, once they are copied."""
    total, done = sum(model.size for model in models), 0

    def wrote(count: int) -> None:
        nonlocal done
        done += count
        progress("models", done, total)

    entries = []
    for model in models:
        files = []
        for path in model.paths:
            target = staged / model.place(path)
            target.parent.mkdir(parents=True, exist_ok=True)
            files.append({"path": model.place(path), **copy_hashed(path, target, wrote)})
        entries.append(
            {
                "id": model.id,
                "title": model.title,
                "bytes": sum(file["bytes"] for file in files),
                "memory_bytes": model.memory_bytes,
                "license": model.license,
                "files": files,
            }
        )
    return entries


def _check_out(out: Path) -> None:
    """Raises BundleError unless `out` may be replaced: nothing that we didn't write is in there."""
    if not out.exists():
        return
    if not out.is_dir():
        raise BundleError(f"{out} is a file: give the name of a folder")
    listed = _listed(out)
    # of another folder the first entry will do: it may be large
    for path in out.rglob("*") if listed else out.iterdir():
        name = path.relative_to(out).as_posix()
        if name not in listed and (not listed or path.is_symlink() or not path.is_dir()):
            raise BundleError(
                f"{out} holds {name}, which is of no bundle: give a new folder, or one with a bundle and nothing else"
            )


def _listed(out: Path) -> set[str]:
    """The files of the bundle that `out` is; none if it isn't one."""
    try:
        engine = json.loads((out / DESCRIPTION).read_bytes())["engine"]
        lines = (out / SUMS).read_text().splitlines()
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return set()
    return {SUMS, *(line[66:] for line in lines)} if engine == "browser" else set()


def _swap(staged: Path, out: Path) -> None:
    """Puts `staged` in the place of `out`."""
    if not out.exists():
        staged.replace(out)
        return
    aside = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    old = aside / "old"
    try:
        try:
            out.replace(old)
        except OSError as error:
            raise BundleError(
                f"{out} can't be replaced ({error.strerror}): give a folder inside of it, or another place"
            ) from error
        try:
            staged.replace(out)
        except BaseException:
            old.replace(out)
            raise
    finally:
        if out.exists():  # else the earlier bundle is still in there
            shutil.rmtree(aside, ignore_errors=True)


def _parts(files: dict[str, bytes], models: Sequence[BundleModel]) -> list[Part]:
    kinds = {"page": [], "pyodide": [], "JavaScript libraries": []}  # type: dict[str, list[bytes]]
    for path, data in files.items():
        first = path.split("/")[0]
        kinds[{"pyodide": "pyodide", "vendor": "JavaScript libraries"}.get(first, "page")].append(data)
    parts = [
        Part(name, len(held), sum(map(len, held)), sum(len(gzip.compress(data)) for data in held))
        for name, held in kinds.items()
    ]
    return parts + [Part(f"models/{model.id}", len(model.paths), model.size, None) for model in models]


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=1, ensure_ascii=False).encode()


_README = f"""This folder is a web page that runs language models in the browser, on the visitor's own GPU.

It needs a host of static files and nothing else. Copy the whole folder there, as it is, into any path.

- Visitors need HTTPS, or localhost: browsers grant WebGPU and offline use nowhere else.
- Types (Content-Type): .js and .mjs as text/javascript, .wasm as application/wasm, .webmanifest as
  application/manifest+json. Most servers know them; the page does not start where .mjs is something else.
- Range requests let a broken download of a model go on where it stopped. Without them it starts again.
- Compression (gzip, brotli) of all but models/ makes the first visit quicker.
- After a change of the folder visitors get the new version, whole, the next time they load the page.

To try it on your own machine:  python3 -m http.server 8000  in this folder, then http://localhost:8000/

To check it:  sha256sum --check --quiet {SUMS}

What is in it: wgpu_engine (Apache-2.0); Pyodide in pyodide/ (MPL-2.0, the text is vendor/purify.LICENSE-MPL.txt; its
source is at https://github.com/pyodide/pyodide), which holds Python (PSF licence); Jinja2 and MarkupSafe (BSD-3-Clause,
texts in their wheels); the libraries in vendor/, each with its licence beside it; models in models/ under the licences
that {DESCRIPTION} names.
"""
