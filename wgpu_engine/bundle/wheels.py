"""Wheels of pure Python for Pyodide, made out of what is installed here; the same input gives the same bytes.

No registry is asked: what runs in the browser is what was installed and tested, and where a package has C extensions
(markupsafe has one, for speed), the wheel leaves them out, which no registry offers as a wheel.
"""

import base64
import hashlib
import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from pathlib import Path, PurePosixPath

import wgpu_engine
from wgpu_engine.errors import BundleError
from wgpu_engine.resources import resource_dir

NAME = "wgpu_engine"
LIBRARIES = ("jinja2", "markupsafe")
"""what the core needs beside the standard library"""
DESKTOP_ROOMS = frozenset({"cli", "server", "quantize", "bundle", "web", "shaders"})
"""left out; the last two are no code, and shaders come in from where the resource finder has them"""
DESKTOP_FILES = frozenset(  # and what can't load without them
    {
        "__main__.py",
        "gpu/native.py",
        "gpu/submission.py",
        "gpu/interruption.py",
        "platform/tokenizers_encoder.py",
        "engine/opening.py",
        "engine/service.py",
        "engine/llm.py",
        "engine/embedder.py",
        "engine/perplexity.py",
        "files/download.py",
        "files/fetch.py",
        "files/package.py",
    }
)
_LICENCES = ("licence", "license", "copying", "notice", "authors")
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""the earliest time that zip files can tell"""


@dataclass(frozen=True)
class Wheel:
    """A wheel of pure Python."""

    name: str
    """as the package is called, lower-case with hyphens"""
    version: str
    depends: tuple[str, ...]
    imports: tuple[str, ...]
    """top-level packages in it"""
    files: dict[str, bytes]
    """by their paths inside; without RECORD, which `data` adds"""

    @property
    def file_name(self) -> str:
        return f"{self.name.replace('-', '_')}-{self.version}-py3-none-any.whl"

    @cached_property
    def data(self) -> bytes:
        """The file itself."""
        record = next(name for name in self.files if name.endswith(".dist-info/METADATA")).replace("METADATA", "RECORD")
        lines = [f"{path},sha256={_record_hash(data)},{len(data)}\n" for path, data in self.files.items()]
        return packed({**self.files, record: "".join([*lines, f"{record},,\n"]).encode()})


def browser_wheels() -> list[Wheel]:
    """Our own wheel and those that it needs.

    Raises:
        BundleError: a package is not installed in a way that shows which files belong to it.
    """
    return [own_wheel(), *(library_wheel(name) for name in LIBRARIES)]


def own_wheel() -> Wheel:
    """The part of this package that browsers run, with the shaders."""
    package = Path(wgpu_engine.__file__).parent
    files = {}
    for path in sorted(package.rglob("*")):
        name = path.relative_to(package)
        if path.is_file() and not _is_desktop(PurePosixPath(name.as_posix())):
            files[f"{NAME}/{name.as_posix()}"] = path.read_bytes()
    shaders = resource_dir("shaders")
    for path in sorted(shaders.rglob("*.wgsl")):
        files[f"{NAME}/shaders/{path.relative_to(shaders).as_posix()}"] = path.read_bytes()
    about = (
        "Metadata-Version: 2.1\n"
        f"Name: {NAME}\n"
        f"Version: {wgpu_engine.__version__}\n"
        "Summary: The part of wgpu_engine that runs in browsers.\n"
        "License: Apache-2.0\n"
        "Requires-Dist: jinja2\n"
    )
    return _wheel(NAME, wgpu_engine.__version__, about.encode(), files, _licences(_distribution(NAME)), ("jinja2",))


def library_wheel(name: str) -> Wheel:
    """The Python files of an installed distribution.

    Raises:
        BundleError: it isn't installed, or nothing says which files belong to it.
    """
    distribution = _distribution(name)
    about = distribution.read_text("METADATA")
    files = {}
    for file in distribution.files or []:
        inside = len(file.parts) > 1 and ".." not in file.parts and not file.parts[0].endswith(".dist-info")
        if inside and (file.suffix == ".py" or file.name == "py.typed"):
            files[file.as_posix()] = Path(str(file.locate())).read_bytes()
    if not about or not files:
        raise BundleError(f"it can't be told which files belong to {name}: run `pip install --force-reinstall {name}`")
    needed = tuple(library for library in LIBRARIES if _requires(distribution, library))
    return _wheel(name, distribution.version, about.encode(), files, _licences(distribution), needed)


def packed(files: Mapping[str, bytes]) -> bytes:
    """A zip archive of `files`, the same bytes at any time."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, data in files.items():
            entry = zipfile.ZipInfo(path, _EPOCH)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED, compresslevel=9)
    return buffer.getvalue()


def _is_desktop(name: PurePosixPath) -> bool:
    return name.parts[0] in DESKTOP_ROOMS or str(name) in DESKTOP_FILES or "__pycache__" in name.parts


def _distribution(name: str) -> metadata.Distribution:
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError as error:
        raise BundleError(f"{name} is not installed: run `pip install {name}`.") from error


def _requires(distribution: metadata.Distribution, library: str) -> bool:
    """Whether it needs `library` without an extra."""
    return any(
        need.lower().replace("-", "_").startswith(library) and "extra" not in need
        for need in distribution.requires or []
    )


def _licences(distribution: metadata.Distribution) -> dict[str, bytes]:
    """The texts of a distribution's licences, by name."""
    found = {}
    for file in distribution.files or []:
        if file.parts[0].endswith(".dist-info") and file.name.lower().startswith(_LICENCES):
            path = Path(str(file.locate()))
            if path.is_file():
                found[file.name] = path.read_bytes()
    return found


def _wheel(
    name: str, version: str, about: bytes, files: dict[str, bytes], licences: dict[str, bytes], depends: tuple[str, ...]
) -> Wheel:
    info = f"{name}-{version}.dist-info"
    files = dict(sorted(files.items()))
    files[f"{info}/METADATA"] = about
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: wgpu-engine\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    for licence, text in licences.items():
        files[f"{info}/licenses/{licence}"] = text
    imports = tuple(sorted({path.split("/")[0] for path in files if not path.startswith(info)}))
    return Wheel(name.replace("_", "-"), version, depends, imports, files)


def _record_hash(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
