"""A llama whose rows are whole blocks of every type: the same function, with zeros added where rows are too short."""

import math
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
from numpy.typing import NDArray

from wgpu_engine.errors import RequestError
from wgpu_engine.files.gguf import TensorInfo
from wgpu_engine.files.model_file import ModelFile
from wgpu_engine.files.quants import QUANT_TYPES, QuantType
from wgpu_engine.ops.known_answers.blocks import random_rows
from wgpu_engine.platform.drive import drive
from wgpu_engine.platform.memory_source import MemorySource
from wgpu_engine.quantize.convert import QUANTIZERS, convert
from wgpu_engine.quantize.gguf_file import write_gguf
from wgpu_engine.quantize.recipe import recipe

_BLOCK = 256
_POOL = 4096
"""random blocks, repeated as often as a tensor needs"""


def widened(file: ModelFile) -> ModelFile:
    """The model in F16, in memory, with whole heads of zeros and zeros in the residual stream and the feed-forward.

    The mean in an RMS norm is over more values then, which its gain and epsilon make up for.

    Raises:
        RequestError: it is no plain llama.
    """
    setting, prefix = dict(file.metadata), "llama."
    if setting.get("general.architecture") != "llama" or any(name.endswith(".bias") for name in file.tensors):
        raise RequestError("only models of the architecture llama without biases can be widened: choose such a one")
    width, feed_forward = (_number(setting, f"llama.{key}") for key in ("embedding_length", "feed_forward_length"))
    heads, kv_heads = (_number(setting, f"llama.attention.{key}") for key in ("head_count", "head_count_kv"))
    head_dim = width // heads
    wide, wide_feed_forward = (-(-size // _BLOCK) * _BLOCK for size in (width, feed_forward))
    wide_heads = wide // head_dim
    if wide % head_dim or wide_heads % (heads // kv_heads) or f"{prefix}attention.key_length" in setting:
        raise RequestError("the heads of this model can't be widened to rows of whole blocks: choose another")
    kv, wide_kv = kv_heads * head_dim, wide_heads // (heads // kv_heads) * head_dim
    shrink = width / wide
    setting[f"{prefix}embedding_length"] = wide
    setting[f"{prefix}feed_forward_length"] = wide_feed_forward
    setting[f"{prefix}attention.head_count"] = wide_heads
    setting[f"{prefix}attention.head_count_kv"] = wide_kv // head_dim
    eps = setting[f"{prefix}attention.layer_norm_rms_epsilon"]
    assert isinstance(eps, float)
    setting[f"{prefix}attention.layer_norm_rms_epsilon"] = eps * shrink
    sizes = {width: wide, feed_forward: wide_feed_forward, kv: wide_kv}
    tensors = {}
    for tensor in file.tensors.values():
        values = _values(tensor)
        if values.ndim == 1:
            if tensor.name != "rope_freqs.weight":
                values = _padded(values * np.float32(math.sqrt(shrink)), (sizes[len(values)],))
            tensors[tensor.name] = _in_memory(tensor.name, values)
        else:
            rows = len(values) if tensor.name in ("token_embd.weight", "output.weight") else sizes[len(values)]
            values = _padded(values, (rows, sizes[values.shape[1]]))
            tensors[tensor.name] = _in_memory(tensor.name, values.astype(np.float16))
    return replace(file, metadata=setting, tensors=tensors)


def write_in(file: ModelFile, quant: QuantType, path: Path) -> None:
    """Write a model with all its matrices in a type: quantized, or random blocks where there is no quantizer."""
    if quant.name in QUANTIZERS:
        file = recipe(file, quant, pure=True, requantize=True).file
    else:
        pool = random_rows(quant, 1, _POOL * quant.block, Random(0))
        tensors = {}
        for tensor in file.tensors.values():
            if len(tensor.shape) > 1:
                size = tensor.rows * quant.row_bytes(tensor.columns)
                source = MemorySource("random", (pool * (size // len(pool) + 1))[:size])
                tensor = TensorInfo(tensor.name, quant, tensor.shape, source, 0, size)
            tensors[tensor.name] = tensor
        file = replace(file, tensors=tensors)
    write_gguf(file, path, quant, lambda stage, done, total: None)


def _number(setting: dict[str, object], key: str) -> int:
    value = setting.get(key)
    if type(value) is not int:
        raise RequestError(f"the model doesn't say {key}: choose another")
    return value


def _values(tensor: TensorInfo) -> NDArray[np.float32]:
    data = drive(tensor.source.read(tensor.offset, tensor.nbytes))
    return convert(data, tensor.type, QUANT_TYPES["F32"], tensor.columns).view(np.float32).reshape(tensor.shape)


def _padded(values: NDArray[np.float32], shape: tuple[int, ...]) -> NDArray[np.float32]:
    return np.pad(values, [(0, after - before) for before, after in zip(values.shape, shape, strict=True)])


def _in_memory(name: str, values: NDArray[np.float32] | NDArray[np.float16]) -> TensorInfo:
    quant = QUANT_TYPES["F32" if values.dtype == np.float32 else "F16"]
    return TensorInfo(name, quant, values.shape, MemorySource(name, values.tobytes()), 0, values.nbytes)
