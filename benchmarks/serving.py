"""How a server treats many clients: their speed together, waits for first and next tokens, prefixes, fairness.

Usage: python benchmarks/serving.py [MODEL] [-n 32] [-r 3] [--clients 1,8,64]
"""

import asyncio
import json
import math
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from script import Device, Model, run

from wgpu_engine.cli import terminal
from wgpu_engine.errors import EngineError

_PROMPT = 32
_PREFIX, _LONG = 500, 1000
_IDS = (300, 20_000)
"""token ids that prompts are made of, which any vocabulary of a real model has"""
_REPETITIONS = 3
_CTX = 2048


@dataclass(frozen=True)
class Stream:
    """An answer as its client saw it, in seconds of the monotonic clock."""

    asked: float
    arrivals: list[float]

    @property
    def first(self) -> float:
        return self.arrivals[0] - self.asked

    @property
    def gaps(self) -> list[float]:
        return [later - earlier for earlier, later in zip(self.arrivals, self.arrivals[1:], strict=False)]


def measure(
    model: Model = "smollm2",
    new_tokens: Annotated[int, typer.Option("-n", min=2, help="Tokens of each answer.")] = 32,
    rounds: Annotated[int, typer.Option("-r", min=1, help="Rounds of all numbers of clients.")] = 3,
    clients: Annotated[str, typer.Option(metavar="NUMBERS", help="How many ask at a time.")] = "1,8,64",
    device: Device = None,
) -> None:
    """Print what clients of a server that this starts get, and how that changes with their number."""
    try:
        numbers = [int(part) for part in clients.split(",")]
    except ValueError as error:
        raise typer.BadParameter(f"{clients!r} is no list of numbers: write it like 1,8,64") from error
    room = ("--slots", str(max(numbers)), "--kv-positions", str(max(2 * _CTX, 128 * max(numbers))))
    options = ("--ctx-size", str(_CTX), *room, *(("--device", device) if device else ()))
    with _server(model, options) as (port, said):
        console = terminal.console()
        console.print(f"{said}, {new_tokens} tokens after prompts of {_PROMPT}\n")
        asyncio.run(_measure(port, numbers, new_tokens, rounds, console))


async def _measure(port: int, numbers: Sequence[int], new_tokens: int, rounds: int, console: Any) -> None:
    # plans are made at first use
    for number in numbers:
        await asyncio.gather(*(_stream(port, _prompt(_PROMPT), 4) for _ in range(number)))
    await _stream(port, _prompt(_LONG), 2)
    found: dict[int, list[list[Stream]]] = {number: [] for number in numbers}
    for _ in range(rounds):
        for number in numbers:
            asked = (_stream(port, _prompt(_PROMPT), new_tokens) for _ in range(number))
            found[number].append(await asyncio.gather(*asked))
    rows = []
    for number, each in found.items():
        ratios = [_speed(streams) / _speed(one) for streams, one in zip(each, found[numbers[0]], strict=True)]
        times = [
            *_quantiles([stream.first for streams in each for stream in streams]),
            *_quantiles([gap for streams in each for stream in streams for gap in stream.gaps]),
        ]
        speeds = (statistics.median(map(_speed, each)), statistics.median(ratios), statistics.median(map(_rate, each)))
        rows.append((number, *(_shown(part) for part in speeds), *(f"{1e3 * part:.0f}" for part in times)))
    columns = [
        "clients",
        "tokens/s",
        f"to {numbers[0]}'s",
        "in all",
        "first p50",
        "first p95",
        "between p50",
        "between p95",
    ]
    console.print(terminal.table(columns, rows, right=columns))
    console.print(
        "\ntokens/s of all together while all write, and in all from the question to the last token; ms to the first "
        "token and between tokens\n"
    )
    first, second = await _prefixes(port)
    console.print(
        f"a prefix of {_PREFIX} tokens: {1e3 * first:.0f} ms to the first token, "
        f"{1e3 * second:.0f} ms for the next request that has it ({second / first:.3f} of that)"
    )
    alone, beside, long = await _fairness(port)
    console.print(
        f"a prompt of {_LONG} tokens, read in {1e3 * long:.0f} ms beside a stream: at most {1e3 * beside:.0f} ms "
        f"between the stream's tokens meanwhile, {1e3 * alone:.0f} ms (median) without it"
    )


def _speed(streams: Sequence[Stream]) -> float:
    """Tokens/s of all together while all write: after the last first token, up to the first last one."""
    begin, end = max(each.arrivals[0] for each in streams), min(each.arrivals[-1] for each in streams)
    counted = sum(begin < arrival <= end for each in streams for arrival in each.arrivals)
    return counted / (end - begin) if end > begin else math.nan


def _rate(streams: Sequence[Stream]) -> float:
    """Tokens/s of all together from the question on."""
    counted = sum(len(each.arrivals) for each in streams)
    return counted / (max(each.arrivals[-1] for each in streams) - min(each.asked for each in streams))


def _shown(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.2f}"


async def _prefixes(port: int) -> tuple[float, float]:
    """Medians of the time to the first token: with a prefix that is new, and of the next request with the same."""
    found = []
    for _ in range(_REPETITIONS):
        prefix = _prompt(_PREFIX)
        found.append([(await _stream(port, prefix + _prompt(8), 2)).first for _ in range(2)])
    first, second = (statistics.median(times) for times in zip(*found, strict=True))
    return first, second


async def _fairness(port: int) -> tuple[float, float, float]:
    """Between a stream's tokens: the median alone and the most while a long prompt is read; and how long that took."""
    stream = asyncio.ensure_future(_stream(port, _prompt(_PROMPT), 400))
    await asyncio.sleep(4)
    long = await _stream(port, _prompt(_LONG), 2)
    seen = await stream
    moments = list(zip(seen.arrivals[1:], seen.gaps, strict=True))
    read = long.arrivals[0]
    alone = statistics.median(gap for moment, gap in moments if moment < long.asked)
    return alone, max((gap for moment, gap in moments if long.asked < moment < read), default=math.nan), long.first


async def _stream(port: int, ids: list[int], tokens: int) -> Stream:
    body = {"prompt": ids, "max_tokens": tokens, "temperature": 0, "ignore_eos": True, "stream": True}
    data = json.dumps(body).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    asked = time.monotonic()
    writer.write(f"POST /v1/completions HTTP/1.0\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
    arrivals = []
    while line := await reader.readline():
        if line.startswith(b"data: {"):
            if b'"error"' in line:
                raise EngineError(f"the server answered {line.decode().strip()}: look at its output")
            arrivals.append(time.monotonic())
    writer.close()
    if not arrivals:
        raise EngineError("the server refused a request: ask for fewer clients")
    return Stream(asked, arrivals)


def _prompt(length: int) -> list[int]:
    return [random.randrange(*_IDS) for _ in range(length)]


def _quantiles(values: Sequence[float]) -> tuple[float, float]:
    """The median, and what 95 % don't exceed."""
    ordered = sorted(values)
    return statistics.median(ordered), ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]


@contextmanager
def _server(model: str, options: Sequence[str]) -> Iterator[tuple[int, str]]:
    """A server in a process of its own: its port, and what it says of itself."""
    command = [sys.executable, "-m", "wgpu_engine", "serve", model, "--port", "0", *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        said = ""
        for line in process.stderr:
            if "http://" in line:
                said = line
                break
        if not said:
            raise EngineError(f"the server didn't start: try wgpu-engine serve {model}")
        what, _, rest = said.partition(": http://")
        yield int(rest.split()[0].rpartition(":")[2]), what
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    run(measure)
