"""The programs of examples/ do what they say."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from wgpu_engine import LLM

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str, *arguments: str | Path, text: str = "") -> str:
    """What a program prints."""
    command = [sys.executable, EXAMPLES / name, *arguments]
    done = subprocess.run(command, input=text, capture_output=True, text=True, encoding="utf-8", timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_each_has_a_test() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == {"hello.py", "chat.py", "loop.py"}


def test_hello(stories: Path) -> None:
    first, second = run("hello.py", stories).splitlines()[:2]
    assert first.startswith("The capital of France is ")
    assert second.startswith("Once upon a time, ")


def test_chat(tiny_llama: Callable[..., Path]) -> None:
    out = run("chat.py", tiny_llama(context=700), text="hi\nwhat now?\n\nnever asked\n")
    assert out.count("\n") >= 2


def test_a_chat_that_outgrows_the_context(tiny_llama: Callable[..., Path]) -> None:
    """Old questions are forgotten, and the conversation goes on."""
    assert run("chat.py", tiny_llama(context=200), text="a\nb\nc\n\n").count("\n") >= 3


def test_loop(stories: Path) -> None:
    """The readable loop generates what the API does."""
    prompt = "Once upon a time"
    with LLM(stories, ctx_size=512) as llm:
        wanted = llm.generate(prompt, temperature=0.8, top_k=40, top_p=0.95, seed=1, max_tokens=60)
    assert run("loop.py", stories, prompt) == prompt + wanted.text + "\n"


def test_loop_is_short() -> None:
    lines = (EXAMPLES / "loop.py").read_text(encoding="utf-8").splitlines()
    assert len(lines) < 120
