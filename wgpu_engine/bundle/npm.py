"""Files out of npm packages: pinned by hash, fetched by npm, unpacked by names that we chose."""

import base64
import binascii
import hashlib
import json
import os
import tarfile
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from wgpu_engine.bundle import nodejs
from wgpu_engine.errors import BundleError

PACKAGES = Path(__file__).with_name("packages.json")
MAX_FILE = 64 << 20
"""bytes; the largest file that is wanted has 10 MB"""
MAX_TARBALL = 256 << 20
TIMEOUT_S = 600


@dataclass(frozen=True)
class PackageFile:
    """A file of a package: where it lies in there, what it is called with us, and what it has to hold."""

    source: str
    name: str
    sha256: str

    def is_in(self, folder: Path) -> bool:
        """Whether `folder` has the file, whole."""
        path = folder / self.name
        return path.is_file() and sha256_of(path.read_bytes()) == self.sha256


@dataclass(frozen=True)
class Package:
    """An npm package of one version, with the files wanted of it."""

    name: str
    version: str
    license: str
    integrity: str
    """of the tarball, as npm writes it: sha512- and base64"""
    files: tuple[PackageFile, ...]

    @property
    def spec(self) -> str:
        """As npm takes it."""
        return f"{self.name}@{self.version}"

    def is_in(self, folder: Path) -> bool:
        """Whether `folder` has all files of it."""
        return all(file.is_in(folder) for file in self.files)


def sha256_of(data: bytes) -> str:
    """SHA-256 in hex."""
    return hashlib.sha256(data).hexdigest()


def pinned(group: str) -> list[Package]:
    """The packages of a group: "web" (libraries of the page), "pyodide" or "tests"."""
    return [
        Package(
            entry["name"],
            entry["version"],
            entry["license"],
            entry["integrity"],
            tuple(PackageFile(file["source"], file["name"], file["sha256"]) for file in entry["files"]),
        )
        for entry in json.loads(PACKAGES.read_text())[group]
    ]


def fetch(packages: Iterable[Package], folder: Path, report: Callable[[str], None] = lambda spec: None) -> None:
    """Make `folder` hold the files of `packages`; what is there already, whole, is not fetched again.

    Args:
        report: called with name@version of each package before it is fetched.

    Raises:
        BundleError: npm is missing or failed, or what came isn't what was pinned.
    """
    for package in packages:
        if package.is_in(folder):
            continue
        report(package.spec)
        files = unpack(package, _pack(package))
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            write_whole(folder / name, data)


def unpack(package: Package, tarball: bytes) -> dict[str, bytes]:
    """The wanted files of a tarball, by the names that we give them.

    Raises:
        BundleError: the tarball is not the pinned one, or lacks a file, or has one twice or of a strange kind.
    """
    _check_integrity(package, tarball)
    wanted = {f"package/{file.source}": file for file in package.files}
    found: dict[str, bytes] = {}
    try:
        with tempfile.TemporaryFile() as spool:
            spool.write(tarball)
            spool.seek(0)
            with tarfile.open(fileobj=spool, mode="r:gz") as archive:
                for member in archive:
                    file = wanted.get(member.name)
                    if file is None:
                        continue
                    if not member.isreg() or member.size > MAX_FILE or file.name in found:
                        raise BundleError(_damaged(package, f"{member.name} is no plain file of a sensible size"))
                    content = archive.extractfile(member)
                    found[file.name] = content.read() if content else b""
    except (tarfile.TarError, OSError, EOFError, ValueError) as error:
        raise BundleError(_damaged(package, "it can't be unpacked")) from error
    for file in package.files:
        if file.name not in found:
            raise BundleError(_damaged(package, f"{file.source} is missing"))
        if sha256_of(found[file.name]) != file.sha256:
            raise BundleError(_damaged(package, f"{file.source} is another file than expected"))
    return found


def write_whole(path: Path, data: bytes) -> None:
    """Write a file in one go, so that it never stands there half written."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _pack(package: Package) -> bytes:
    """The tarball, as npm fetches it from wherever its own configuration says."""
    with tempfile.TemporaryDirectory(prefix="wgpu-engine-npm-") as folder:
        # in a folder of its own, since npm takes a package.json round it as a project
        run = nodejs.run("npm", ["pack", package.spec, "--ignore-scripts", "--silent"], Path(folder), TIMEOUT_S)
        tarballs = list(Path(folder).glob("*.tgz"))
        if run.returncode or len(tarballs) != 1:
            said = " ".join((run.stderr or run.stdout).split())[-300:] or "it said nothing"
            raise BundleError(
                f"npm could not fetch {package.spec} ({said}): check the network and npm's settings with `npm ping`."
            )
        if tarballs[0].stat().st_size > MAX_TARBALL:
            raise BundleError(_damaged(package, "it is far too large"))
        return tarballs[0].read_bytes()


def _check_integrity(package: Package, tarball: bytes) -> None:
    kind, _, encoded = package.integrity.partition("-")
    try:
        expected = base64.b64decode(encoded, validate=True)
    except binascii.Error as error:
        raise BundleError(_damaged(package, "its pinned hash can't be read")) from error
    if kind != "sha512" or hashlib.sha512(tarball).digest() != expected:
        raise BundleError(_damaged(package, "its hash is not the pinned one"))


def _damaged(package: Package, what: str) -> str:
    return f"What npm fetched as {package.spec} is not used, since {what}: check which registry npm is set to."
