"""Sequences that are taken up again where layers keep only the last positions."""

from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wgpu_engine import LLM

GREEDY = {"temperature": 0, "ignore_eos": True}


@pytest.fixture(scope="module")
def llm(no_kernel_check: None, tiny_lfm2: Callable[..., Path]) -> Iterator[LLM]:
    with LLM(tiny_lfm2("ca", context=1024), precision="exact", ctx_size=512) as opened:
        yield opened


def fresh(llm: LLM, prompt: list[int], **options: Any) -> list[int]:
    """An answer that nothing in the cache was used for."""
    llm.logits([1])
    answer = llm.generate(prompt, **options)
    assert answer.timings.cached_tokens == 0
    return list(answer.tokens)


@pytest.mark.parametrize("back", [0, 1, 127, 128, 129, 300])
def test_how_far_back(llm: LLM, rng: np.random.Generator, back: int) -> None:
    ids = rng.integers(3, 250, 400).tolist()
    changed = [*ids[: 400 - back], 1, 2, *rng.integers(3, 250, 5).tolist()]
    wanted = fresh(llm, changed, max_tokens=8, **GREEDY)
    llm.logits([1])
    llm.generate(ids, max_tokens=1, **GREEDY)
    answer = llm.generate(changed, max_tokens=8, **GREEDY)
    assert answer.timings.cached_tokens == (400 - back if back <= 128 else 0)
    assert list(answer.tokens) == wanted


def test_going_back_again_and_again(llm: LLM, rng: np.random.Generator) -> None:
    """What was written farthest counts, also before an earlier return."""
    ids = rng.integers(3, 250, 400).tolist()
    llm.logits([1])
    llm.generate(ids, max_tokens=1, **GREEDY)
    first, second = [*ids[:300], 1], [*ids[:250], 2]
    assert llm.generate(first, max_tokens=1, **GREEDY).timings.cached_tokens == 300
    answer = llm.generate(second, max_tokens=4, **GREEDY)
    assert answer.timings.cached_tokens == 0
    assert list(answer.tokens) == fresh(llm, second, max_tokens=4, **GREEDY)


def test_any_history_gives_the_same_answer(llm: LLM, rng: np.random.Generator) -> None:
    """Answers read to their end or closed at any token, prompts that share any beginning with them."""
    last: list[int] = [1]
    reused = 0
    for _ in range(12):
        kept = int(rng.integers(0, len(last) + 1))
        prompt = [1, *last[1:kept], *rng.integers(3, 250, int(rng.integers(0, 150))).tolist()][:400]
        with closing(llm.generate(prompt, stream=True, max_tokens=30, **GREEDY)) as stream:
            got = [token for chunk in islice(stream, int(rng.choice([1, 3, 40]))) for token in chunk.tokens]
        last = prompt + got
        follow = [*last, 200]
        answer = llm.generate(follow, max_tokens=12, **GREEDY)
        reused += answer.timings.cached_tokens
        assert list(answer.tokens) == fresh(llm, follow, max_tokens=12, **GREEDY)
    assert reused > 100
