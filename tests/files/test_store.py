import json
from collections.abc import Callable
from pathlib import Path

import pytest

from wgpu_engine.errors import ModelNotFoundError, RequestError
from wgpu_engine.files.catalogue import CATALOGUE, DEFAULT_MODEL, PackageFolder, lookup
from wgpu_engine.files.store import Record, Store, partial_path, record_path, write_record


@pytest.fixture
def put(store: Store) -> Callable[..., Path]:
    """Puts a file into the store, with a record if a source is given."""

    def into_store(file: str, source: str | None = None, size: int = 3) -> Path:
        store.folder.mkdir(parents=True, exist_ok=True)
        path = store.folder / file
        path.write_bytes(bytes(size))
        if source is not None:
            store.register(file, Record(size, "0" * 64, source))
        return path

    return into_store


def test_home_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WGPU_ENGINE_HOME", str(tmp_path / "elsewhere"))
    assert Store().home == tmp_path / "elsewhere"
    monkeypatch.delenv("WGPU_ENGINE_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert Store().home.name == "wgpu_engine"
    assert not Store().home.is_relative_to(tmp_path / "elsewhere")


def test_lists_nothing_before_anything_was_pulled(store: Store) -> None:
    assert store.models() == []
    assert not store.home.exists()


def test_lists_models(store: Store, put: Callable[..., Path]) -> None:
    put("b.Q4_0.gguf", "hf:org/repo/b.Q4_0.gguf")
    put("A.gguf")
    put("a.gguf.part")
    put("notes.txt")
    first, second = store.models()
    assert (first.name, first.size, first.sha256, first.source) == ("A", 3, None, None)
    assert (second.name, second.sha256, second.source) == ("b.Q4_0", "0" * 64, "hf:org/repo/b.Q4_0.gguf")
    assert second.path == store.path_for("b.Q4_0")
    assert second.modified.timestamp() == pytest.approx(second.path.stat().st_mtime)


def test_counts_a_split_model_once_and_whole(store: Store, put: Callable[..., Path]) -> None:
    put("m-00001-of-00002.gguf", "hf:o/r/m-00001-of-00002.gguf", size=5)
    assert store.models() == []
    put("m-00002-of-00002.gguf", size=7)
    (model,) = store.models()
    assert (model.name, model.size) == ("m-00001-of-00002", 12)
    assert store.find("m") == store.find("M-00001-of-00002.gguf") == model.path


def test_finds_by_path_and_name(store: Store, put: Callable[..., Path], tmp_path: Path) -> None:
    path = put("Some-Model.Q4_0.gguf", "hf:org/repo/Some-Model.Q4_0.gguf")
    for name in ("Some-Model.Q4_0", "Some-Model.Q4_0.gguf", "some-model.q4_0", "hf:org/repo/Some-Model.Q4_0.gguf"):
        assert store.find(name) == path
    lying_about = tmp_path / "mine.gguf"
    lying_about.touch()
    assert store.find(lying_about) == store.find(str(lying_about)) == lying_about
    assert store.find(tmp_path) == tmp_path


def test_finds_by_the_catalogues_names(store: Store, put: Callable[..., Path]) -> None:
    entry = lookup(DEFAULT_MODEL)
    assert entry is not None
    with pytest.raises(ModelNotFoundError, match="hasn't been pulled yet: run `wgpu-engine pull smollm2`"):
        store.find("smollm2")
    path = put(entry.file)
    for name in (entry.name, *entry.aliases, entry.name.upper()):
        assert store.find(name) == path


def test_says_what_to_do_about_an_unknown_name(store: Store, put: Callable[..., Path]) -> None:
    put("tiny-stories.gguf")
    with pytest.raises(ModelNotFoundError, match="did you mean smollm2"):
        store.find("smolm2")
    with pytest.raises(ModelNotFoundError, match="did you mean tiny-stories"):
        store.find("tinystories")
    with pytest.raises(ModelNotFoundError, match="pull one with `wgpu-engine pull NAME`"):
        store.find("zzz")
    with pytest.raises(ModelNotFoundError, match=r"there is no file ./zzz.gguf: check the path"):
        store.find("./zzz.gguf")
    with pytest.raises(ModelNotFoundError, match=r"run `wgpu-engine pull hf:org/repo/x.gguf`"):
        store.find("hf:org/repo/x.gguf")
    for hostile in ("", "a\0b", "x" * 5000):
        with pytest.raises(ModelNotFoundError):
            store.find(hostile)


@pytest.mark.parametrize(
    "name", ["../x", "a/b", "a\\b", "..", ".", "", ".hidden", "a\0", "a\nb", "/etc/x", "C:x", "x" * 300]
)
def test_refuses_names_that_are_paths(store: Store, put: Callable[..., Path], name: str) -> None:
    outside = put("x.gguf").parent.parent / "x.gguf"
    outside.touch()
    with pytest.raises(RequestError, match="can't be a model's name"):
        store.path_for(name)
    with pytest.raises(ModelNotFoundError):
        store.remove(name)
    assert outside.exists()


def test_removes_a_model_and_all_that_belongs_to_it(store: Store, put: Callable[..., Path]) -> None:
    kept = put("m2.gguf", "hf:o/r/m2.gguf")
    for number in (1, 2):
        path = put(f"m-0000{number}-of-00002.gguf", "hf:o/r/m")
        partial_path(path).touch()
        write_record(record_path(partial_path(path)), {})
        Path(f"{partial_path(path)}.pip").mkdir()
        (Path(f"{partial_path(path)}.pip") / "x.whl").touch()
    store.remove("m")
    assert {path.name for path in store.folder.iterdir()} == {kept.name, record_path(kept).name}
    with pytest.raises(ModelNotFoundError, match="`wgpu-engine list` shows"):
        store.remove("m")


@pytest.fixture
def put_folder(store: Store) -> Callable[..., Path]:
    """Puts a folder with config.json into the store."""

    def into_store(name: str, source: str | None = None) -> Path:
        path = store.folder / name
        (path / "deep").mkdir(parents=True)
        (path / "config.json").write_bytes(b"{}")
        (path / "deep" / "weights").write_bytes(bytes(5))
        if source is not None:
            store.register(name, Record(7, "1" * 64, source))
        return path

    return into_store


def test_folders_are_models_too(store: Store, put: Callable[..., Path], put_folder: Callable[..., Path]) -> None:
    path = put_folder("Model-v2.5", "pypi:x/y")
    put("model-v2.5.gguf")
    (store.folder / "empty").mkdir()
    for name in (".hidden", "m.part", "m.part.gone", "m.gguf.part.pip"):
        put_folder(name)
    folder, file = store.models()
    assert (folder.name, folder.path, folder.size, folder.source) == ("Model-v2.5", path, 7, "pypi:x/y")
    assert file.path.is_file()
    assert store.find("Model-v2.5") == store.find("pypi:x/y") == path
    assert store.find("model-v2.5") == store.find("model-v2.5.gguf") == file.path


def test_removes_a_folder_and_nothing_else(
    store: Store, put: Callable[..., Path], put_folder: Callable[..., Path]
) -> None:
    path = put_folder("Mine", "pypi:x/y")
    other = put_folder("Mine2")
    put_folder("Mine.part")
    put_folder("Mine.part.gone")
    store.remove("mine")
    assert not record_path(path).exists() and list(store.folder.iterdir()) == [other]
    # A removal that was interrupted can be ended by the same name.
    put_folder("Mine.part.gone")
    store.remove("Mine")
    assert list(store.folder.iterdir()) == [other]
    (other / "config.json").unlink()
    with pytest.raises(ModelNotFoundError, match="`wgpu-engine list` shows"):
        store.remove("Mine2")
    assert (other / "deep" / "weights").exists()


def test_a_link_to_a_folder_is_removed_alone(store: Store, put_folder: Callable[..., Path], tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    put_folder("x").rename(outside)
    (store.folder / "link").symlink_to(outside)
    assert [model.size for model in store.models()] == [7]
    store.remove("link")
    assert list(store.folder.iterdir()) == [] and (outside / "config.json").exists()


def test_removes_an_interrupted_download(store: Store, put: Callable[..., Path]) -> None:
    entry = lookup(DEFAULT_MODEL)
    assert entry is not None
    put(entry.file + ".part")
    store.remove(DEFAULT_MODEL)
    assert list(store.folder.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"size": "x"}', b'{"size": 1}', b"\xff", b"[" * 100_000])
def test_lives_with_a_spoilt_record(store: Store, put: Callable[..., Path], content: bytes) -> None:
    path = put("m.gguf")
    record_path(path).write_bytes(content)
    assert store.record("m.gguf") is None
    assert [model.sha256 for model in store.models()] == [None]


def test_writes_records_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    write_record(path, {"a": 1})
    with pytest.raises(TypeError):
        write_record(path, {"a": 2, "b": object()})
    assert json.loads(path.read_text()) == {"a": 1}
    assert [file.name for file in tmp_path.iterdir()] == ["record.json"]


def test_the_catalogue_is_consistent(store: Store) -> None:
    names = [name for entry in CATALOGUE for name in (entry.name, *entry.aliases)]
    assert len(names) == len(set(names))
    assert names == [name.lower() for name in names]
    for entry in CATALOGUE:
        assert store.place_of(entry).name == entry.file
        if isinstance(entry.source, PackageFolder):
            assert all(".." not in file.name and not file.name.startswith("/") for file in entry.source.files)
