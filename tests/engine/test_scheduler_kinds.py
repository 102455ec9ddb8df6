"""Many sequences on models whose layers keep rings, or send each row to experts of its own."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.models.hf_models import config_of, write_folder
from wgpu_engine import LLM
from wgpu_engine.engine.engine import Engine
from wgpu_engine.engine.sampling import SamplingParams
from wgpu_engine.engine.scheduler import Scheduler
from wgpu_engine.engine.sequence import Sequence, Timings
from wgpu_engine.ops.kv import KV_BLOCK
from wgpu_engine.platform.drive import drive

pytestmark = pytest.mark.usefixtures("no_kernel_check")
CTX = 512
WAY: dict[str, Any] = {"temperature": 0.9, "seed": 7, "max_tokens": 90, "ignore_eos": True}


@pytest.fixture(scope="module", params=["convolutions", "windows", "some windows", "experts"])
def alone(
    request: pytest.FixtureRequest, tiny_lfm2: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LLM]:
    """The model by itself, exact."""
    length = {"max_position_embeddings": 1024}
    kinds = ["sliding_attention", "full_attention", "sliding_attention"]
    configs = {
        "windows": config_of("MistralForCausalLM", sliding_window=24, **length),
        "some windows": config_of(
            "Gemma3ForCausalLM", sliding_window=24, num_hidden_layers=3, layer_types=kinds, **length
        ),
        "experts": config_of("MixtralForCausalLM", sliding_window=None, **length),
    }
    if request.param == "convolutions":
        path = tiny_lfm2("ca", context=1024)
    else:
        path = write_folder(tmp_path_factory.mktemp("model"), configs[request.param])
    with LLM(path, precision="exact", ctx_size=CTX) as llm:
        yield llm


def test_a_batch_says_what_each_says_alone(alone: LLM, rng: np.random.Generator) -> None:
    """With beginnings in common, a cache that fills up, ends in between, and texts that are taken up again."""
    vocab = alone._engine.vocab
    system = rng.integers(0, vocab, 2 * KV_BLOCK + 9).tolist()
    prompts = [system + rng.integers(0, vocab, size).tolist() for size in (1, 30, 200, 64, 3, 150, 77)]
    prompts += [prompts[2][:-1], prompts[2] + [5, 6]]
    wanted = []
    for ids in prompts:
        alone._scheduler.reset()
        wanted.append(alone.generate(ids, **WAY).tokens)
    engine = Engine(
        alone._device, alone._engine.model, ctx_size=CTX, slots=3, kv_positions=CTX + 4 * KV_BLOCK, precision="exact"
    )
    try:
        scheduler = Scheduler(engine)
        sequences: list[Sequence] = []
        for ids in prompts:
            sequences.append(scheduler.add(ids, SamplingParams(**WAY), Timings()))
            for _ in range(int(rng.integers(1, 30))):
                drive(scheduler.step())
        # a text goes on where its answer ended
        while scheduler.busy:
            drive(scheduler.step())
        assert [sequence.answer for sequence in sequences] == wanted
        longer = [*sequences[-1].ids, 9]
        follow = scheduler.add(longer, SamplingParams(**WAY), Timings())
        while scheduler.busy:
            drive(scheduler.step())
        alone._scheduler.reset()
        assert follow.answer == alone.generate(longer, **WAY).tokens
        assert follow.timings.cached_tokens > 0
        assert engine.blocks.used == 0
    finally:
        engine.free()
