"""The Python API in an event loop."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import numpy as np
import pytest

from wgpu_engine import LLM
from wgpu_engine.engine.answers import Chunk
from wgpu_engine.engine.turns import Turns
from wgpu_engine.errors import RequestError

GREEDY = {"temperature": 0, "ignore_eos": True}
PATIENCE_S = 60
T = TypeVar("T")


def run(main: Callable[[], Awaitable[T]]) -> T:
    """What would hang fails instead."""

    async def bounded() -> T:
        return await asyncio.wait_for(main(), PATIENCE_S)

    return asyncio.run(bounded())


async def tokens_of(chunks: AsyncIterator[Chunk]) -> list[int]:
    return [token async for chunk in chunks for token in chunk.tokens]


def test_two_at_once(tiny: LLM) -> None:
    prompts = [[1, 80], [1, 90]]
    wanted = [tiny.generate(prompt, max_tokens=60, **GREEDY).tokens for prompt in prompts]

    async def main() -> list[list[int]]:
        return await asyncio.gather(*(tokens_of(tiny.agenerate(prompt, max_tokens=60, **GREEDY)) for prompt in prompts))

    assert run(main) == wanted


def test_the_loop_goes_on_meanwhile(tiny: LLM) -> None:
    """Other tasks run while steps are waited for."""

    async def main() -> tuple[int, float]:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        ticking = asyncio.create_task(tick())
        count = len(await tokens_of(tiny.agenerate([1], max_tokens=50, **GREEDY)))
        ticking.cancel()
        return ticks, count

    ticks, count = run(main)
    assert count == 50
    assert ticks > 100


def test_chat_and_logits(tiny: LLM) -> None:
    messages = [{"role": "user", "content": "hi"}]
    wanted = tiny.chat(messages, max_tokens=10, **GREEDY).tokens, tiny.logits([1, 80, 90])

    async def main() -> tuple[list[int], Any]:
        return await tokens_of(tiny.achat(messages, max_tokens=10, **GREEDY)), await tiny.alogits([1, 80, 90])

    found = run(main)
    assert found[0] == wanted[0]
    np.testing.assert_array_equal(found[1], wanted[1])


def test_logits_wait_for_streams(tiny: LLM) -> None:
    """However many wait, the stream that they wait for gets on."""
    wanted = tiny.generate([1], max_tokens=40, **GREEDY).tokens

    async def main() -> tuple[list[int], list[Any]]:
        stream = tiny.agenerate([1], max_tokens=40, **GREEDY)
        first = await anext(stream)
        waiting = [asyncio.create_task(tiny.alogits([1, 70 + i])) for i in range(40)]
        await asyncio.sleep(0.01)
        tokens = first.tokens + await tokens_of(stream)
        return tokens, await asyncio.gather(*waiting)

    tokens, logits = run(main)
    assert tokens == wanted
    for i in (0, 39):
        np.testing.assert_array_equal(logits[i], tiny.logits([1, 70 + i]))


@pytest.mark.parametrize("moment", range(6))
def test_a_task_that_is_cancelled(tiny: LLM, moment: int) -> None:
    """At any moment of a stream: the turn is given back and the next answer is right."""
    wanted = tiny.generate([1, 80], max_tokens=20, **GREEDY).tokens

    async def main() -> list[int]:
        started = asyncio.Event()

        async def stream() -> None:
            async for _ in tiny.agenerate([1, 90], **GREEDY):
                started.set()

        task = asyncio.create_task(stream())
        if moment:
            await started.wait()
            await asyncio.sleep(0.003 * moment)
        else:
            await asyncio.sleep(0)
        task.cancel()
        if moment % 2:
            await asyncio.sleep(0)
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await tokens_of(tiny.agenerate([1, 80], max_tokens=20, **GREEDY))

    assert run(main) == wanted
    assert tiny.generate([1, 80], max_tokens=20, **GREEDY).tokens == wanted


def test_cancelled_while_it_waits_for_its_turn(tiny: LLM) -> None:
    async def main() -> int:
        stream = tiny.agenerate([1], max_tokens=30, **GREEDY)
        count = len((await anext(stream)).tokens)
        waiting = asyncio.create_task(tiny.alogits([1]))
        await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        return count + len(await tokens_of(stream))

    assert run(main) == 30


def test_a_stream_that_is_left(tiny: LLM) -> None:
    wanted = tiny.generate([1], max_tokens=10, **GREEDY).tokens

    async def main() -> list[int]:
        stream = tiny.agenerate([1, 80], **GREEDY)
        async for _ in stream:
            break
        await stream.aclose()  # type: ignore[attr-defined]
        return await tokens_of(tiny.agenerate([1], max_tokens=10, **GREEDY))

    assert run(main) == wanted


def test_a_stream_that_is_forgotten(tiny: LLM) -> None:
    """The event loop closes it at the latest when it ends itself."""

    async def main() -> None:
        async for _ in tiny.agenerate([1, 80], **GREEDY):
            break

    run(main)
    assert tiny.generate([1], max_tokens=3, **GREEDY).tokens


def test_answers_within_a_stream(tiny: LLM) -> None:
    """What would wait for itself is refused, and does not hang."""

    async def main() -> int:
        count = 0
        async for chunk in tiny.agenerate([1], max_tokens=20, **GREEDY):
            count += len(chunk.tokens)
            if count == 3:
                with pytest.raises(RequestError, match="still being streamed"):
                    tiny.generate([1])
                with pytest.raises(RequestError, match="still being streamed"):
                    await anext(tiny.agenerate([1]))
                with pytest.raises(RequestError, match="still being streamed"):
                    await tiny.alogits([1])
        return count

    assert run(main) == 20


def test_an_async_answer_within_a_synchronous_stream(tiny: LLM) -> None:
    async def main() -> None:
        with pytest.raises(RequestError, match="still being streamed"):
            await anext(tiny.agenerate([1]))

    stream = tiny.generate([1], stream=True, **GREEDY)
    next(stream)
    run(main)
    stream.close()  # type: ignore[attr-defined]
    assert tiny.generate([1], max_tokens=2, **GREEDY).tokens


def test_errors_reach_the_task(tiny: LLM, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError("broken")

    async def main() -> None:
        with pytest.raises(RuntimeError, match="broken"):
            await tokens_of(tiny.agenerate([1, 99], max_tokens=4, **GREEDY))

    with monkeypatch.context() as patch:
        patch.setattr(type(tiny._device), "run_and_read", broken)
        run(main)
    assert len(tiny.generate([1, 99], max_tokens=4, **GREEDY).tokens) == 4


def test_turns() -> None:
    turns = Turns()
    order: list[str] = []

    async def work(name: str) -> None:
        await turns.take_async()
        order.append(f"{name} in")
        await asyncio.sleep(0.01)
        order.append(f"{name} out")
        turns.give_back()

    async def main() -> None:
        await asyncio.gather(*(work(name) for name in "abc"))

    start = time.perf_counter()
    run(main)
    assert time.perf_counter() - start < 5
    assert sorted(order[::2]) == ["a in", "b in", "c in"]
    assert [entry.split()[0] for entry in order[::2]] == [entry.split()[0] for entry in order[1::2]]
    turns.take()
    turns.give_back()
