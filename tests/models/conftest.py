"""A llama in NumPy, in float64, straight from a file: what the kernels have to agree with."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from gguf.quants import dequantize
from numpy.typing import NDArray

from wgpu_engine.files.gguf import TensorInfo, read_gguf
from wgpu_engine.ops.known_answers.blocks import decoded
from wgpu_engine.platform.drive import drive
from wgpu_engine.platform.file_source import FileSource

Doubles = NDArray[np.float64]


def values_of(tensor: TensorInfo) -> Doubles:
    """A tensor as gguf-py dequantizes it, or as our known answers do where gguf-py can't."""
    data = bytes(drive(tensor.source.read(tensor.offset, tensor.nbytes)))
    if tensor.type.name in ("Q1_0", "Q2_0"):
        values = np.array(decoded(tensor.type, data))
    else:
        raw = np.frombuffer(data, np.uint8).reshape(tensor.rows, -1)
        values = dequantize(raw, gguf.GGMLQuantizationType[tensor.type.name]).astype(np.float64)
    return values.reshape(tensor.shape)


class Reference:
    """The weights of a GGUF file, dequantized."""

    def __init__(self, path: Path) -> None:
        with FileSource(path) as source:
            file = drive(read_gguf(source))
            self._metadata = file.metadata
            self._weights = {name: values_of(tensor) for name, tensor in file.tensors.items()}
        self.layers = self._setting("block_count")
        self.heads = self._setting("attention.head_count")
        self.kv_heads = self._setting("attention.head_count_kv", self.heads)
        self.head_dim = self._setting("attention.key_length", self._setting("embedding_length") // self.heads)
        self.eps = self._setting("attention.layer_norm_rms_epsilon")
        rope_dim = self._setting("rope.dimension_count", self.head_dim)
        self.frequencies = self._setting("rope.freq_base", 10000.0) ** (-np.arange(0, rope_dim, 2) / rope_dim)
        self.frequencies /= self._weights.get("rope_freqs.weight", 1.0)
        self.frequencies /= self._setting("rope.scaling.factor", 1.0)

    def logits(self, ids: Sequence[int]) -> Doubles:
        """Logits [tokens, vocab] at every position."""
        embedding = self._weights["token_embd.weight"]
        x = embedding[np.asarray(ids)]
        for i in range(self.layers):
            layer = f"blk.{i}."
            x = x + self._project(self._attention(self._norm(x, f"{layer}attn_norm"), layer), f"{layer}attn_output")
            h = self._norm(x, f"{layer}ffn_norm")
            gate, up = self._project(h, f"{layer}ffn_gate"), self._project(h, f"{layer}ffn_up")
            x = x + self._project(gate / (1 + np.exp(-gate)) * up, f"{layer}ffn_down")
        return self._norm(x, "output_norm") @ self._weights.get("output.weight", embedding).T

    def _attention(self, h: Doubles, layer: str) -> Doubles:
        tokens = len(h)
        q, k, v = (
            self._project(h, f"{layer}attn_{name}").reshape(tokens, -1, self.head_dim).swapaxes(0, 1) for name in "qkv"
        )
        group = self.heads // self.kv_heads
        q, k, v = self._rotate(q), self._rotate(k).repeat(group, axis=0), v.repeat(group, axis=0)
        scores = q @ k.swapaxes(1, 2) / np.sqrt(self.head_dim)
        scores[:, np.triu(np.ones((tokens, tokens), bool), 1)] = -np.inf
        weights = np.exp(scores - scores.max(axis=2, keepdims=True))
        weights /= weights.sum(axis=2, keepdims=True)
        return (weights @ v).swapaxes(0, 1).reshape(tokens, -1)

    def _rotate(self, x: Doubles) -> Doubles:
        """Pairs of neighbours of [heads, tokens, head_dim], by the position."""
        angles = np.arange(x.shape[1])[:, None] * self.frequencies
        width = 2 * len(self.frequencies)
        pairs = x[..., 0:width:2] + 1j * x[..., 1:width:2]
        turned = pairs * np.exp(1j * angles)
        result = x.copy()
        result[..., 0:width:2], result[..., 1:width:2] = turned.real, turned.imag
        return result

    def _norm(self, x: Doubles, name: str) -> Doubles:
        scale = np.sqrt((x**2).mean(axis=-1, keepdims=True) + self.eps)
        return x / scale * self._weights[f"{name}.weight"]

    def _project(self, h: Doubles, name: str) -> Doubles:
        return h @ self._weights[f"{name}.weight"].T + self._weights.get(f"{name}.bias", 0.0)

    def _setting(self, key: str, default: Any = None) -> Any:
        return self._metadata.get(f"{self._metadata['general.architecture']}.{key}", default)


@pytest.fixture(scope="module", autouse=True)
def compared(no_kernel_check: None) -> None:
    """Models are compared with the reference itself here, so no kernel needs a check."""


@pytest.fixture(scope="session")
def reference() -> Callable[[Path], Reference]:
    return Reference
