"""A folder of config.json and model.safetensors, read without a library, and the layers that its tensors stand for."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class Checkpoint:
    """A model's configuration and its tensors by name, as they are published."""

    config: Mapping[str, Any]
    tensors: Mapping[str, Doubles]

    @property
    def layers(self) -> int:
        return int(self.config["num_hidden_layers"])

    @property
    def heads(self) -> int:
        return int(self.config["num_attention_heads"])

    @property
    def kv_heads(self) -> int:
        return int(self.config.get("num_key_value_heads") or self.heads)

    @property
    def head_dim(self) -> int:
        return int(self.config.get("head_dim") or self.config["hidden_size"] // self.heads)

    def linear(self, name: str, x: Doubles) -> Doubles:
        """A product with a matrix [out, in], plus its bias if there is one."""
        return x @ self.tensors[f"{name}.weight"].T + self.tensors.get(f"{name}.bias", 0.0)

    def rms_norm(self, name: str, x: Doubles, eps: float, offset: float = 0.0) -> Doubles:
        """Over the last axis; the gain is the weight plus `offset`."""
        gain = self.tensors[f"{name}.weight"] + offset
        return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps) * gain

    def layer_norm(self, name: str, x: Doubles, eps: float) -> Doubles:
        centred = x - x.mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + eps)
        return scaled * self.tensors[f"{name}.weight"] + self.tensors.get(f"{name}.bias", 0.0)

    def embed(self, ids: Sequence[int], name: str = "model.embed_tokens") -> Doubles:
        return self.tensors[f"{name}.weight"][np.asarray(ids)]

    def head(self, x: Doubles, name: str = "lm_head", embedding: str = "model.embed_tokens") -> Doubles:
        """Logits; the head is the embedding where the folder has no other."""
        tied = self.config.get("tie_word_embeddings", False) or f"{name}.weight" not in self.tensors
        return x @ self.tensors[f"{embedding}.weight"].T if tied else self.linear(name, x)


def read_folder(folder: Path) -> Checkpoint:
    """A model in one file of safetensors of floats."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return Checkpoint(config, read_safetensors(folder / "model.safetensors"))


def read_safetensors(path: Path) -> dict[str, Doubles]:
    """All tensors: a length, a header in JSON that says dtype, shape and place of each, and the values."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        first, last = (start + offset for offset in entry["data_offsets"])
        tensors[name] = _values(data[first:last], entry["dtype"]).reshape(entry["shape"])
    return tensors


def _values(data: bytes, dtype: str) -> Doubles:
    if dtype == "BF16":
        return (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return np.frombuffer(data, {"F16": "<f2", "F32": "<f4", "F64": "<f8"}[dtype]).astype(np.float64)
