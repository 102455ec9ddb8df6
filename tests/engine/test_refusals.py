"""What cannot run is refused in one sentence, and leaves nothing behind."""

import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from numpy.typing import NDArray

import wgpu_engine.engine.opening
from wgpu_engine import LLM
from wgpu_engine.errors import (
    EngineError,
    ModelFileError,
    NoAdapterError,
    OutOfMemoryError,
    RequestError,
    UnsupportedModelError,
)
from wgpu_engine.gpu import adapters
from wgpu_engine.gpu.device import Limits
from wgpu_engine.gpu.native import NativeDevice, open_device

pytestmark = pytest.mark.usefixtures("no_kernel_check")
Write = Callable[..., Path]


def refusal(kind: type[EngineError], path: Path, **options: Any) -> str:
    with pytest.raises(kind) as caught:
        LLM(path, **{"ctx_size": 32, **options})
    text = str(caught.value)
    assert "\n" not in text
    assert ". " not in text, "one sentence"
    assert 20 < len(text) < 300
    return text


def test_unsupported_architecture(tiny_llama: Write) -> None:
    text = refusal(UnsupportedModelError, tiny_llama(architecture="mamba"))
    assert "'mamba'" in text
    assert re.search(r"supported: .*\bllama\b", text)


@pytest.mark.parametrize(
    "name",
    [
        "token_embd.weight",
        "output_norm.weight",
        *(f"blk.1.{name}.weight" for name in ("attn_norm", "attn_q", "attn_k", "attn_v", "attn_output")),
        *(f"blk.0.{name}.weight" for name in ("ffn_norm", "ffn_gate", "ffn_up", "ffn_down")),
    ],
)
def test_missing_tensor(tiny_llama: Write, name: str) -> None:
    text = refusal(ModelFileError, tiny_llama(tensors={name: None}))
    assert f"{name} is missing" in text


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("blk.0.attn_q.weight", (64, 96)),
        ("blk.0.attn_k.weight", (64, 64)),
        ("blk.1.ffn_down.weight", (96, 64)),
        ("blk.1.ffn_norm.weight", (32,)),
        ("output_norm.weight", (1, 64)),
        ("output.weight", (278, 64)),
        ("rope_freqs.weight", (15,)),
        ("blk.0.attn_q.bias", (32,)),
        ("token_embd.weight", (64,)),
        ("token_embd.weight", (279, 32)),
    ],
)
def test_wrong_shape(tiny_llama: Write, name: str, shape: tuple[int, ...]) -> None:
    text = refusal(ModelFileError, tiny_llama(tensors={name: np.ones(shape, np.float32)}))
    assert name in text
    assert str(list(shape)) in text


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"attention.head_count": 0}, "head_count"),
        ({"attention.head_count": 1 << 20}, "head_count"),
        ({"attention.head_count": "two"}, "head_count"),
        ({"attention.head_count": None}, "head_count is missing"),
        ({"attention.head_count": [2, 3]}, "head_count"),
        ({"attention.head_count": 3, "attention.head_count_kv": 2}, "3 heads over 2"),
        ({"attention.head_count": 128, "attention.head_count_kv": 1, "attention.key_length": None}, "attention"),
        ({"attention.key_length": 33, "rope.dimension_count": 32}, "33"),
        ({"attention.key_length": 4, "rope.dimension_count": 4}, "4 values"),
        ({"rope.dimension_count": 64}, "64 of them"),
        ({"rope.dimension_count": 7}, "7 of them"),
        ({"block_count": 0}, "block_count"),
        ({"block_count": 3}, "blk.2."),
        ({"block_count": 4096}, "blk.2."),
        ({"block_count": 1 << 31}, "block_count"),
        ({"block_count": None}, "block_count is missing"),
        ({"embedding_length": 128}, "[128]"),
        ({"embedding_length": 0}, "embedding_length"),
        ({"feed_forward_length": 97}, "ffn_gate"),
        ({"feed_forward_length": None}, "feed_forward_length"),
        ({"attention.layer_norm_rms_epsilon": 0.0}, "epsilon"),
        ({"attention.layer_norm_rms_epsilon": float("nan")}, "epsilon"),
        ({"rope.freq_base": -1.0}, "freq_base"),
        ({"rope.freq_base": 1e-40}, "freq_base"),
        ({"rope.freq_base": 0.5}, "RoPE base"),
        ({"rope.scaling.type": "linear", "rope.scaling.factor": 0.0}, "scaling.factor"),
        ({"context_length": 0}, "context_length"),
    ],
)
def test_absurd_settings(tiny_llama: Write, settings: dict[str, Any], word: str) -> None:
    assert word in refusal(ModelFileError, tiny_llama(metadata=settings), memory_budget=1 << 40)


def test_unknown_rope_scaling(tiny_llama: Write) -> None:
    text = refusal(UnsupportedModelError, tiny_llama(metadata={"rope.scaling.type": "spiral"}))
    assert "'spiral'" in text


def test_rope_factors_that_cannot_be(tiny_llama: Write) -> None:
    assert "RoPE factors" in refusal(ModelFileError, tiny_llama(rope_factors=[1.0] * 15 + [0.0]))


def test_a_vocabulary_of_another_size(tiny_llama: Write) -> None:
    more = {name: np.ones((280, 64), np.float32) for name in ("token_embd.weight", "output.weight")}
    text = refusal(ModelFileError, tiny_llama(tensors=more))
    assert "279 tokens" in text
    assert "280 embeddings" in text


def flawed(name: str, offset: int, data: bytes) -> Callable[[str, NDArray[np.uint8]], None]:
    """Puts bytes into the first row of a tensor."""

    def change(found: str, raw: NDArray[np.uint8]) -> None:
        if found == name:
            raw[0, offset : offset + len(data)] = np.frombuffer(data, np.uint8)

    return change


@pytest.mark.parametrize(
    ("kind", "offset", "data"),
    [
        ("F32", 4 * 63, struct.pack("<f", float("nan"))),
        ("F16", 2, struct.pack("<e", float("inf"))),
        ("BF16", 4, b"\xc0\x7f"),
        ("Q8_0", 34, struct.pack("<e", float("nan"))),
        ("Q4_0", 0, struct.pack("<e", float("inf"))),
        ("Q5_1", 2, struct.pack("<e", float("nan"))),
    ],
)
def test_weights_that_are_no_numbers(tiny_llama: Write, kind: str, offset: int, data: bytes) -> None:
    """Their owner is warned of them, in the scales of blocks too."""
    name = "blk.1.ffn_up.weight"
    with LLM(tiny_llama(types={"ffn_up": kind}, raw=flawed(name, offset, data)), ctx_size=32) as llm:
        assert len(llm.warnings) == 1
        assert name in llm.warnings[0]
        assert "NaN" in llm.warnings[0]
        assert len(llm.generate([1], max_tokens=3, ignore_eos=True).tokens) == 3
    with LLM(tiny_llama(types={"ffn_up": kind}), ctx_size=32) as llm:
        assert llm.warnings == []


def test_a_norm_that_is_no_number(tiny_llama: Write) -> None:
    values = np.ones(64, np.float32)
    values[63] = np.nan
    with LLM(tiny_llama(tensors={"blk.0.attn_norm.weight": values}), ctx_size=32) as llm:
        assert "blk.0.attn_norm.weight" in llm.warnings[0]


def test_a_model_larger_than_the_memory(tiny_llama: Write) -> None:
    path = tiny_llama()
    text = refusal(OutOfMemoryError, path, memory_budget=1 << 20)
    assert "1 MiB are free" in text
    assert "--ctx-size" in text
    text = refusal(OutOfMemoryError, path, ctx_size=1 << 24, memory_budget=1 << 30)
    assert "for a context of 16777216" in text


def test_a_context_larger_than_a_buffer(tiny_llama: Write) -> None:
    """Where nothing tells how much memory there is, the buffer itself is refused."""
    assert "ctx-size" in refusal(OutOfMemoryError, tiny_llama(), ctx_size=1 << 24, memory_budget=1 << 50)


def test_a_context_that_no_kernel_could_reach(tiny_llama: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """That is no fault of a kernel or a driver."""

    async def opened(selector: Any) -> NativeDevice:
        return await open_device(selector, Limits())

    monkeypatch.setattr(wgpu_engine.engine.opening, "open_device", opened)
    text = refusal(OutOfMemoryError, tiny_llama(), ctx_size=1 << 23, memory_budget=1 << 50)
    found = re.search(r"--ctx-size of at most (\d+)$", text)
    assert found and 1 < int(found[1]) < 1 << 23


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"precision": "double"}, "precision"),
        ({"kv_type": "q8"}, "kv_type"),
        ({"ctx_size": 0}, "ctx_size"),
        ({"ctx_size": -5}, "ctx_size"),
        ({"ctx_size": 1 << 30}, "ctx_size"),
        ({"ctx_size": 2.5}, "ctx_size"),
        ({"ctx_size": True}, "ctx_size"),
        ({"memory_budget": "4G"}, "memory_budget"),
    ],
)
def test_options_that_cannot_be(tiny_llama: Write, options: dict[str, Any], word: str) -> None:
    assert word in refusal(RequestError, tiny_llama(), **options)


def test_no_adapter(tiny_llama: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapters, "_enumerate", lambda: [])
    text = refusal(NoAdapterError, tiny_llama())
    assert "install" in text


def test_no_such_adapter(tiny_llama: Write) -> None:
    text = refusal(NoAdapterError, tiny_llama(), device="Voodoo 2")
    assert "'Voodoo 2'" in text


def test_not_a_model(tmp_path: Path) -> None:
    path = tmp_path / "letter.gguf"
    path.write_text("Dear reader, " * 100)
    assert "not a GGUF file" in refusal(ModelFileError, path)


def test_truncated(tiny_llama: Write, tmp_path: Path) -> None:
    data = tiny_llama().read_bytes()
    path = tmp_path / "half.gguf"
    path.write_bytes(data[: len(data) // 2])
    assert "truncated" in refusal(ModelFileError, path)


def test_a_file_without_weights(tmp_path: Path) -> None:
    path = tmp_path / "empty.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert "the file holds no weights" in refusal(ModelFileError, path)
