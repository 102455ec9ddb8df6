"""A crowd on a server in a process of its own: clients that stream, and among them such as misbehave.

Whoever behaves gets the text that the same request gets alone, or is told to come back later; and the server is
afterwards no larger than it was.
"""

import asyncio
import json
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server.conftest import Program, running, wait_for

CLIENTS = 64
SLOTS, QUEUE = 16, 24


@dataclass
class Crowd:
    """What became of it."""

    port: int
    asks: list[dict[str, Any]]
    texts: list[str]
    """that the asks get alone"""
    seed: int
    until: float = 0.0
    seen: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    async def run(self, seconds: float) -> None:
        self.until = time.monotonic() + seconds
        bad: list[Callable[[random.Random], Awaitable[None]]] = [
            self.vanish,
            self.reset,
            self.dawdle,
            self.half_a_body,
            self.ten_megabytes,
        ]
        kinds = [self.behave] * CLIENTS + bad
        await asyncio.gather(*(self.again(kind, random.Random(self.seed + i)) for i, kind in enumerate(kinds)))

    async def again(self, kind: Callable[[random.Random], Awaitable[None]], rng: random.Random) -> None:
        await asyncio.sleep(2 * rng.random())
        while time.monotonic() < self.until and len(self.wrong) < 5:
            await kind(rng)

    async def behave(self, rng: random.Random) -> None:
        number = rng.randrange(len(self.asks))
        status, head, text = await self.ask(self.asks[number])
        self.seen[str(status)] += 1
        if status == 503:
            later = re.search(r"\r\nretry-after: (\d+)", head.lower())
            if later is None:
                self.wrong.append(f"503 without Retry-After: {head}")
            await asyncio.sleep(rng.uniform(0.5, 1.5))
        elif status != 200:
            self.wrong.append(f"{status}: {text[:300]}")
        elif text != self.texts[number]:
            self.wrong.append(f"{text!r} instead of {self.texts[number]!r}")

    async def ask(self, body: dict[str, Any]) -> tuple[int, str, str]:
        """Status, head, and the text of a stream or the body of a refusal."""
        reader, writer = await self.connect(body)
        try:
            async with asyncio.timeout(240):
                head, _, data = (await reader.read(-1)).partition(b"\r\n\r\n")
        finally:
            writer.close()
        status = int(head[9:12])
        if status != 200:
            return status, head.decode(), data.decode()
        if not data.endswith(b"data: [DONE]\n\n"):
            return 0, head.decode(), data[-300:].decode()
        events = [json.loads(line[6:]) for line in data.split(b"\n") if line.startswith(b"data: {")]
        return status, head.decode(), "".join(event["choices"][0]["text"] for event in events)

    async def connect(self, body: dict[str, Any]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        data = json.dumps(body).encode()
        return await self.send(data, len(data))

    async def send(self, data: bytes, length: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 30)
        # of version 1.0, so that the reply is no sequence of chunks and ends with the connection
        writer.write(f"POST /v1/completions HTTP/1.0\r\nContent-Length: {length}\r\n\r\n".encode() + data)
        return reader, writer

    async def vanish(self, rng: random.Random) -> None:
        reader, writer = await self.connect(rng.choice(self.asks))
        await reader.read(1 + rng.randrange(2000))
        writer.close()
        self.seen["vanished"] += 1
        await asyncio.sleep(rng.random())

    async def reset(self, rng: random.Random) -> None:
        """Leaves without a word, perhaps before there is anything to read."""
        _, writer = await self.connect(rng.choice(self.asks))
        await asyncio.sleep(rng.random() / 2)
        writer.transport.abort()
        self.seen["reset"] += 1

    async def dawdle(self, rng: random.Random) -> None:
        reader, writer = await self.connect(rng.choice(self.asks))
        with suppress(ConnectionError):
            while await reader.read(64):
                await asyncio.sleep(0.02)
        writer.close()
        self.seen["dawdled"] += 1

    async def half_a_body(self, rng: random.Random) -> None:
        data = json.dumps(rng.choice(self.asks)).encode()
        _, writer = await self.send(data[: len(data) // 2], len(data))
        await asyncio.sleep(3 * rng.random())
        writer.close()
        self.seen["half a body"] += 1

    async def ten_megabytes(self, rng: random.Random) -> None:
        status, _, text = await self.ask({"prompt": "a" * (10 << 20)})
        self.seen["10 MB"] += 1
        if status != 413:
            self.wrong.append(f"{status} for 10 MB: {text[:300]}")
        await asyncio.sleep(2)


def memory(program: Program) -> int:
    """Resident memory of the process in KiB, 0 where the system doesn't tell."""
    if sys.platform != "linux":
        return 0
    status = Path(f"/proc/{program.process.pid}/status").read_text()
    return int(re.findall(r"^VmRSS:\s+(\d+)", status, re.MULTILINE)[0])


def gauge(program: Program, name: str) -> float:
    text = httpx.get(f"{program.url}/metrics", timeout=60).text
    return float(re.findall(rf"^wgpu_engine_{name} (\S+)$", text, re.MULTILINE)[0])


def is_quiet(program: Program) -> bool:
    return not any(gauge(program, name) for name in ("requests_running", "requests_waiting"))


def check(program: Program, asks: list[dict[str, Any]], seconds: float) -> None:
    seed = random.randrange(1 << 32)
    print(f"the crowd's seed: {seed}")
    texts = []
    for ask in asks:
        answer = httpx.post(f"{program.url}/v1/completions", json=ask | {"stream": False}, timeout=240).json()
        texts.append(answer["choices"][0]["text"])
    sizes = []
    # what is made at first use is not counted: the first part of the time is for that
    for part in (0.35, 0.65):
        crowd = Crowd(program.port, asks, texts, seed)
        asyncio.run(crowd.run(part * seconds))
        assert not crowd.wrong, crowd.wrong
        print(dict(crowd.seen))
        assert crowd.seen["200"] >= CLIENTS / 4 and crowd.seen["10 MB"]
        wait_for(lambda: is_quiet(program), 120)
        sizes.append((memory(program), gauge(program, "device_buffers")))
    print(sizes)
    (before, buffers), (after, more_buffers) = sizes
    assert after - before < 48 << 10, f"{before} KiB became {after}"
    assert more_buffers <= buffers + 8
    assert gauge(program, "kv_usage_ratio") == 0
    assert httpx.get(f"{program.url}/health").status_code == 200


def prompts(most: int, vocab: int, count: int) -> Iterator[list[int]]:
    """Token ids: short ones, and every third of up to `most` tokens."""
    rng = random.Random(5)
    for i in range(count):
        yield [1, *(rng.randrange(300, vocab) for _ in range(most - 1 if i % 3 == 0 else rng.randrange(2, 60)))]


def stream(prompt: list[int], number: int, tokens: int) -> dict[str, Any]:
    """A greedy stream; some take the prompt from the cache, some ask for what makes steps dearer."""
    more = [{}, {"cache_prompt": False}, {"logprobs": 2}, {"logit_bias": {"400": -5.0}}][number % 4]
    common = {"prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True, "stream": True}
    return common | more


def serving(path: Path, *more: str) -> Any:
    room = ("--slots", str(SLOTS), "--queue", str(QUEUE), "--precision", "exact")
    return running(str(path), "--port", "0", *room, *more)


def story_asks(most: int, tokens: int) -> list[dict[str, Any]]:
    return [stream(ids, i, tokens + 3 * i) for i, ids in enumerate(prompts(most, 512, 12))]


@pytest.mark.conformance
def test_a_crowd_for_a_while(stories: Path) -> None:
    with serving(stories, "--ctx-size", "1280") as program:
        check(program, story_asks(400, 8), 20)


@pytest.mark.slow
@pytest.mark.conformance
@pytest.mark.timeout(600)
def test_a_crowd_for_three_minutes(stories: Path) -> None:
    with serving(stories, "--ctx-size", "1280") as program:
        check(program, story_asks(1000, 20), 180)


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.timeout(900)
def test_a_crowd_on_a_larger_model(smollm2: Path) -> None:
    asks = [stream(ids, i, 4 + i % 5) for i, ids in enumerate(prompts(120, 40_000, 12))]
    with serving(smollm2, "--ctx-size", "512") as program:
        check(program, asks, 120)
