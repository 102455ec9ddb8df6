"""Random weights, and a folder that holds them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .shapes import shapes

Floats = NDArray[np.float32]


def write_folder(folder: Path, config: Mapping[str, Any], dtype: Literal["F32", "BF16"] = "F32", seed: int = 0) -> Path:
    """A random model of a configuration: config.json and model.safetensors, all of its tensors of one dtype."""
    folder.mkdir(parents=True, exist_ok=True)
    named = {"F32": "float32", "BF16": "bfloat16"}[dtype]
    (folder / "config.json").write_text(json.dumps({**config, "torch_dtype": named}), encoding="utf-8")
    rng = np.random.default_rng(seed)
    tensors = {name: _values(rng, config, name, shape) for name, shape in shapes(config).items()}
    (folder / "model.safetensors").write_bytes(safetensors(tensors, dtype))
    return folder


def safetensors(tensors: Mapping[str, NDArray[Any]], dtype: str = "F32") -> bytes:
    """The bytes of a file; floats are stored as `dtype` says, flags as flags."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    parts, end = [], 0
    for name, values in tensors.items():
        is_flags = values.dtype == np.bool_
        half = dtype == "BF16" and not is_flags
        raw = (values.view(np.uint32) >> 16).astype("<u2").tobytes() if half else values.tobytes()
        stored = "BOOL" if is_flags else dtype
        header[name] = {"dtype": stored, "shape": values.shape, "data_offsets": (end, end + len(raw))}
        parts.append(raw)
        end += len(raw)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + b"".join(parts)


def _values(rng: np.random.Generator, config: Mapping[str, Any], name: str, shape: tuple[int, ...]) -> Floats:
    """Such that all that is summed up matters: activations and logits are about 1, scores of attention about 2."""
    if len(shape) == 1:
        is_gain = name.endswith("weight") and config["model_type"] not in ("gemma2", "gemma3_text")
        values = rng.normal(1.0 if is_gain else 0.0, 0.3, shape)
    elif "embeddings" in name:
        values = rng.normal(0, 1, shape)
    else:
        into = shape[0] if config["model_type"] == "gpt2" and ".h." in name else int(np.prod(shape[1:]))
        sharp = any(part in name for part in ("q_proj", "k_proj", "qkv", "query", "key", "c_attn"))
        values = rng.normal(0, (1.5 if sharp else 1.0) * into**-0.5, shape)
    return values.astype(np.float32)
