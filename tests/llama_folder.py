"""A random llama as Hugging Face publishes models."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass
class LlamaFolder:
    """A random llama of one layer as Hugging Face publishes models; what a test changes makes another folder."""

    path: Path
    dtype: str = "F32"
    """of matrices: F32, F16 or BF16"""
    vocab: int = 300
    shards: int = 0
    """files with an index; 0: one file without"""
    config: Mapping[str, Any] = field(default_factory=dict)
    """keys of config.json to add or replace; None is null there"""
    tensors: Mapping[str, NDArray[Any] | None] = field(default_factory=dict)
    """tensors to add or replace; None leaves one out"""
    files: Mapping[str, Any] = field(default_factory=dict)
    """more files: text as it is, anything else as JSON; None leaves one out"""

    def write(self) -> Path:
        self.path.mkdir()
        tensors = {
            name: values for name, values in (self._tensors() | dict(self.tensors)).items() if values is not None
        }
        names = list(tensors)
        files: dict[str, Any] = {"config.json": self._config()}
        if self.shards:
            parts = {
                f"model-{i + 1:05}-of-{self.shards:05}.safetensors": names[i :: self.shards] for i in range(self.shards)
            }
            files["model.safetensors.index.json"] = {
                "weight_map": {n: file for file, some in parts.items() for n in some}
            }
        else:
            parts = {"model.safetensors": names}
        for file, some in parts.items():
            (self.path / file).write_bytes(self._safetensors({name: tensors[name] for name in some}))
        for file, content in (files | dict(self.files)).items():
            if content is not None:
                text = content if isinstance(content, str) else json.dumps(content)
                (self.path / file).write_text(text, encoding="utf-8")
        return self.path

    def _config(self) -> dict[str, Any]:
        return {
            "architectures": ["LlamaForCausalLM"],
            "hidden_act": "silu",
            "hidden_size": 32,
            "intermediate_size": 64,
            "max_position_embeddings": 512,
            "num_attention_heads": 2,
            "num_hidden_layers": 1,
            "num_key_value_heads": 1,
            "rms_norm_eps": 1e-6,
            "rope_theta": 10000.0,
            "tie_word_embeddings": False,
            "vocab_size": self.vocab,
            "bos_token_id": 1,
            "eos_token_id": 2,
        } | dict(self.config)

    def _tensors(self) -> dict[str, NDArray[Any] | None]:
        rng = np.random.default_rng(1)
        layer, attention, mlp = "model.layers.0.", "model.layers.0.self_attn.", "model.layers.0.mlp."
        shapes = {
            "model.embed_tokens.weight": (self.vocab, 32),
            f"{attention}q_proj.weight": (32, 32),
            f"{attention}k_proj.weight": (16, 32),
            f"{attention}v_proj.weight": (16, 32),
            f"{attention}o_proj.weight": (32, 32),
            f"{mlp}gate_proj.weight": (64, 32),
            f"{mlp}up_proj.weight": (64, 32),
            f"{mlp}down_proj.weight": (32, 64),
            "lm_head.weight": (self.vocab, 32),
        }
        matrices = {name: rng.normal(0, 0.2, shape).astype(np.float32) for name, shape in shapes.items()}
        norms = (f"{layer}input_layernorm.weight", f"{layer}post_attention_layernorm.weight", "model.norm.weight")
        return {**matrices, **{name: np.ones(32, np.float32) for name in norms}}

    def _safetensors(self, tensors: Mapping[str, NDArray[Any]]) -> bytes:
        header, data = {}, b""
        for name, values in tensors.items():
            dtype = {"float32": "F32", "int32": "I32", "uint8": "F8_E4M3"}[values.dtype.name]
            raw = values.tobytes()
            if dtype == "F32" and values.ndim > 1 and self.dtype != "F32":
                dtype = self.dtype
                half = values.astype(np.float16) if dtype == "F16" else (values.view(np.uint32) >> 16).astype(np.uint16)
                raw = half.tobytes()
            header[name] = {"dtype": dtype, "shape": values.shape, "data_offsets": (len(data), len(data) + len(raw))}
            data += raw
        text = json.dumps({"__metadata__": {"format": "pt"}} | header).encode()
        return len(text).to_bytes(8, "little") + text + data
