"""Measures the engine beside llama.cpp in one run, and prints the ratios: `make bench-compare`.

Same model file, same token ids, same adapter. Each round starts a process for each of them in turn; each process does
every test once to warm up and once by the clock.
"""

import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, cast

import typer
from llama_cpp_peer import VERSION, LlamaCpp, PeerError, Speeds, install
from script import Device, Model, run

from wgpu_engine.cli import terminal
from wgpu_engine.cli.bench import _ids
from wgpu_engine.errors import EngineError
from wgpu_engine.files.model_file import ModelFile, open_model
from wgpu_engine.files.store import Store
from wgpu_engine.gpu.adapters import choose_adapter
from wgpu_engine.platform.drive import drive
from wgpu_engine.platform.tokenizers_encoder import TokenizersEncoder
from wgpu_engine.text.tokenizer import Tokenizer
from wgpu_engine.text.tokenizer_json import tokenizer_json
from wgpu_engine.text.vocabulary import Vocabulary

_RUN_LIMIT_S = 1800


@dataclass
class Contender:
    """One engine and its rounds."""

    name: str
    measure: Callable[[], Speeds]
    rounds: list[Speeds] = field(default_factory=list)
    absent: str | None = None
    """why it can't be measured"""

    @property
    def median(self) -> Speeds:
        return Speeds(
            statistics.median(speeds.prefill for speeds in self.rounds),
            statistics.median(speeds.decode for speeds in self.rounds),
        )


def compare(
    model: Model = "smollm2",
    prompt_tokens: Annotated[int, typer.Option("-p", min=1, help="Tokens to read.")] = 128,
    new_tokens: Annotated[int, typer.Option("-n", min=2, help="Tokens to generate.")] = 64,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; medians are printed.")] = 3,
    threads: Annotated[int, typer.Option(min=1, help="Threads of llama.cpp's CPU backend.")] = 2,
    device: Device = None,
    peers: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where llama.cpp is, or is installed to.")
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the figures there too.")
    ] = None,
) -> None:
    """Measure the engine beside llama.cpp's Vulkan and CPU backends, in turn, and print the ratios."""
    store = Store()
    path = store.find(model)
    adapter = choose_adapter(device)[0].name
    with drive(open_model(path)) as file:
        file_bytes = file.file_bytes
        prompts = _prompts(file, prompt_tokens)
    reports: list[dict[str, Any]] = []
    ours = Contender("wgpu_engine", lambda: _measure_ours(path, prompt_tokens, new_tokens, device, reports))
    vulkan, cpu = _peers(
        peers or store.home / "peers" / f"llama.cpp-{VERSION}", path, adapter, prompts, new_tokens, threads
    )
    contenders = [ours, vulkan, cpu]
    for number in range(rounds):
        for contender in contenders:
            if contender.absent is None:
                terminal.note(f"round {number + 1} of {rounds}: {contender.name} ...")
                _take_round(contender)
    figures = _figures(reports, file_bytes)
    _print(f"{path.name} on {adapter}", prompt_tokens, new_tokens, contenders, figures)
    if json_file is not None:
        head = {"model": model, "path": str(path), "adapter": adapter, "rounds": rounds}
        tests = {"prompt_tokens": prompt_tokens, "new_tokens": new_tokens}
        json_file.write_text(json.dumps({**head, **tests, **_as_json(contenders), "ours": figures}, indent=2) + "\n")


def _prompts(file: ModelFile, count: int) -> list[list[int]]:
    """The ids that `wgpu-engine bench -r 1` reads: those to warm up with, and those by the clock."""
    vocabulary = Vocabulary.from_metadata(file.metadata)
    tokenizer = Tokenizer(vocabulary, TokenizersEncoder(tokenizer_json(vocabulary)))
    llm = cast(Any, SimpleNamespace(tokenize=tokenizer.encode))
    return [_ids(llm, count, run) for run in (0, 1)]


def _measure_ours(
    path: Path, prompt_tokens: int, new_tokens: int, device: str | None, reports: list[dict[str, Any]]
) -> Speeds:
    """One round of the engine, in a process of its own; all that it measures is added to `reports`."""
    command = [sys.executable, "-m", "wgpu_engine", "bench", "-p", str(prompt_tokens), "-n", str(new_tokens)]
    command += ["-r", "1", "--precision", "fast", "--json", *(["--device", device] if device else []), "--", str(path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_RUN_LIMIT_S)
    except subprocess.TimeoutExpired as error:
        raise EngineError(f"wgpu-engine bench took longer than {_RUN_LIMIT_S} s: try fewer tokens") from error
    if done.returncode:
        raise EngineError(done.stderr.strip().rpartition("\n")[2].removeprefix("error: "))
    reports.append(json.loads(done.stdout))
    prefill, decode = (result["tokens_per_s"] for result in reports[-1]["results"])
    return Speeds(prefill, decode)


def _peers(
    folder: Path, path: Path, adapter: str, prompts: list[list[int]], new_tokens: int, threads: int
) -> tuple[Contender, Contender]:
    """llama.cpp's Vulkan and CPU backends, absent where they can't run here."""
    vulkan_name, cpu_name = "llama.cpp Vulkan", f"llama.cpp CPU, {threads} threads"
    try:
        peer = install(folder)
    except PeerError as error:
        return _absent(vulkan_name, error), _absent(cpu_name, error)
    cpu = Contender(cpu_name, lambda: peer.measure("cpu", path, prompts, new_tokens, threads=threads))
    return _vulkan(vulkan_name, peer, path, adapter, prompts, new_tokens), cpu


def _vulkan(
    name: str, peer: LlamaCpp, path: Path, adapter: str, prompts: list[list[int]], new_tokens: int
) -> Contender:
    try:
        index = peer.vulkan_index(adapter)
    except PeerError as error:
        return _absent(name, error)
    return Contender(name, lambda: peer.measure("vulkan", path, prompts, new_tokens, vulkan_index=index))


def _absent(name: str, error: PeerError) -> Contender:
    def refuse() -> Speeds:
        raise error

    return Contender(name, refuse, absent=str(error))


def _take_round(contender: Contender) -> None:
    try:
        contender.rounds.append(contender.measure())
    except PeerError as error:
        contender.absent = str(error)


def _figures(reports: list[dict[str, Any]], file_bytes: int) -> dict[str, float | None]:
    """What the engine's bench tells beside speeds, as medians of the rounds; None where a round lacks it."""
    names = ["dispatches_per_token", "host_us_per_step", "weight_bytes_per_token"]
    names += ["peak_anonymous_mb", "ttft_s", "ttft_cold_s"]
    figures: dict[str, float | None] = {}
    for name in names:
        values = [report[name] for report in reports]
        figures[name] = None if None in values else statistics.median(values)
    return {**figures, "file_bytes": file_bytes}


def _as_json(contenders: list[Contender]) -> dict[str, Any]:
    """Speeds of each, and how many times as fast we are."""
    ours = contenders[0].median
    engines = []
    for contender in contenders:
        entry: dict[str, Any] = {"name": contender.name, "absent": contender.absent}
        if contender.absent is None:
            median = contender.median
            for test, mine, value in (
                ("prefill", ours.prefill, median.prefill),
                ("decode", ours.decode, median.decode),
            ):
                samples = [getattr(speeds, test) for speeds in contender.rounds]
                entry[test] = {"tokens_per_s": value, "samples": samples, "ours_to_this": mine / value}
        engines.append(entry)
    return {"engines": engines}


def _print(
    title: str, prompt_tokens: int, new_tokens: int, contenders: list[Contender], figures: dict[str, float | None]
) -> None:
    console = terminal.console()
    console.print(f"{title}\n")
    columns = ["test", "engine", "tokens/s", "range", "ours/this"]
    engines = [entry for entry in _as_json(contenders)["engines"] if entry["absent"] is None]
    tests = ((f"pp{prompt_tokens}", "prefill"), (f"tg{new_tokens}", "decode"))
    rows = [(label, entry["name"], *_cells(entry[test])) for label, test in tests for entry in engines]
    console.print(terminal.table(columns, rows, right=columns[2:]))
    console.print()
    for reason in dict.fromkeys(contender.absent for contender in contenders if contender.absent is not None):
        names = " and ".join(contender.name for contender in contenders if contender.absent == reason)
        console.print(f"Left out: {names}. {reason}.\n", soft_wrap=True)
    facts = [
        ("dispatches per token", _number(figures["dispatches_per_token"], ".0f")),
        ("host time per step", _number(figures["host_us_per_step"], ".0f", " µs")),
        ("weights read per token", _weights(figures)),
        ("peak anonymous memory", _number(figures["peak_anonymous_mb"], ".0f", " MB")),
        ("first token from process start", _number(figures["ttft_s"], ".2f", " s")),
        ("the same with empty caches", _number(figures["ttft_cold_s"], ".2f", " s")),
    ]
    console.print("wgpu_engine alone:")
    for name, value in facts:
        console.print(f"  {name + ':':32}{value}")


def _cells(test: dict[str, Any]) -> list[str]:
    samples = test["samples"]
    return [f"{test['tokens_per_s']:.2f}", f"{min(samples):.2f} to {max(samples):.2f}", f"{test['ours_to_this']:.2f}"]


def _weights(figures: dict[str, float | None]) -> str:
    read, held = figures["weight_bytes_per_token"], figures["file_bytes"]
    assert read is not None and held is not None
    return f"{terminal.size(int(read))}; the file has {terminal.size(int(held))}"


def _number(value: float | None, form: str, unit: str = "") -> str:
    return "unknown" if value is None else f"{value:{form}}{unit}"


if __name__ == "__main__":
    run(compare)
