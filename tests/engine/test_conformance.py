"""Real models beside other implementations of them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from wgpu_engine import LLM

pytestmark = pytest.mark.conformance
TEXT = Path(__file__).parents[2] / "benchmarks" / "text.txt"


def test_a_story_word_for_word(tale: LLM, story: Any) -> None:
    answer = tale.generate(story.ids, temperature=0, max_tokens=len(story.answer))
    assert answer.tokens == story.answer
    assert answer.text == story.text
    assert answer.finish_reason == "length"


@pytest.mark.parametrize("precision", ["exact", "fast"])
def test_logits_of_a_story(stories: Path, story: Any, precision: Any) -> None:
    with LLM(stories, precision=precision, ctx_size=128) as llm:
        found = llm.logits([*story.ids, *story.answer])
    assert np.abs(found - story.logits).max() < 0.05
    assert (found.argmax(axis=1) == story.logits.argmax(axis=1)).all()


@pytest.mark.model
def test_exact_with_a_cache_of_floats(smollm2: Path, capital: Any) -> None:
    with LLM(smollm2, precision="exact", kv_type="f32", ctx_size=64) as llm:
        assert np.abs(llm.logits(capital.ids) - capital.logits).max() <= 0.02
        answer = llm.generate("The capital of France is", temperature=0, max_tokens=24)
    assert answer.tokens == capital.answer
    assert answer.text == capital.text


@pytest.mark.model
def test_exact_with_a_cache_of_halves(smollm2_exact: LLM, capital: Any) -> None:
    assert np.abs(smollm2_exact.logits(capital.ids) - capital.logits).max() <= 0.05
    answer = smollm2_exact.generate(capital.ids, temperature=0, max_tokens=24)
    assert answer.tokens == capital.answer


@pytest.mark.model
def test_fast_finds_the_same_tokens(smollm2_fast: LLM, capital: Any) -> None:
    found = smollm2_fast.logits(capital.ids)
    assert (found.argmax(axis=1) == capital.logits.argmax(axis=1)).all()


def log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    """Of one row, in nats."""
    shifted = logits.astype(np.float64) - logits.max()
    return shifted - np.log(np.exp(shifted).sum())


@pytest.mark.model
def test_fast_is_near_exact_over_ordinary_text(smollm2_exact: LLM, smollm2_fast: LLM) -> None:
    """Mean Kullback-Leibler divergence over 500 tokens; llama.cpp's int8 path has 0.0033."""
    ids = smollm2_exact.tokenize(TEXT.read_text(encoding="utf-8"))[:500]
    assert len(ids) == 500

    def divergences() -> Iterator[float]:
        for exact, fast in zip(smollm2_exact.logits(ids), smollm2_fast.logits(ids), strict=True):
            p, q = log_softmax(exact), log_softmax(fast)
            yield float((np.exp(p) * (p - q)).sum())

    assert 0 < np.mean(list(divergences())) <= 0.008
