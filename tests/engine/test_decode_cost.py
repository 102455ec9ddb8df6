"""What a decode step asks of the GPU library, counted round the library itself."""

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wgpu_engine import LLM
from wgpu_engine.ops.builder import ceil_div
from wgpu_engine.ops.kv import KV_BLOCK

TOKENS = 24
CREATIONS = {
    "create_buffer",
    "create_bind_group",
    "create_bind_group_layout",
    "create_pipeline_layout",
    "create_shader_module",
    "create_compute_pipeline",
}


def decode_steps(llm: LLM, census: Callable[[LLM], Any], prompt: list[int]) -> list[Counter[str]]:
    """What each decode step of a warm model asks for."""
    options = {"temperature": 0, "max_tokens": TOKENS, "ignore_eos": True}
    llm.generate(prompt, **options)
    with census(llm) as counted:
        # the prompt's last rows, which the cache leaves, are one submit
        answer = llm.generate(prompt, **options)
    assert len(answer.tokens) == TOKENS
    assert len(counted.submits) == TOKENS
    assert not counted.open, "something was asked for after the last step"
    return counted.submits[1:]


@pytest.mark.parametrize("precision", ["exact", "fast"])
@pytest.mark.parametrize("context", ["short", "split over partitions"])
def test_steps_of_a_decode(
    tiny_llama: Callable[..., Path], census: Callable[[LLM], Any], precision: Any, context: str
) -> None:
    prompt = [1, *[5, 6, 7] * (3 if context == "short" else 100)]
    dispatches = {}
    for layers in (1, 3):
        path = tiny_llama(layers=layers, types={"": "Q8_0"}, biases=True)
        with LLM(path, precision=precision, ctx_size=512) as llm:
            steps = decode_steps(llm, census, prompt)
            if context == "short":
                assert llm.statistics().dispatches_per_token == steps[0]["dispatch_workgroups"]
        # the first one may write the state, which all the others share, and one in so many the table of blocks
        assert sum(step.pop("write_buffer", 0) for step in steps) <= 1 + ceil_div(TOKENS, KV_BLOCK)
        step = steps[0]
        assert all(other == step for other in steps)
        assert step["begin_compute_pass"] == step["submit"] == step["create_command_encoder"] == 1
        assert not CREATIONS & step.keys()
        assert step["copy_buffer_to_buffer"] == 1
        assert not {"read_buffer", "clear_buffer", "dispatch_workgroups_indirect"} & step.keys()
        dispatches[layers] = step["dispatch_workgroups"]
    each = (dispatches[3] - dispatches[1]) / 2
    assert each <= 8
    assert dispatches[1] - each <= 4, "embedding, head and sampling"


def test_new_blocks_of_the_cache(tiny_llama: Callable[..., Path], census: Callable[[LLM], Any]) -> None:
    """A sequence that grows out of its blocks costs one more small write, and nothing is made."""
    with LLM(tiny_llama(), ctx_size=640) as llm:
        llm.generate([1, 5], temperature=0, max_tokens=8, ignore_eos=True)
        with census(llm) as counted:
            llm.generate([1, 5], temperature=0, max_tokens=200, ignore_eos=True)
    assert not CREATIONS & counted.total.keys()
    assert len(counted.submits) == 200
    assert counted.total["write_buffer"] <= 200 // 32 + 4


@pytest.mark.model
@pytest.mark.slow
def test_host_time_of_a_step(smollm2_fast: LLM) -> None:
    """Of the engine's own thread, without the wait for tokens: the median of 200 steps, in µs."""
    found = []
    # processes that share the cores and their caches cost a thread time of its own
    busy = hasattr(os, "getloadavg") and os.getloadavg()[0] > (os.cpu_count() or 1) + 1
    for _ in range(1 if busy else 3):
        smollm2_fast._scheduler.host_seconds.clear()
        smollm2_fast.generate([1], temperature=0, max_tokens=201, ignore_eos=True)
        found.append(smollm2_fast.statistics().host_us_per_step)
        if found[-1] <= 1500:
            return
    if busy:
        pytest.skip(f"the machine is too busy to tell: a median of {found[0]:.0f} µs")
    pytest.fail(f"medians of {found} µs")
