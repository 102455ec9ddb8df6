"""Matrices of F32, which `fast` keeps as F16."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from wgpu_engine import LLM
from wgpu_engine.engine.memory import weight_bytes
from wgpu_engine.errors import UnsupportedModelError
from wgpu_engine.files.opening import open_any
from wgpu_engine.platform.drive import drive

pytestmark = pytest.mark.usefixtures("no_kernel_check")
Write = Callable[..., Path]
NAMES = (
    "token_embd",
    "output",
    *(f"attn_{part}" for part in ("q", "k", "v", "output")),
    "ffn_up",
    "ffn_gate",
    "ffn_down",
)


def test_fast_reads_half_and_answers_the_same(tiny_llama: Write) -> None:
    path = tiny_llama(types=dict.fromkeys(NAMES, "F32"))
    logits, read = {}, {}
    for precision in ("exact", "fast"):
        with LLM(path, ctx_size=32, precision=precision) as llm:
            assert llm.warnings == []
            logits[precision] = llm.logits([1, 5, 9, 200])[-1].astype(np.float64)
            read[precision] = llm.statistics().weight_bytes_per_token
    exact, fast = logits["exact"], logits["fast"]
    assert exact @ fast / np.linalg.norm(exact) / np.linalg.norm(fast) > 0.999999
    assert (exact != fast).any()
    assert read["fast"] == read["exact"] // 2


def test_what_weights_take(tiny_llama: Write) -> None:
    with drive(open_any(tiny_llama(types=dict.fromkeys(NAMES, "F32")))) as file:
        tensors = list(file.tensors.values())
        matrices = sum(tensor.nbytes for tensor in tensors if len(tensor.shape) == 2)
        assert weight_bytes(tensors, "exact") == file.tensor_bytes > matrices > 0
        assert weight_bytes(tensors, "fast") == file.tensor_bytes - matrices // 2


def test_values_beyond_halves_take_exact(tiny_llama: Write) -> None:
    values = np.zeros((64, 64), np.float32)
    values[63, 63] = 1e6
    path = tiny_llama(tensors={"blk.1.attn_q.weight": values})
    with pytest.raises(
        UnsupportedModelError, match=r"blk\.1\.attn_q\.weight holds values beyond 65504.*precision exact$"
    ):
        LLM(path, ctx_size=32)
    with LLM(path, ctx_size=32, precision="exact") as llm:
        assert llm.warnings == []
