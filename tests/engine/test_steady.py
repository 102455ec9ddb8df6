"""Nothing piles up, and small adapters do what large ones do."""

import gc
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wgpu_engine.engine.opening
import wgpu_engine.ops.repack
from wgpu_engine import LLM
from wgpu_engine.engine.memory import footprint
from wgpu_engine.errors import ContextFullError, RequestError
from wgpu_engine.files.model_file import open_model
from wgpu_engine.files.quants import QuantType
from wgpu_engine.gpu.device import Limits
from wgpu_engine.gpu.native import NativeDevice, open_device
from wgpu_engine.models.registry import describe
from wgpu_engine.ops.weight import split_features
from wgpu_engine.platform.drive import drive

pytestmark = pytest.mark.usefixtures("no_kernel_check")
GREEDY = {"temperature": 0, "ignore_eos": True}


def anonymous_kib() -> int:
    """Memory of this process that no file stands behind."""
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("only Linux tells")
    return int(re.findall(r"RssAnon:\s+(\d+) kB", status.read_text(encoding="ascii"))[0])


def test_two_hundred_generations(stories: Path) -> None:
    """Whole ones, streams that are closed early, stop strings, penalties, logits, refusals: nothing is left behind."""
    with LLM(stories, ctx_size=256) as llm:

        def a_round(seed: int) -> None:
            llm.generate("Once", seed=seed, max_tokens=12)
            with closing(llm.generate([1, 3 + seed % 500], stream=True)) as stream:
                next(stream)
            llm.generate("Lily", seed=seed, max_tokens=20, stop=[" the", "a"], repetition_penalty=1.2)
            list(islice(llm.generate("One day", stream=True, seed=seed, max_tokens=6), 3))
            llm.generate([1] * 100, max_tokens=0)
            with pytest.raises(RequestError):
                llm.generate([])

        for seed in range(8):
            a_round(seed)
        gc.collect()
        buffers, memory = llm.statistics().buffers, anonymous_kib()
        for seed in range(40):
            a_round(seed)
        gc.collect()
        assert llm.statistics().buffers == buffers
        assert anonymous_kib() - memory < 4096


def test_buffers_return_to_zero(tiny_llama: Callable[..., Path]) -> None:
    llm = LLM(tiny_llama(), ctx_size=64)
    llm.generate([1], max_tokens=4)
    stream = llm.generate([1], stream=True)
    next(stream)
    assert llm.statistics().buffers > 0
    llm.close()
    assert llm._device.buffers == 0
    stream.close()
    llm.close()
    assert llm._device.buffers == 0


def test_a_load_that_fails_leaves_nothing(tiny_llama: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[NativeDevice] = []

    async def remembered(selector: Any) -> NativeDevice:
        opened.append(await open_device(selector))
        return opened[-1]

    monkeypatch.setattr(wgpu_engine.engine.opening, "open_device", remembered)
    with pytest.raises(Exception, match="missing"):
        LLM(tiny_llama(tensors={"blk.1.ffn_down.weight": None}))
    assert [device.buffers for device in opened] == [0]


def test_prompts_of_every_length(tale: LLM) -> None:
    ids = [1, *[403, 407, 261, 378] * 512]
    answers = {}
    for length in (1, 2, 127, 128, 129, 257, 2000, 2047):
        answer = tale.generate(ids[:length], max_tokens=None if length >= 2000 else 5, **GREEDY)
        assert answer.finish_reason == "length"
        assert len(answer.tokens) == (2048 - length if length >= 2000 else 5), f"after a prompt of {length}"
        answers[length] = answer.tokens[0]
    wanted = tale.logits(ids[:2047]).argmax(axis=1)
    assert answers == {length: wanted[length - 1] for length in answers}
    for length in (2048, 2049):
        with pytest.raises(ContextFullError, match=rf"{length} tokens .* 2048"):
            tale.generate(ids[:length])
    assert tale.generate(ids[:2048], max_tokens=0).tokens == []
    assert tale.generate(ids[:20], max_tokens=3, **GREEDY).tokens


def test_empty_prompts(tiny: LLM, tiny_llama: Callable[..., Path]) -> None:
    """A text without characters is its BOS token; without one there is nothing to go on from."""
    assert tiny.generate("", max_tokens=2, **GREEDY).tokens
    with LLM(tiny_llama(vocabulary="gpt2"), ctx_size=32) as llm:
        for prompt in ("", []):
            with pytest.raises(RequestError, match="empty"):
                llm.generate(prompt)


@pytest.fixture
def opened_with(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Has LLMs open a device of these limits, or take it for one of smaller bindings, or for one without subgroups."""

    def use(limits: Limits | None = None, binding_bytes: int | None = None, subgroups: bool = True) -> None:
        async def opened(selector: Any) -> NativeDevice:
            device = await open_device(selector, limits)
            if not subgroups:
                device.subgroup_size = 0
            return device

        monkeypatch.setattr(wgpu_engine.engine.opening, "open_device", opened)
        if binding_bytes:
            # of weights alone: the cache has to fit a binding
            def split(
                quant: QuantType, features: int, k: int, ports: int, limit: int, experts: int
            ) -> list[tuple[int, int]]:
                return split_features(quant, features, k, ports, min(limit, binding_bytes), experts)

            monkeypatch.setattr(wgpu_engine.ops.repack, "split_features", split)

    return use


@pytest.fixture(scope="module")
def mixed(tiny_llama: Callable[..., Path]) -> Path:
    """A llama with several types."""
    return tiny_llama(types={"attn_v": "Q8_0", "attn": "Q4_0", "ffn_down": "F16", "ffn": "Q4_0", "token": "Q8_0"})


def greedy(path: Path, **options: Any) -> tuple[list[int], Any]:
    """Tokens after a prompt that reaches over partitions, and the logits of the prompt's last positions."""
    ids = [1, *[70, 75, 80, 85, 90] * 55]
    with LLM(path, ctx_size=384, **options) as llm:
        return llm.generate(ids, max_tokens=40, **GREEDY).tokens, llm.logits(ids)[-20:]


@pytest.fixture(scope="module")
def wanted(mixed: Path) -> Callable[[str], tuple[list[int], Any]]:
    """What an adapter with all that it has makes of it, by precision."""
    return cache(lambda precision: greedy(mixed, precision=precision))


@pytest.mark.parametrize("precision", ["exact", "fast"])
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"limits": Limits()}, id="default limits of WebGPU"),
        pytest.param({"binding_bytes": 8 << 10}, id="matrices in parts"),
    ],
)
def test_small_adapters(
    mixed: Path, opened_with: Callable[..., None], wanted: Callable[[str], Any], precision: Any, changes: dict[str, Any]
) -> None:
    tokens, logits = wanted(precision)
    opened_with(**changes)
    found = greedy(mixed, precision=precision)
    assert found[0] == tokens
    np.testing.assert_array_equal(found[1], logits)


def test_parts(mixed: Path, opened_with: Callable[..., None]) -> None:
    """What the test above stands on."""
    opened_with(binding_bytes=8 << 10)
    with LLM(mixed, ctx_size=32) as llm:
        model = llm._engine.model
        assert len(model.ends.embedding.parts) > 1
        assert len(model.ends.head.weights[0].parts) > 4


def test_no_subgroups(mixed: Path, opened_with: Callable[..., None], wanted: Callable[[str], Any]) -> None:
    tokens, logits = wanted("exact")
    opened_with(subgroups=False)
    found = greedy(mixed, precision="exact")
    assert found[0] == tokens
    np.testing.assert_allclose(found[1], logits, rtol=0, atol=1e-4)


LOADING = """
import re, sys, threading
def anonymous():
    with open("/proc/self/status") as lines:
        return int(re.findall(r"RssAnon:\\s+(\\d+) kB", lines.read())[0]) * 1024
bare = most = anonymous()
done = False
def watch():
    global most
    while not done:
        most = max(most, anonymous())
        pause.wait(0.005)
pause = threading.Event()
thread = threading.Thread(target=watch)
thread.start()
from wgpu_engine import LLM
llm = LLM(sys.argv[1], ctx_size=512)
done = True
thread.join()
print(most - bare)
"""


@pytest.mark.model
def test_no_second_copy_while_loading(smollm2: Path) -> None:
    """Memory without a file behind it, above the bare interpreter's; buffers of a CPU adapter are part of it.

    The second start finds what the driver compiled for the first, whose memory is not at issue.
    """
    anonymous_kib()
    command = [sys.executable, "-c", LOADING, smollm2]
    peaks = [int(subprocess.run(command, capture_output=True, text=True, check=True).stdout) for _ in range(2)]
    with drive(open_model(smollm2)) as file:
        cache = footprint(describe(file.metadata, file.tensors), file.tensor_bytes, 512, "f16").kv
        assert peaks[1] <= 1.1 * file.tensor_bytes + cache + 150e6
