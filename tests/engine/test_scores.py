"""How likely the tokens of prompts are, beside sequences that answer."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgpu_engine.engine.service
from tests.models.hf_models import config_of, write_folder
from wgpu_engine import LLM
from wgpu_engine.engine.engine import Engine
from wgpu_engine.engine.loading import LoadOptions
from wgpu_engine.engine.sampling import SamplingParams
from wgpu_engine.engine.scheduler import Scheduler
from wgpu_engine.engine.sequence import Sequence, Timings
from wgpu_engine.engine.service import Service
from wgpu_engine.errors import DeviceError, DeviceLostError
from wgpu_engine.ops.top_tokens import TokenLogProbs
from wgpu_engine.platform.drive import drive

pytestmark = pytest.mark.usefixtures("no_kernel_check")
CTX = 320
WAY: dict[str, Any] = {"temperature": 0.0, "ignore_eos": True}


@pytest.fixture(scope="module", params=["cache", "rings"])
def llm(
    request: pytest.FixtureRequest, tiny_llama: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LLM]:
    if request.param == "cache":
        path = tiny_llama()
    else:
        config = config_of("MistralForCausalLM", sliding_window=24, max_position_embeddings=1024)
        path = write_folder(tmp_path_factory.mktemp("model"), config)
    with LLM(path, precision="exact", ctx_size=CTX) as opened:
        yield opened


@pytest.fixture
def scheduler(llm: LLM) -> Iterator[Scheduler]:
    """With room for hardly more than one sequence that fills its context."""
    engine = Engine(llm._device, llm._engine.model, ctx_size=CTX, slots=4, kv_positions=CTX + 64, precision="exact")
    yield Scheduler(engine)
    engine.free()


def check(llm: LLM, ids: list[int], found: list[TokenLogProbs], count: int) -> None:
    rows = llm.logits(ids)[:-1]
    assert len(found) == len(rows)
    for row, token, each in zip(rows, ids[1:], found, strict=True):
        wanted = row.astype(np.float64) - row.max()
        wanted -= np.log(np.exp(wanted).sum())
        order = np.lexsort((np.arange(len(row)), -row))[:count]
        assert [other for other, _ in each.top] == order.tolist()
        np.testing.assert_allclose([value for _, value in each.top], wanted[order], atol=4e-6)
        np.testing.assert_allclose(each.log_prob, wanted[token], atol=4e-6)


def test_are_the_softmax_of_the_models_own_logits(llm: LLM, scheduler: Scheduler, rng: np.random.Generator) -> None:
    """With sequences that come and go beside them, and a cache that runs out."""
    sizes, counts, mosts = (150, 60, 2, 1, 200, 33), (3, 20, 0, 5, 1, 2), (90, 0, 9, 5, 30, 1)
    prompts = [rng.integers(3, 250, size).tolist() for size in sizes]
    scores: list[list[TokenLogProbs]] = [[] for _ in prompts]
    beside = [rng.integers(3, 250, size).tolist() for size in (70, 5)]
    way = WAY | {"max_tokens": 100}
    alone = [llm.generate(ids, **way).tokens for ids in beside]
    sequences: list[Sequence] = []
    answering = [scheduler.add(ids, SamplingParams(**way), Timings()) for ids in beside]
    for ids, count, most, found in zip(prompts, counts, mosts, scores, strict=True):
        params = SamplingParams(logprobs=count, max_tokens=most, **WAY)
        sequences.append(scheduler.add(ids, params, Timings(), found))
        for _ in range(int(rng.integers(1, 9))):
            drive(scheduler.step())
    while not all(sequence.finished for sequence in (*sequences, *answering)):
        drive(scheduler.step())
    assert max(sequence.starts for sequence in (*sequences, *answering)) > 1, "the cache was never full"
    assert [sequence.answer for sequence in answering] == alone
    for sequence, ids, count, most, found in zip(sequences, prompts, counts, mosts, scores, strict=True):
        check(llm, ids, found, count)
        wanted = llm.generate(ids, logprobs=count, max_tokens=most, **WAY)
        assert (sequence.answer, [each for _, each in sequence.tokens]) == (wanted.tokens, wanted.logprobs)
    assert scheduler.engine.blocks.used == 0 and not scheduler.busy


def test_are_the_same_bits_in_any_company(scheduler: Scheduler, rng: np.random.Generator) -> None:
    prompts = [rng.integers(3, 250, size).tolist() for size in (40, 41, 7)]

    def scored(*several: list[int]) -> list[list[TokenLogProbs]]:
        scores: list[list[TokenLogProbs]] = [[] for _ in several]
        params = SamplingParams(logprobs=2, max_tokens=0)
        added = [scheduler.add(ids, params, Timings(), found) for ids, found in zip(several, scores, strict=True)]
        while not all(sequence.finished for sequence in added):
            drive(scheduler.step())
        return scores

    assert scored(*prompts) == [scored(ids)[0] for ids in prompts]


def test_what_was_scored_serves_others_and_is_never_taken_from_the_cache(
    llm: LLM, scheduler: Scheduler, rng: np.random.Generator
) -> None:
    ids = rng.integers(3, 250, CTX).tolist()
    params = SamplingParams(logprobs=1, max_tokens=0)
    for _ in range(2):
        found: list[TokenLogProbs] = []
        timings = Timings()
        sequence = scheduler.add(ids, params, timings, found)
        assert not sequence.finished
        while not sequence.finished:
            drive(scheduler.step())
        assert sequence.answer == [] and timings.cached_tokens == 0 and timings.prompt_s > 0
        check(llm, ids, found, 1)
    after = scheduler.add(ids[:-40], SamplingParams(max_tokens=5, **WAY), Timings())
    while not after.finished:
        drive(scheduler.step())
    assert after.answer == llm.generate(ids[:-40], max_tokens=5, **WAY).tokens
    if llm._engine.rewind is None:
        assert after.timings.cached_tokens > 0


def test_a_prompt_that_fills_the_whole_cache(llm: LLM, rng: np.random.Generator) -> None:
    """It needs no room for a token after it: it would wait for ever, and all others behind it."""
    engine = Engine(llm._device, llm._engine.model, ctx_size=CTX, precision="exact")
    scheduler, ids = Scheduler(engine), rng.integers(3, 250, CTX).tolist()
    for first in (ids, ids[:-1]):
        found: list[TokenLogProbs] = []
        sequence = scheduler.add(first, SamplingParams(logprobs=1, max_tokens=CTX - len(first)), Timings(), found)
        for _ in range(20):
            if not sequence.finished:
                drive(scheduler.step())
        assert sequence.finished and engine.blocks.used == 0
        check(llm, first, found, 1)
    engine.free()


def test_nobody_starves_behind_a_long_prompt(scheduler: Scheduler, rng: np.random.Generator) -> None:
    first = scheduler.add([5, 6], SamplingParams(max_tokens=40, **WAY), Timings())
    while not first.answer:
        drive(scheduler.step())
    found: list[TokenLogProbs] = []
    scored = scheduler.add(
        rng.integers(3, 250, 250).tolist(), SamplingParams(logprobs=0, max_tokens=0), Timings(), found
    )
    steps = 0
    while not scored.finished:
        drive(scheduler.step())
        steps += 1
    assert steps > 5 and len(first.answer) >= steps


def test_a_kernel_that_is_wrong_ends_only_who_needs_it(
    tiny_llama: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def asked(scores: list[TokenLogProbs] | None) -> int:
        params = SamplingParams(logprobs=1, max_tokens=3, **WAY)
        async with aclosing(service.answer([5, 6, 7], params, scores=scores)) as chunks:
            return sum([len(chunk.tokens) async for chunk in chunks])

    async def both() -> None:
        with pytest.raises(DeviceError, match="it adds wrongly"):
            await asked([])
        assert await asked(None) == 3

    calls = []

    async def wrong(_engine: Engine) -> None:
        calls.append(1)
        if len(calls) == 1:
            raise DeviceError("it adds wrongly")

    monkeypatch.setattr(wgpu_engine.engine.service, "check_log_probs", wrong)
    service = Service(tiny_llama(), LoadOptions(precision="exact", ctx_size=CTX, slots=2))
    try:
        asyncio.run(both())
        for _ in range(2):
            scores: list[TokenLogProbs] = []
            assert asyncio.run(asked(scores)) == 3 and len(scores) == 2
        assert len(calls) == 2, "it is checked once"
    finally:
        service.close()


def test_a_device_that_is_lost_before_the_kernels_were_tried(
    tiny_llama: Callable[..., Path], lose: Callable[[Service], None]
) -> None:
    """The model is loaded again for requests that need this trial, too."""

    async def asked(scores: list[TokenLogProbs] | None) -> int:
        params = SamplingParams(logprobs=1, max_tokens=3, **WAY)
        async with aclosing(service.answer([5, 6, 7], params, scores=scores)) as chunks:
            return sum([len(chunk.tokens) async for chunk in chunks])

    service = Service(tiny_llama(), LoadOptions(precision="exact", ctx_size=CTX, slots=2))
    try:
        lose(service)
        with pytest.raises(DeviceLostError):
            asyncio.run(asked(None))
        assert asyncio.run(asked([])) == 3
        lose(service)
        for scores in ([], None):
            with suppress(DeviceLostError):
                asyncio.run(asked(scores))
        assert asyncio.run(asked([])) == 3
    finally:
        service.close()


def test_a_device_that_is_lost_while_the_kernels_are_tried(
    tiny_llama: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    async def lost(_engine: Engine) -> None:
        calls.append(1)
        if len(calls) == 1:
            service.loaded.device._device.destroy()  # type: ignore[attr-defined]
            raise DeviceLostError("it is gone")

    async def asked() -> int:
        params = SamplingParams(logprobs=1, max_tokens=3, **WAY)
        async with aclosing(service.answer([5, 6, 7], params, scores=[])) as chunks:
            return sum([len(chunk.tokens) async for chunk in chunks])

    monkeypatch.setattr(wgpu_engine.engine.service, "check_log_probs", lost)
    service = Service(tiny_llama(), LoadOptions(precision="exact", ctx_size=CTX, slots=2))
    try:
        with pytest.raises(DeviceLostError):
            asyncio.run(asked())
        assert asyncio.run(asked()) == 3 and len(calls) == 2
    finally:
        service.close()
