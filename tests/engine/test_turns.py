"""Answers one after another: from threads, after streams that were left, interrupts, losses and closing."""

import threading
from collections.abc import Callable
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.engine.answering import GREEDY, fresh, joined
from wgpu_engine import LLM
from wgpu_engine.errors import DeviceLostError, RequestError
from wgpu_engine.gpu.native import NativeDevice


def test_a_stream_that_is_closed_early(tale: LLM) -> None:
    wanted = tale.generate([1], temperature=0, max_tokens=30).tokens
    for count in (1, 2, 4):
        with closing(tale.generate([1], temperature=0, stream=True)) as stream:
            list(islice(stream, count))
        assert tale.generate([1], temperature=0, max_tokens=30).tokens == wanted
    for _chunk in tale.generate([1], temperature=0, stream=True):
        break
    tale.generate([1], temperature=0, stream=True)
    assert tale.generate([1], temperature=0, max_tokens=30).tokens == wanted


def test_another_answer_while_one_is_streamed(tiny: LLM) -> None:
    with closing(tiny.generate([1], stream=True, **GREEDY)) as stream:
        next(stream)
        for call in (
            lambda: tiny.generate([1]),
            lambda: next(tiny.generate([1], stream=True)),
            lambda: tiny.logits([1]),
        ):
            with pytest.raises(RequestError, match="still being streamed"):
                call()
        assert next(stream).tokens
    assert tiny.generate([1], max_tokens=2, **GREEDY).tokens


def test_threads_take_turns(tiny: LLM) -> None:
    prompts = [[1, 70 + i] for i in range(4)]
    wanted = [tiny.generate(prompt, max_tokens=30, **GREEDY).tokens for prompt in prompts]
    found: dict[int, list[int]] = {}

    def work(i: int) -> None:
        chunks = list(tiny.generate(prompts[i], stream=True, max_tokens=30, **GREEDY))
        found[i] = joined(chunks)[1]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [found[i] for i in range(4)] == wanted


@pytest.mark.parametrize("call", ["write", "run", "run_and_read", "receive"])
def test_interrupts_anywhere(tiny: LLM, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator, call: str) -> None:
    """Ctrl-C before any call of the device: the model goes on as if nothing had been."""
    prompt = [1, *range(40, 240)]
    wanted = fresh(tiny, prompt, max_tokens=40, **GREEDY).tokens
    original = getattr(NativeDevice, call)
    left = 0

    def interrupting(*args: Any) -> Any:
        nonlocal left
        left -= 1
        if left == 0:
            raise KeyboardInterrupt
        return original(*args)

    interrupted = 0
    # few writes, many steps
    for at in range(1, 9) if call == "write" else range(1, 50, 5):
        tiny._scheduler.reset()
        # other blocks than before, so that a table that was not written shows
        pool = tiny._engine.blocks
        pool._free = rng.permutation(pool._free).tolist()
        left = at
        with monkeypatch.context() as patch:
            patch.setattr(NativeDevice, call, interrupting)
            try:
                tiny.generate(prompt, max_tokens=40, **GREEDY)
            except KeyboardInterrupt:
                interrupted += 1
        assert tiny.generate(prompt, max_tokens=40, **GREEDY).tokens == wanted, f"after an interrupt at call {at}"
    assert interrupted


def test_a_lost_device(tiny_llama: Callable[..., Path]) -> None:
    path = tiny_llama()
    with LLM(path, ctx_size=64) as llm:
        wanted = llm.generate([1], max_tokens=8, **GREEDY).tokens
        stream = llm.generate([1], stream=True, **GREEDY)
        next(stream)
        llm._device._device.destroy()
        for call in (lambda: list(stream), lambda: llm.generate([1]), lambda: llm.logits([1])):
            with pytest.raises(DeviceLostError, match=r"device was lost.*load the model again"):
                call()
    assert llm._device.buffers == 0
    with LLM(path, ctx_size=64) as again:
        assert again.generate([1], max_tokens=8, **GREEDY).tokens == wanted


def test_after_close(tiny_llama: Callable[..., Path]) -> None:
    llm = LLM(tiny_llama(), ctx_size=32)
    llm.close()
    for call in (lambda: llm.generate([1]), lambda: llm.chat([]), lambda: llm.logits([1]), lambda: llm.agenerate("a")):
        with pytest.raises(RequestError, match="closed"):
            call()
    assert llm.tokenize("the")


def test_closed_under_an_answer(tiny_llama: Callable[..., Path]) -> None:
    """By another thread: the answer ends with an error, and nothing crashes."""
    llm = LLM(tiny_llama(), ctx_size=1024)
    begun, errors = threading.Event(), []

    def work() -> None:
        try:
            for _ in llm.generate([1], stream=True, **GREEDY):
                begun.set()
        except DeviceLostError as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    assert begun.wait(60)
    llm.close()
    thread.join(60)
    assert len(errors) == 1
    assert llm._device.buffers == 0
