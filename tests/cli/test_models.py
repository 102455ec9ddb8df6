"""`wgpu-engine pull`, `list` and `rm`, on a store of the test's own."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from wgpu_engine.errors import DownloadError
from wgpu_engine.files.catalogue import CATALOGUE
from wgpu_engine.files.store import Store

Cli = Callable[..., Result]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Store:
    monkeypatch.setenv("WGPU_ENGINE_HOME", str(tmp_path))
    store = Store()
    store.folder.mkdir(parents=True)
    return store


def test_an_empty_store_says_so_and_what_can_be_pulled(cli: Cli, store: Store) -> None:
    result = cli("list", env={"COLUMNS": "160"})
    assert result.exit_code == 0 and "no models" in result.stdout
    assert all(entry.name in result.stdout for entry in CATALOGUE)
    assert json.loads(cli("list", "--json").stdout) == []


def test_lists_models_by_the_names_that_commands_take(cli: Cli, store: Store) -> None:
    (store.folder / CATALOGUE[0].file).write_bytes(b"x" * 2048)
    (store.folder / "mine[red].gguf").write_bytes(b"y")
    output = cli("list", env={"COLUMNS": "200"}).stdout
    assert "2.0 KiB" in output and "mine[red]" in output
    reports = json.loads(cli("list", "--json").stdout)
    assert [report["name"] for report in reports] == ["mine[red]", CATALOGUE[0].name]
    for report in reports:
        assert store.find(report["name"]) == Path(report["path"])


def test_folders_go_by_the_catalogues_name(cli: Cli, store: Store) -> None:
    folder = store.folder / "all-MiniLM-L6-v2"
    folder.mkdir()
    (folder / "config.json").write_bytes(b"{}")
    output = cli("list", env={"COLUMNS": "200"}).stdout
    listed, missing = output.split("Ready to pull by name")
    assert "minilm" in listed and "minilm" not in missing
    (report,) = json.loads(cli("list", "--json").stdout)
    assert (report["name"], report["path"], report["size"]) == ("minilm", str(folder), 2)
    assert cli("rm", "minilm").stderr == "removed minilm\n"
    assert not folder.exists()


def test_rm_deletes(cli: Cli, store: Store) -> None:
    for name in ("a", "b"):
        (store.folder / f"{name}.gguf").write_bytes(b"x")
    result = cli("rm", "a", "b")
    assert result.exit_code == 0 and result.stderr == "removed a\nremoved b\n"
    assert store.models() == []
    result = cli("rm", "a")
    assert result.exit_code == 2 and result.stderr.startswith("error: there is no model 'a'")


def test_pull_hands_over_to_the_download(cli: Cli, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def pull(source: str, into: Store, progress: Callable[[str, int, int | None], None]) -> Path:
        assert into.home == store.home
        progress("download", 1, 2)
        if source == "bad":
            raise DownloadError("it can't be fetched: check the network")
        return into.folder / "x.gguf"

    monkeypatch.setattr("wgpu_engine.files.download.pull", pull)
    result = cli("pull")
    assert result.exit_code == 0 and result.stdout == ""
    assert result.stderr == f"smollm2 is in {store.folder}/x.gguf\n"
    result = cli("pull", "bad")
    assert (result.exit_code, result.stderr) == (2, "error: it can't be fetched: check the network\n")
