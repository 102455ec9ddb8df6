"""A stand-in for the engine, so that the commands are tested without a model or an adapter."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from wgpu_engine.cli.main import app
from wgpu_engine.errors import EngineError


@dataclass
class FakeTimings:
    prompt_tokens: int = 5
    prompt_s: float = 0.5
    completion_tokens: int = 3
    decode_s: float = 0.25
    first_token_s: float = 0.75

    @property
    def prompt_per_s(self) -> float:
        return self.prompt_tokens / self.prompt_s

    @property
    def decode_per_s(self) -> float:
        return self.completion_tokens / self.decode_s


@dataclass
class Script:
    """What the stand-in does, and what was asked of it."""

    pieces: list[str] = field(default_factory=lambda: ["Blue", " light", " scatters."])
    finish_reason: str = "stop"
    chat_template: str | None = "{{ messages }}"
    warnings: list[str] = field(default_factory=list)
    boldness: float = 3.0
    """logit of the letter b, at any place"""
    load_error: EngineError | None = None
    answer_error: BaseException | None = None
    during: Callable[[int], None] = lambda index: None
    """called before each piece of a stream"""
    trained_for: int = 2048
    """positions"""
    loaded: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    asked: list[tuple[str, Any, dict[str, Any]]] = field(default_factory=list)
    timings: Callable[[int, int], FakeTimings] = lambda prompt, completion: FakeTimings(prompt, 0.5, completion)
    streams_closed: int = 0
    closed: int = 0


class FakeLLM:
    script: Script

    def __init__(self, model: str, *, progress: Any = None, **options: Any) -> None:
        self.script.loaded.append((model, options))
        if self.script.load_error:
            raise self.script.load_error
        if progress is not None:
            progress("weights", 50, 100)
            progress("kernels", 1, None)
        self.path = Path("/models/fake.gguf")
        self.adapter = SimpleNamespace(name="Fake GPU", index=0)
        self.ctx_size = 64
        self.chat_template = self.script.chat_template
        self.warnings = self.script.warnings
        vocabulary = SimpleNamespace(add_bos=False, bos_id=None)
        self.tokenizer = SimpleNamespace(encode=lambda text, parse_special: list(text.encode()), vocabulary=vocabulary)
        self.description = SimpleNamespace(vocab=256)

    def __enter__(self) -> "FakeLLM":
        return self

    def __exit__(self, *_: object) -> None:
        self.script.closed += 1

    def generate(self, prompt: str | list[int], *, stream: bool = False, **sampling: Any) -> Any:
        return self._answer("generate", prompt, stream, sampling)

    def chat(self, messages: list[dict[str, str]], *, stream: bool = False, **sampling: Any) -> Any:
        return self._answer("chat", [dict(message) for message in messages], stream, sampling)

    def _answer(self, kind: str, prompt: Any, stream: bool, sampling: dict[str, Any]) -> Any:
        self.script.asked.append((kind, prompt, sampling))
        if self.script.answer_error:
            raise self.script.answer_error
        length = len(prompt) if kind == "generate" else 5
        timings = self.script.timings(length, sampling.get("max_tokens") or len(self.script.pieces))
        if stream:
            return self._stream(timings)
        text, tokens = "".join(self.script.pieces), list(range(len(self.script.pieces)))
        return SimpleNamespace(text=text, tokens=tokens, finish_reason=self.script.finish_reason, timings=timings)

    def _stream(self, timings: FakeTimings) -> Iterator[Any]:
        try:
            for index, piece in enumerate(self.script.pieces):
                self.script.during(index)
                yield SimpleNamespace(text=piece, tokens=[index], finish_reason=None, timings=None)
            yield SimpleNamespace(text="", tokens=[], finish_reason=self.script.finish_reason, timings=timings)
        finally:
            self.script.streams_closed += 1

    def tokenize(self, text: str) -> list[int]:
        return [ord(char) for char in text]

    def detokenize(self, ids: list[int]) -> str:
        return "".join(map(chr, ids))

    def log_probs(self, ids: list[int], first: int) -> list[float]:
        """Each token is as likely as its letter is early in the alphabet."""
        self.script.asked.append(("log_probs", list(ids), {"first": first}))
        self.script.during(len(self.script.asked) - 1)
        return [-ids[i] / 100 for i in range(first, len(ids))]

    def logit_rows(self, ids: list[int], first: int) -> Iterator[Any]:
        rows = np.zeros((len(ids) - first, 256), np.float32)
        rows[:, ord("b")] = self.script.boldness
        yield from (rows[:3], rows[3:])

    def statistics(self) -> Any:
        return SimpleNamespace(
            dispatches_per_token=241, host_us_per_step=900.5, weight_bytes_per_token=97_000_000, buffers=12
        )


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    """Puts the stand-in where the commands look for the engine."""
    llm = type("LLM", (FakeLLM,), {"script": Script()})
    module = ModuleType("wgpu_engine.engine.llm")
    module.LLM = llm  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wgpu_engine.engine.llm", module)

    async def described(model: str) -> Any:
        return SimpleNamespace(encodes=False, context=llm.script.trained_for, most_positions=None)

    monkeypatch.setattr("wgpu_engine.engine.opening.described", described)
    return llm.script


@pytest.fixture
def cli() -> Callable[..., Result]:
    """Runs the command line in this process: `cli("run", "model", input="prompt")`."""

    def invoke(*arguments: str, **keywords: Any) -> Result:
        return CliRunner().invoke(app, list(arguments), **keywords)

    return invoke
