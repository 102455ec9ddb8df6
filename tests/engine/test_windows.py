"""Sliding windows over the engine: a cache that the window bounds, and sequences that are taken up again within it."""

from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.models.hf_models import config_of, write_folder
from tests.models.hf_reference import run_folder
from wgpu_engine import LLM
from wgpu_engine.engine.memory import footprint
from wgpu_engine.engine.states import MOST_ROWS
from wgpu_engine.ops.kv import KV_BLOCK
from wgpu_engine.ops.state import Row
from wgpu_engine.platform.drive import drive

pytestmark = pytest.mark.usefixtures("no_kernel_check")
WINDOW = 24
CONTEXT = 1024
RING = 160
"""positions: a window's but one and a plan's, in whole blocks"""
GREEDY: dict[str, Any] = {"temperature": 0, "ignore_eos": True}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """All layers with a window, and some."""
    mistral = config_of("MistralForCausalLM", sliding_window=WINDOW, max_position_embeddings=CONTEXT)
    kinds = ["sliding_attention", "full_attention", "sliding_attention"]
    gemma = config_of("Gemma3ForCausalLM", sliding_window=WINDOW, num_hidden_layers=3, layer_types=kinds)
    folders = {"all": mistral, "some": gemma}
    return {name: write_folder(tmp_path_factory.mktemp(name), config) for name, config in folders.items()}


@pytest.fixture(scope="module", params=["all", "some"])
def windowed(folders: dict[str, Path], request: pytest.FixtureRequest) -> Iterator[tuple[LLM, Path]]:
    path = folders[request.param]
    with LLM(path, precision="exact", kv_type="f32", ctx_size=CONTEXT) as llm:
        yield llm, path


def test_the_window_bounds_the_cache(windowed: tuple[LLM, Path], folders: dict[str, Path]) -> None:
    llm, path = windowed
    engine = llm._engine
    layers = len(engine.cache.layers)
    with_ring = 2 if path == folders["some"] else layers
    assert [ring for ring in engine.cache.rings if ring] == [RING] * with_ring
    sizes = [buffer.size for buffer in engine.cache.layers]
    assert set(sizes) == {min(sizes), *([min(sizes) * CONTEXT // RING] if with_ring < layers else [])}
    description = engine.model.description
    assert footprint(description, 0, CONTEXT, "f32").kv == sum(sizes)
    longer = footprint(description, 0, 16 * CONTEXT, "f32").kv
    assert (longer == sum(sizes)) == (with_ring == layers)
    assert RING % KV_BLOCK == 0 and MOST_ROWS + WINDOW - 1 <= RING


def test_far_beyond_the_window(windowed: tuple[LLM, Path], rng: np.random.Generator) -> None:
    """Logits of a prompt that goes round the ring several times."""
    llm, path = windowed
    ids = rng.integers(0, 500, 500).tolist()
    found = llm.logits(ids)
    assert np.abs(found - run_folder(path, ids)).max() < 1e-4
    engine, each = llm._engine, []
    for position in range(300):
        each += drive(engine.logits([Row(ids[position], position, 0)], position + 1))
    assert b"".join(each) == found[:300].tobytes(), "token by token"


def test_no_ring_where_the_context_is_shorter(folders: dict[str, Path], rng: np.random.Generator) -> None:
    ids = rng.integers(0, 500, 150).tolist()
    found = []
    for ctx_size in (RING, CONTEXT):
        with LLM(folders["all"], precision="exact", ctx_size=ctx_size) as llm:
            assert any(llm._engine.cache.rings) == (ctx_size == CONTEXT)
            found.append(llm.logits(ids))
    assert np.array_equal(*found)


def fresh(llm: LLM, ids: list[int], **options: Any) -> list[int]:
    """Tokens that follow where nothing is cached."""
    llm.logits([1])
    return llm.generate(ids, **options).tokens


def test_as_far_back_as_the_ring_goes(windowed: tuple[LLM, Path], rng: np.random.Generator) -> None:
    llm, _ = windowed
    rewind = llm._engine.rewind
    assert rewind == RING - WINDOW + 1
    ids = rng.integers(3, 500, 400).tolist()
    # a token is sampled and one read
    for back, kept in ((rewind - 1, True), (rewind, True), (rewind + 1, False), (rewind + 60, False)):
        fresh(llm, ids, max_tokens=1, **GREEDY)
        prompt = [*ids[: len(ids) - back], 7, 8, 9]
        answer = llm.generate(prompt, max_tokens=10, **GREEDY)
        assert answer.timings.cached_tokens == (len(ids) - back if kept else 0)
        assert answer.tokens == fresh(llm, prompt, max_tokens=10, **GREEDY)


def test_any_history_gives_the_same_answer(windowed: tuple[LLM, Path], rng: np.random.Generator) -> None:
    """Answers that are closed at any token, prompts that share any beginning with them, near and far."""
    llm, _ = windowed
    last = rng.integers(3, 500, 200).tolist()
    reused = recomputed = 0
    for _ in range(16):
        back = int(rng.integers(0, min(len(last), 260)))
        prompt = [*last[: len(last) - back], *rng.integers(3, 500, int(rng.integers(1, 30))).tolist()]
        with closing(llm.generate(prompt, stream=True, max_tokens=60, **GREEDY)) as stream:
            chunks = list(islice(stream, int(rng.choice([1, 2, 5, 60]))))
        last = prompt + [token for chunk in chunks for token in chunk.tokens]
        follow = [*last[: len(last) - int(rng.integers(0, 20))], 200]
        answer = llm.generate(follow, max_tokens=8, **GREEDY)
        cached = answer.timings.cached_tokens
        reused, recomputed = reused + (cached > 0), recomputed + (cached == 0)
        assert answer.tokens == fresh(llm, follow, max_tokens=8, **GREEDY)
        llm.generate(last[:-1], max_tokens=1, **GREEDY)
    assert reused > 5
