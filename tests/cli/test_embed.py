"""`wgpu-engine embed`, with a stand-in for the engine."""

import json
import sys
import warnings
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import Result

Cli = Callable[..., Result]


class FakeEmbedder:
    asked: list[Any]

    def __init__(self, model: str, *, progress: Any = None, **options: Any) -> None:
        self.asked.append((model, options))
        progress("weights", 1, 2)
        self.adapter = SimpleNamespace(name="Fake GPU")
        self.warnings = ["odd weights"]

    def embed(self, texts: list[str], progress: Any) -> Any:
        self.asked.append(texts)
        progress("texts", 1, len(texts))
        if "long" in texts:
            warnings.warn("1 of 2 texts is long", stacklevel=1)
        return np.array([[len(text) / 3, 0.1, -1.0] for text in texts], np.float32)

    def __enter__(self) -> "FakeEmbedder":
        return self

    def __exit__(self, *_: object) -> None:
        self.asked.append("closed")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the stand-in was asked for."""
    made = type("Embedder", (FakeEmbedder,), {"asked": []})
    module = ModuleType("wgpu_engine.engine.embedder")
    module.Embedder = made  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wgpu_engine.engine.embedder", module)
    return made.asked


def test_a_line_for_each_text(cli: Cli, asked: list[Any]) -> None:
    result = cli("embed", "minilm", "a", "words", "--device", "1", "--precision", "exact")
    assert result.exit_code == 0
    assert result.stdout == "0.333333343 0.100000001 -1.0\n1.66666663 0.100000001 -1.0\n"
    assert result.stderr == "warning: odd weights\n"
    options = {"device": "1", "precision": "exact", "memory_budget": None}
    assert asked == [("minilm", options), ["a", "words"], "closed"]


def test_lines_of_a_pipe_as_json(cli: Cli, asked: list[Any]) -> None:
    result = cli("embed", "minilm", "--json", input="Zwölf\n\nlong\n")
    assert asked[1] == ["Zwölf", "", "long"]
    report = json.loads(result.stdout)
    assert (report["model"], report["adapter"], report["width"]) == ("minilm", "Fake GPU", 3)
    assert np.array_equal(np.array(report["embeddings"], np.float32)[:, 0], np.array([5, 0, 4], np.float32) / 3)
    assert "warning: 1 of 2 texts is long" in result.stderr


def test_only_ends_of_lines_end_a_line(cli: Cli, asked: list[Any]) -> None:
    result = cli("embed", "minilm", "--json", input="a\x0bb\u2028c\r\n\nd")
    assert result.exit_code == 0
    assert asked[1] == ["a\x0bb\u2028c", "", "d"]


@pytest.mark.parametrize(("text", "why"), [("", "no text on stdin"), (b"\xff\xfe", "not UTF-8")])
def test_pipes_that_hold_no_text(cli: Cli, asked: list[Any], text: str | bytes, why: str) -> None:
    result = cli("embed", "minilm", input=text)
    assert result.exit_code == 2 and why in result.stderr
    assert not asked
