"""Many requests of an event loop on a model that runs in a thread of its own."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wgpu_engine import LLM
from wgpu_engine.engine.loading import LoadOptions
from wgpu_engine.engine.sampling import SamplingParams
from wgpu_engine.engine.service import Service
from wgpu_engine.errors import ContextFullError, DeviceLostError, EngineError, QueueFullError, RequestError

CTX = 320
GREEDY: dict[str, Any] = {"temperature": 0.0, "ignore_eos": True}


@pytest.fixture(scope="module")
def path(no_kernel_check: None, tiny_llama: Callable[..., Path]) -> Path:
    return tiny_llama()


@pytest.fixture
def service(path: Path) -> Iterator[Service]:
    opened = Service(path, LoadOptions(precision="exact", ctx_size=CTX, slots=4), queue=6)
    yield opened
    opened.close()


async def tokens(service: Service, ids: list[int], most: int = 30, **sampling: Any) -> list[int]:
    params = SamplingParams(max_tokens=most, **(GREEDY | sampling))
    found: list[int] = []
    async with aclosing(service.answer(ids, params)) as chunks:
        async for chunk in chunks:
            found += chunk.tokens
    return found


def test_clients_at_once_get_what_each_gets_alone(path: Path, service: Service, rng: np.random.Generator) -> None:
    prompts = [rng.integers(3, 250, size).tolist() for size in (4, 150, 33, 60, 5, 90, 31, 7)]
    with LLM(path, precision="exact", ctx_size=CTX) as llm:
        wanted = [llm.generate(ids, max_tokens=30, **GREEDY).tokens for ids in prompts]

    async def all_of_them() -> list[list[int]]:
        return await asyncio.gather(*(tokens(service, ids) for ids in prompts))

    assert asyncio.run(all_of_them()) == wanted
    assert (service.running, service.waiting) == (0, 0)
    assert service.scheduler.engine.blocks.used == 0


def test_a_queue_that_is_full(service: Service) -> None:
    async def crowd() -> list[Any]:
        return await asyncio.gather(*(tokens(service, [5, i], most=100) for i in range(14)), return_exceptions=True)

    found = asyncio.run(crowd())
    refused = [each for each in found if isinstance(each, QueueFullError)]
    assert len(refused) == 4
    assert "try again later" in str(refused[0])
    assert sum(isinstance(each, list) for each in found) == 10
    assert asyncio.run(tokens(service, [5, 3])) == found[3][:30]


def test_who_leaves_makes_room(service: Service) -> None:
    async def leave() -> None:
        for _ in range(20):
            async with aclosing(service.answer([7, 8], SamplingParams(**GREEDY))) as chunks:
                await anext(chunks)
        task = asyncio.create_task(tokens(service, [7, 8], most=300))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(await tokens(service, [7, 8])) == 30

    asyncio.run(leave())
    assert service.scheduler.engine.blocks.used == 0


def test_what_cannot_be(service: Service) -> None:
    for ids, error in (([], RequestError), ([1 << 30], RequestError), ([1] * CTX, ContextFullError)):
        with pytest.raises(error):
            asyncio.run(tokens(service, ids))
    assert asyncio.run(tokens(service, [1, 2], most=0)) == []
    assert len(asyncio.run(tokens(service, [1, 2]))) == 30


def test_a_lost_device_is_opened_again(service: Service, lose: Callable[[Service], None]) -> None:
    wanted = asyncio.run(tokens(service, [3, 4, 5]))

    async def loss() -> None:
        async with aclosing(service.answer([3, 4, 5], SamplingParams(**GREEDY))) as chunks:
            await anext(chunks)
            lose(service)
            with pytest.raises(DeviceLostError, match="load the model again"):
                async for _ in chunks:
                    pass

    asyncio.run(loss())
    assert asyncio.run(tokens(service, [3, 4, 5])) == wanted


def test_a_fault_of_ours_ends_the_requests_and_not_the_service(
    service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    wanted = asyncio.run(tokens(service, [3, 4, 5]))

    def broken(*_: Any, **__: Any) -> None:
        raise ValueError("a fault")

    with monkeypatch.context() as patch:
        patch.setattr(service.scheduler.engine, "step", broken)
        with pytest.raises(EngineError, match="the engine failed"):
            asyncio.run(tokens(service, [3, 4, 5]))
    assert "a fault of the engine" in caplog.text and "ValueError: a fault" in caplog.text
    assert asyncio.run(tokens(service, [3, 4, 5])) == wanted


def test_closing_waits_as_long_as_it_is_told(path: Path) -> None:
    async def closing(patience_s: float) -> list[int]:
        service = Service(path, LoadOptions(ctx_size=CTX, slots=2))
        task = asyncio.create_task(tokens(service, [3, 4], most=200))
        await asyncio.sleep(0.05)
        await asyncio.to_thread(service.close, patience_s)
        with pytest.raises(QueueFullError, match="shutting down"):
            await tokens(service, [3])
        return await task

    assert len(asyncio.run(closing(60.0))) == 200
    assert len(asyncio.run(closing(0.0))) < 200
