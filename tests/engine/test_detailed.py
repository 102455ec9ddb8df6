"""Biases and log-probabilities of sequences, alone and beside others that ask for neither."""

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
from wgpu_engine.errors import RequestError
from wgpu_engine.platform.drive import drive

CTX = 320
WAY: dict[str, Any] = {"temperature": 0.0, "ignore_eos": True, "max_tokens": 12}


@pytest.fixture(scope="module")
def llm(tiny_llama: Callable[..., Path]) -> Iterator[LLM]:
    with LLM(tiny_llama(), precision="exact", ctx_size=CTX) as opened:
        yield opened


def log_softmax(logits: Any) -> Any:
    values = logits.astype(np.float64) - logits.max()
    return values - np.log(np.exp(values).sum())


@pytest.mark.parametrize("way", [{}, {"temperature": 1.3, "seed": 5}, {"repetition_penalty": 1.8}])
def test_are_the_softmax_of_the_models_own_logits(llm: LLM, rng: np.random.Generator, way: dict[str, Any]) -> None:
    """Whatever penalties, biases and temperature make of them."""
    prompt = rng.integers(3, 250, 40).tolist()
    found = llm.generate(prompt, logprobs=7, logit_bias={5: 3.0, 6: -100}, **(WAY | way))
    assert found.logprobs is not None and len(found.logprobs) == len(found.tokens) == 12
    rows = llm.logits([*prompt, *found.tokens])[len(prompt) - 1 : -1]
    for row, token, each in zip(rows, found.tokens, found.logprobs, strict=True):
        wanted = log_softmax(row)
        order = np.lexsort((np.arange(len(row)), -row))[:7]
        assert [token for token, _ in each.top] == order.tolist()
        np.testing.assert_allclose([value for _, value in each.top], wanted[order], atol=4e-6)
        np.testing.assert_allclose(each.log_prob, wanted[token], atol=4e-6)


def test_a_bias_is_added_before_anything_else(llm: LLM, rng: np.random.Generator) -> None:
    prompt = rng.integers(3, 250, 20).tolist()
    bias = {int(token): float(value) for token, value in zip(range(10, 200), rng.uniform(-9, 9, 190), strict=True)}
    found = llm.generate(prompt, logit_bias=bias, **WAY).tokens
    rows = llm.logits([*prompt, *found])[len(prompt) - 1 : -1].copy()
    for token, value in bias.items():
        rows[:, token] += np.float32(value)
    assert found == rows.argmax(axis=1).tolist()
    assert found != llm.generate(prompt, **WAY).tokens
    assert set(llm.generate(prompt, logit_bias={77: 100}, **WAY).tokens) == {77}
    banned = llm.generate(prompt, **WAY).tokens[0]
    assert banned not in llm.generate(prompt, logit_bias={banned: -100}, **WAY).tokens


def test_nothing_asked_for_is_nothing_told(llm: LLM) -> None:
    assert llm.generate([5, 6], **WAY).logprobs is None
    assert all(chunk.logprobs is None for chunk in llm.generate([5, 6], stream=True, logit_bias={1: 1}, **WAY))
    found = llm.generate([5, 6], logprobs=0, **WAY)
    assert found.logprobs is not None and all(each.top == [] for each in found.logprobs)
    assert found.tokens == llm.generate([5, 6], **WAY).tokens


def test_chunks_carry_those_of_their_tokens(llm: LLM) -> None:
    whole = llm.generate("the tin", logprobs=2, **WAY)
    chunks = list(llm.generate("the tin", stream=True, logprobs=2, **WAY))
    assert all(len(chunk.logprobs or ()) == len(chunk.tokens) for chunk in chunks)
    assert [each for chunk in chunks for each in chunk.logprobs or ()] == whole.logprobs


def test_a_token_that_there_is_not(llm: LLM) -> None:
    with pytest.raises(RequestError, match="logit_bias has a token outside the vocabulary"):
        llm.generate("the", logit_bias={1 << 20: 1.0})


def test_each_sequence_of_a_batch_has_its_own(llm: LLM, rng: np.random.Generator) -> None:
    """The same bits as alone, with preemption, beside sequences that ask for nothing."""
    asked = [rng.integers(3, 250, size).tolist() for size in (60, 61, 62, 63, 5)]
    ways: list[dict[str, Any]] = [
        {"logprobs": 3},
        {"temperature": 0.8, "seed": 3},
        {"logit_bias": {9: 5.0, 70: 8.0}, "repetition_penalty": 1.4},
        {"logprobs": 20, "logit_bias": {5: 7.5}, "temperature": 1.1, "seed": 4},
        {"logprobs": 0},
    ]
    ways = [{"temperature": 0.0, "ignore_eos": True, "max_tokens": 100} | way for way in ways]
    alone = [llm.generate(ids, **way) for ids, way in zip(asked, ways, strict=True)]
    engine = Engine(llm._device, llm._engine.model, ctx_size=CTX, slots=4, kv_positions=CTX + 64, precision="exact")
    scheduler = Scheduler(engine)
    sequences: list[Sequence] = [
        scheduler.add(ids, SamplingParams(**way), Timings()) for ids, way in zip(asked, ways, strict=True)
    ]
    while not all(sequence.finished for sequence in sequences):
        drive(scheduler.step())
    assert max(sequence.starts for sequence in sequences) > 1, "the cache was never full"
    for sequence, wanted, way in zip(sequences, alone, ways, strict=True):
        assert sequence.answer == wanted.tokens
        told = [each for _, each in sequence.tokens]
        assert told == (wanted.logprobs if "logprobs" in way else [None] * 100)
    engine.free()


def test_who_does_not_ask_pays_nothing(llm: LLM, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds: list[str] = []
    recorded = llm._engine._recorded

    async def noted(rows: int, outputs: int, end: Any, reach: int) -> Any:
        kinds.append(end)
        return await recorded(rows, outputs, end, reach)

    monkeypatch.setattr(llm._engine, "_recorded", noted)
    llm.generate([5, 6], logprobs=2, **WAY)
    assert set(kinds) == {"detailed"}
    kinds.clear()
    llm.generate([5, 6], **WAY)
    assert set(kinds) == {"sample"}


def test_a_prompt_is_read_anew_where_that_is_asked_for(llm: LLM, rng: np.random.Generator) -> None:
    prompt = rng.integers(3, 250, 100).tolist()
    first = llm.generate(prompt, **WAY)
    assert llm.generate(prompt, **WAY).timings.cached_tokens > 60
    again = llm.generate(prompt, cache_prompt=False, **WAY)
    assert again.timings.cached_tokens == 0 and again.tokens == first.tokens
