"""`wgpu-engine bench`: how fast a model runs on an adapter."""

import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wgpu_engine.cli import terminal
from wgpu_engine.cli.loading import open_llm
from wgpu_engine.cli.memory import PeakMemory
from wgpu_engine.cli.options import AsJson, ModelName, ModelOptions

if TYPE_CHECKING:
    from wgpu_engine.engine.llm import LLM

_TEXT = "The engine reads the weights of a model, sends them to the graphics adapter and writes word after word. "
_FIRST_TOKEN_PROMPT = 20
_FIRST_TOKEN_LIMIT_S = 300


@dataclass(frozen=True)
class Result:
    """Speed of one test: `ppN` reads a prompt of N tokens, `tgN` generates N."""

    test: str
    tokens: int
    tokens_per_s: float
    """median of the repetitions"""
    stddev: float
    """of the repetitions' tokens/s; 0 for a single one"""
    samples: list[float]

    @classmethod
    def of(cls, kind: str, tokens: int, speeds: list[float]) -> "Result":
        spread = statistics.stdev(speeds) if len(speeds) > 1 else 0.0
        return cls(f"{kind}{tokens}", tokens, statistics.median(speeds), spread, speeds)


def bench(
    options: ModelOptions,
    model: ModelName = "smollm2",
    prompt_tokens: Annotated[int, typer.Option("-p", "--prompt-tokens", min=0, help="Tokens to read; 0 skips.")] = 128,
    new_tokens: Annotated[int, typer.Option("-n", "--new-tokens", min=0, help="Tokens to generate; 0 skips.")] = 64,
    repetitions: Annotated[int, typer.Option("-r", "--repetitions", min=1, help="Runs of each test.")] = 3,
    as_json: AsJson = False,
) -> None:
    """Measure how fast a model reads (pp) and writes (tg). Median and standard deviation, after one run to warm up.

    The time to the first token is that of a process of its own,
    from its start to its first text, for a prompt of 20 tokens,
    with warm caches on the disk and with empty ones.

    Examples:
      wgpu-engine bench smollm2
      wgpu-engine bench ./model.gguf -p 512 -n 128 -r 5 --precision exact
      wgpu-engine bench smollm2 --json > bench.json
    """
    with PeakMemory() as peak, open_llm(model, options) as llm:
        results = []
        if prompt_tokens:
            speeds = _speeds(repetitions, lambda run: _prefill_speed(llm, prompt_tokens, run))
            results.append(Result.of("pp", prompt_tokens, speeds))
        if new_tokens:
            speeds = _speeds(repetitions, lambda run: _decode_speed(llm, new_tokens, run))
            results.append(Result.of("tg", new_tokens, speeds))
        counters = llm.statistics()
        path, adapter = llm.path, llm.adapter
        prompt = llm.detokenize(_ids(llm, _FIRST_TOKEN_PROMPT, 0))
    report = {
        "model": model,
        "path": str(path),
        "adapter": adapter.name,
        "results": [asdict(result) for result in results],
        "dispatches_per_token": counters.dispatches_per_token,
        "host_us_per_step": counters.host_us_per_step,
        "weight_bytes_per_token": counters.weight_bytes_per_token,
        "peak_anonymous_mb": peak.megabytes,
        **_first_token(path, prompt, options),
    }
    if as_json:
        terminal.write_json(report)
    else:
        _print(report, results)


def _speeds(repetitions: int, speed: Callable[[int], float]) -> list[float]:
    """Tokens/s of each repetition, after one that only warms up."""
    return [speed(run) for run in range(repetitions + 1)][1:]


def _prefill_speed(llm: "LLM", tokens: int, run: int) -> float:
    """Tokens/s of reading a prompt, another in each run lest a cache answer."""
    timings = llm.generate(_ids(llm, tokens, run), max_tokens=1, temperature=0.0, ignore_eos=True).timings
    return float(timings.prompt_per_s)


def _decode_speed(llm: "LLM", tokens: int, run: int) -> float:
    timings = llm.generate(_ids(llm, 1, run), max_tokens=tokens, temperature=0.0, ignore_eos=True).timings
    return float(timings.decode_per_s)


def _ids(llm: "LLM", count: int, start: int) -> list[int]:
    """`count` token ids of plain text, beginning at another word for each `start`."""
    text = llm.tokenize(_TEXT)
    return [text[(start + i) % len(text)] for i in range(count)]


def _first_token(path: Path, prompt: str, options: ModelOptions) -> dict[str, float | None]:
    """Seconds to the first token of a new process: with what this one left in the caches, and with empty ones."""
    from wgpu_engine.files.store import HOME_VARIABLE

    warm = _first_token_seconds(path, prompt, options, {})
    with tempfile.TemporaryDirectory() as empty:
        names = (HOME_VARIABLE, "XDG_CACHE_HOME", "MESA_SHADER_CACHE_DIR")
        cold = _first_token_seconds(path, prompt, options, dict.fromkeys(names, empty))
    return {"ttft_s": warm, "ttft_cold_s": cold}


def _first_token_seconds(path: Path, prompt: str, options: ModelOptions, environment: dict[str, str]) -> float | None:
    """Seconds from the start of a new process to its first text; None where it fails or says nothing."""
    command = [sys.executable, "-m", "wgpu_engine", "run", "--raw", "-n", "8", "-t", "0"]
    for name, value in asdict(options).items():
        if value is not None:
            command += [f"--{name.replace('_', '-')}", str(value)]
    command += ["--", str(path), prompt]
    start = time.perf_counter()
    with subprocess.Popen(
        command,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=0,
    ) as process:
        watchdog = threading.Timer(_FIRST_TOKEN_LIMIT_S, process.kill)
        watchdog.start()
        try:
            assert process.stdout is not None
            first = process.stdout.read(1)
            seconds = time.perf_counter() - start
            process.stdout.read()
        finally:
            watchdog.cancel()
    return seconds if first and process.returncode == 0 else None


def _print(report: dict[str, Any], results: list[Result]) -> None:
    rows = [(result.test, f"{result.tokens_per_s:.2f}", f"± {result.stddev:.2f}") for result in results]
    console = terminal.console()
    console.print(f"{report['model']} on {report['adapter']}\n")
    console.print(terminal.table(["test", "tokens/s", "stddev"], rows, right=["tokens/s", "stddev"]))
    peak = report["peak_anonymous_mb"]
    facts = [
        ("dispatches per token", report["dispatches_per_token"]),
        ("host time per step", f"{report['host_us_per_step']:.0f} µs"),
        ("weights read per token", terminal.size(report["weight_bytes_per_token"])),
        ("peak anonymous memory", "unknown on this system" if peak is None else f"{peak:.0f} MB"),
        ("first token from process start", _seconds(report["ttft_s"])),
        ("the same with empty caches", _seconds(report["ttft_cold_s"])),
    ]
    console.print()
    for name, value in facts:
        console.print(f"{name + ':':32}{value}")


def _seconds(value: float | None) -> str:
    return "failed" if value is None else f"{value:.2f} s"
