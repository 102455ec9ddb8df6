"""`wgpu-engine bundle`: what it passes on, and what it tells."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import Result

from wgpu_engine.bundle.folder import Built, Kiosk, Part

Cli = Callable[..., Result]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What `build` was called with, in the place of building."""
    found: dict[str, Any] = {}

    def build(out: Path, models: list[Any], cache: Path, **options: Any) -> Built:
        found.update(out=out, models=models, **options)
        parts = [Part("page", 12, 3 << 20, 1 << 20), Part("models/m", 1, 5 << 20, None)]
        return Built(out, parts, ["it has no bytecode"])

    monkeypatch.setattr("wgpu_engine.bundle.folder.build", build)
    monkeypatch.setattr("wgpu_engine.bundle.models.choose", lambda name, store: SimpleNamespace(id=name))
    return found


def test_tells_what_it_wrote_and_what_to_do_next(cli: Cli, asked: dict[str, Any], tmp_path: Path) -> None:
    result = cli("bundle", str(tmp_path / "out"), "--model", "a", "--model", "b", "--title", "T")
    assert result.exit_code == 0, result.stderr
    assert [model.id for model in asked["models"]] == ["a", "b"]
    assert (asked["title"], asked["kiosk"], asked["pyodide_dir"]) == ("T", None, None)
    assert "3.0 MiB" in result.stdout and "without models visitors fetch 1.0 MiB once" in result.stdout
    assert f"python3 -m http.server 8000 --directory {tmp_path / 'out'}" in result.stdout
    assert result.stderr == "note: it has no bytecode\n"


def test_a_kiosk(cli: Cli, asked: dict[str, Any], tmp_path: Path) -> None:
    result = cli(
        "bundle", str(tmp_path), "--kiosk", "--title", "Museum", "--system-prompt", "Be brief.", "--idle-reset", "60"
    )
    assert result.exit_code == 0, result.stderr
    assert asked["kiosk"] == Kiosk("Museum", "Be brief.", 60)


def test_a_kiosk_waits_two_minutes(cli: Cli, asked: dict[str, Any], tmp_path: Path) -> None:
    assert cli("bundle", str(tmp_path), "--kiosk").exit_code == 0
    assert asked["kiosk"] == Kiosk("wgpu_engine", None, 120)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--system-prompt", "x"], "are for a kiosk: add --kiosk"),
        (["--idle-reset", "60"], "are for a kiosk: add --kiosk"),
        (["--title", "  "], "--title is empty"),
        (["--kiosk", "--idle-reset", "1"], "--idle-reset"),
    ],
)
def test_refuses(cli: Cli, asked: dict[str, Any], tmp_path: Path, options: list[str], said: str) -> None:
    result = cli("bundle", str(tmp_path), *options)
    assert result.exit_code == 2
    assert said in result.stderr
    assert not asked


def test_errors_are_one_sentence(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    result = cli("bundle", str(tmp_path))
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ") and "holds thesis.txt" in result.stderr
    assert result.stderr.count("\n") == 1
