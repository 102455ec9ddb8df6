"""Many sequences on one engine."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wgpu_engine import LLM
from wgpu_engine.engine.engine import Engine
from wgpu_engine.engine.sampling import SamplingParams
from wgpu_engine.engine.scheduler import Scheduler
from wgpu_engine.engine.sequence import Sequence, Timings
from wgpu_engine.errors import ContextFullError, DeviceError, RequestError
from wgpu_engine.ops.kv import KV_BLOCK
from wgpu_engine.platform.drive import drive

CTX = 320
GREEDY = SamplingParams(temperature=0.0, max_tokens=40)


@pytest.fixture(scope="module")
def alone(tiny_llama: Callable[..., Path]) -> Iterator[LLM]:
    """The model by itself, exact."""
    with LLM(tiny_llama(), precision="exact", ctx_size=CTX) as llm:
        yield llm


@pytest.fixture
def scheduler(alone: LLM) -> Iterator[Callable[..., Scheduler]]:
    """Schedulers over engines that share the model's weights."""
    engines = []

    def make(slots: int = 4, kv_positions: int | None = None) -> Scheduler:
        engine = Engine(
            alone._device,
            alone._engine.model,
            ctx_size=CTX,
            slots=slots,
            kv_positions=kv_positions,
            precision="exact",
        )
        engines.append(engine)
        return Scheduler(engine)

    yield make
    for engine in engines:
        engine.free()


def prompts(rng: np.random.Generator, lengths: list[int], vocab: int) -> list[list[int]]:
    return [[int(token) for token in rng.integers(0, vocab, length)] for length in lengths]


def run(scheduler: Scheduler, sequences: list[Sequence], most: int = 3000) -> None:
    for _ in range(most):
        if all(sequence.finished for sequence in sequences):
            return
        drive(scheduler.step())
    pytest.fail("it never ends")


def answers(llm: LLM, asked: list[list[int]], **sampling: Any) -> list[list[int]]:
    return [llm.generate(ids, ignore_eos=True, **sampling).tokens for ids in asked]


def test_a_batch_says_what_each_says_alone(
    alone: LLM, scheduler: Callable[..., Scheduler], rng: np.random.Generator
) -> None:
    """Prompts of many lengths, more of them than slots, that come while others run."""
    asked = prompts(rng, [3, 200, 1, 70, 33, 31, 32, 129], alone._engine.vocab)
    expected = answers(alone, asked, temperature=0.0, max_tokens=40)
    many = scheduler(slots=3)
    sequences = []
    for ids in asked:
        sequences.append(many.add(ids, GREEDY, Timings()))
        drive(many.step())
    run(many, sequences)
    assert [sequence.answer for sequence in sequences] == expected
    assert many.engine.blocks.used == 0
    assert not many.running and not many.waiting


def test_seeds_and_penalties_are_each_sequences_own(
    alone: LLM, scheduler: Callable[..., Scheduler], rng: np.random.Generator
) -> None:
    asked = prompts(rng, [40, 50, 60], alone._engine.vocab)
    ways: list[dict[str, Any]] = [
        {"temperature": 1.0, "seed": 3, "repetition_penalty": 1.5, "presence_penalty": 1.0},
        {"temperature": 0.0},
        {"temperature": 2.0, "seed": 5, "top_k": 0, "frequency_penalty": 0.5},
    ]
    expected = [answers(alone, [ids], max_tokens=30, **way)[0] for ids, way in zip(asked, ways, strict=True)]
    many = scheduler()
    sequences = [
        many.add(ids, SamplingParams(max_tokens=30, **way), Timings()) for ids, way in zip(asked, ways, strict=True)
    ]
    run(many, sequences)
    assert [sequence.answer for sequence in sequences] == expected


@pytest.mark.parametrize("penalty", [1.0, 1.3])
def test_a_full_cache_sends_the_youngest_back(
    alone: LLM, scheduler: Callable[..., Scheduler], rng: np.random.Generator, penalty: float
) -> None:
    """Room for one context and a bit: all four are admitted, and none says anything else for it."""
    asked = prompts(rng, [60, 61, 62, 63], alone._engine.vocab)
    way = {"temperature": 0.9, "seed": 11, "max_tokens": 150, "repetition_penalty": penalty}
    expected = answers(alone, asked, **way)
    many = scheduler(kv_positions=CTX + 2 * KV_BLOCK)
    sequences = [many.add(ids, SamplingParams(**way), Timings()) for ids in asked]
    run(many, sequences)
    assert [sequence.answer for sequence in sequences] == expected
    assert max(sequence.starts for sequence in sequences) > 1, "the cache was never full"
    assert many.engine.blocks.used == 0


def test_a_prefix_is_computed_once(alone: LLM, scheduler: Callable[..., Scheduler], rng: np.random.Generator) -> None:
    """Shared with a sequence that still runs, and found again after its end; a whole prompt leaves its last block."""
    system, *ends = prompts(rng, [2 * KV_BLOCK + 5, 3, 4, 5], alone._engine.vocab)
    asked = [system + end for end in ends] + [system[: 2 * KV_BLOCK]]
    expected = answers(alone, asked, temperature=0.0, max_tokens=40)
    many = scheduler()
    first = many.add(asked[0], GREEDY, Timings())
    drive(many.step())
    second = many.add(asked[1], GREEDY, Timings())
    run(many, [first, second])
    third, fourth = (many.add(ids, GREEDY, Timings()) for ids in asked[2:])
    run(many, [third, fourth])
    found = [first, second, third, fourth]
    assert [sequence.answer for sequence in found] == expected
    assert [sequence.timings.cached_tokens for sequence in found] == [0, 2 * KV_BLOCK, len(system), KV_BLOCK]


def test_an_answer_is_a_prefix_too(alone: LLM, scheduler: Callable[..., Scheduler], rng: np.random.Generator) -> None:
    """As in a conversation, whose next prompt holds the last answer."""
    (asked,) = prompts(rng, [50], alone._engine.vocab)
    many = scheduler(slots=1)
    first = many.add(asked, GREEDY, Timings())
    run(many, [first])
    longer = first.ids + asked[:9]
    (expected,) = answers(alone, [longer], temperature=0.0, max_tokens=40)
    second = many.add(longer, GREEDY, Timings())
    run(many, [second])
    assert second.answer == expected
    assert second.timings.cached_tokens == len(first.ids) - 1


def test_a_cancelled_sequence_leaves_the_others_alone(
    alone: LLM, scheduler: Callable[..., Scheduler], rng: np.random.Generator
) -> None:
    asked = prompts(rng, [50, 200, 20, 30], alone._engine.vocab)
    expected = answers(alone, asked, temperature=0.0, max_tokens=40)
    many = scheduler(slots=2)
    sequences = [many.add(ids, GREEDY, Timings()) for ids in asked]
    for _ in range(3):
        drive(many.step())
    many.cancel(sequences[1])
    many.cancel(sequences[2])
    run(many, sequences)
    assert sequences[0].answer == expected[0]
    assert sequences[3].answer == expected[3]
    assert len(sequences[1].answer) < 40
    assert sequences[2].answer == []
    assert many.engine.blocks.used == 0


def test_tokens_keep_coming_beside_a_long_prompt(
    alone: LLM, scheduler: Callable[..., Scheduler], rng: np.random.Generator
) -> None:
    """And a short prompt does not wait for a long one that came first."""
    asked = prompts(rng, [4, CTX - 40, 5], alone._engine.vocab)
    many = scheduler()
    first = many.add(asked[0], GREEDY, Timings())
    while len(first.answer) < 3:
        drive(many.step())
    long, short = (many.add(ids, GREEDY, Timings()) for ids in asked[1:])
    steps = 0
    while not long.answer:
        before = len(first.answer)
        drive(many.step())
        assert first.finished or len(first.answer) == before + 1
        steps += 1
        if steps == 2:
            assert short.answer
    assert steps > 2


def test_an_error_ends_all_and_the_next_request_works(
    alone: LLM, scheduler: Callable[..., Scheduler], rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = prompts(rng, [50, 60, 70], alone._engine.vocab)
    expected = answers(alone, asked, temperature=0.0, max_tokens=40)
    many = scheduler(slots=2)
    sequences = [many.add(ids, GREEDY, Timings()) for ids in asked]
    drive(many.step())

    def broken(*_: Any, **__: Any) -> None:
        raise DeviceError("the device refused it")

    with monkeypatch.context() as patch:
        patch.setattr(many.engine, "step", broken)
        with pytest.raises(DeviceError):
            for _ in range(3):
                drive(many.step())
    assert all(sequence.finished for sequence in sequences)
    assert many.engine.blocks.used == 0
    again = [many.add(ids, GREEDY, Timings()) for ids in asked]
    run(many, again)
    assert [sequence.answer for sequence in again] == expected
    assert again[0].timings.cached_tokens == 0, "what the cache held was forgotten"


def test_requests_that_cannot_be(scheduler: Callable[..., Scheduler]) -> None:
    many = scheduler()
    for ids, error in (([], RequestError), ([1 << 30], RequestError), ([1] * CTX, ContextFullError)):
        with pytest.raises(error):
            many.add(ids, GREEDY, Timings())
    nothing = many.add([1, 2], SamplingParams(max_tokens=0), Timings())
    assert nothing.finished and not many.busy


def test_more_slots_than_rows_of_a_step(
    alone: LLM, scheduler: Callable[..., Scheduler], rng: np.random.Generator
) -> None:
    """As with large models on weak adapters: nobody starves, neither who decodes nor who reads."""
    asked = prompts(rng, [5, 60, 7, 90, 3, 33, 12, 40, 9, 70, 2, 21], alone._engine.vocab)
    expected = answers(alone, asked, temperature=0.0, max_tokens=40)
    many = scheduler(slots=12)
    many.engine.prefill_rows = 8
    many.engine.plan_rows = (1, 8)
    sequences = [many.add(ids, GREEDY, Timings()) for ids in asked]
    run(many, sequences)
    assert [sequence.answer for sequence in sequences] == expected
