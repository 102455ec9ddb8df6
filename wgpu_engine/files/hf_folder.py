"""A model as Hugging Face publishes it: a folder of config.json, *.safetensors and the tokenizer's files.

It becomes the same thing as an open GGUF file, names and settings translated, so that nobody else has to know where a
model came from. Its tokenizer goes along as the text of tokenizer.json under GGUF's own key for that; the keys that
begin with `tokenizer.huggingface.` and don't end in `json` are ours.
"""

import re
import struct
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from wgpu_engine.errors import ModelFileError, UnsupportedModelError
from wgpu_engine.files.gguf import TensorInfo
from wgpu_engine.files.gguf_window import Value, show
from wgpu_engine.files.hf_bert import SENTENCE_FILES
from wgpu_engine.files.hf_config import HFConfig, read_json, read_text
from wgpu_engine.files.hf_names import Family, family_of
from wgpu_engine.files.hf_quantization import unpack
from wgpu_engine.files.hf_rope import rope_factors
from wgpu_engine.files.model_file import ModelFile
from wgpu_engine.files.quants import QUANT_TYPES
from wgpu_engine.files.safetensors import StoredTensor, read_safetensors
from wgpu_engine.platform.file_source import FileSource
from wgpu_engine.platform.memory_source import MemorySource

_SMALL = 1 << 24
"""bytes, the most that a configuration may have"""
_LARGE = 1 << 27
"""bytes, the most that an index or a tokenizer may have"""
_ONE_FILE = "model.safetensors"
_INDEX = "model.safetensors.index.json"
_FILE_NAME = re.compile(r"[\w.+@=,() -]{1,200}\.safetensors", re.ASCII)
_FLOATS = ("F32", "F16", "BF16")
"""dtypes that are types of GGUF under the same name"""


async def open_folder(path: Path) -> ModelFile:
    """Open a folder as a model; no tensor is read.

    Raises:
        ModelFileError: a file is missing, damaged or of another model.
        UnsupportedModelError: an architecture, a setting or a type of tensor that this version can't run.
    """
    values = await read_json(path / "config.json", _SMALL)
    if values is None:
        raise _no_model(path)
    values |= {name: await read_json(path / name, _SMALL) for name in SENTENCE_FILES}
    config = HFConfig(str(path / "config.json"), values)
    family = family_of(config)
    settings = family.settings(config)
    metadata: dict[str, Value] = {
        "general.architecture": family.architecture,
        "general.name": path.resolve().name,
        **{f"{family.architecture}.{key}": value for key, value in settings.items()},
        **await _tokenizer(path, config),
    }
    rope_dim, base = settings.get("rope.dimension_count"), settings.get("rope.freq_base")
    factors = rope_factors(config, rope_dim, base) if isinstance(rope_dim, int) and isinstance(base, float) else {}
    sources: dict[str, FileSource] = {}
    try:
        unpacked = await unpack(config, await _stored(path, sources))
        tensors = _translated(config, family, unpacked.tensors)
    except BaseException:
        for source in sources.values():
            source.close()
        raise
    tensors |= {name: _in_memory(name, each) for name, each in factors.items()}
    return ModelFile(path, metadata, tensors, tuple(sources.values()), notes=unpacked.notes)


def _no_model(path: Path) -> ModelFileError:
    inside = sorted(path.glob("*.gguf"))
    if inside:
        return ModelFileError(f"{path} is a folder of GGUF files: give the path of one, such as {inside[0]}")
    return ModelFileError(
        f"{path} is a folder without config.json: give the path of a .gguf file, or of a folder that holds config.json "
        "and *.safetensors"
    )


async def _stored(path: Path, sources: dict[str, FileSource]) -> dict[str, StoredTensor]:
    """The tensors of all files of the folder; `sources` are opened by their file's name."""
    index = await read_json(path / _INDEX, _LARGE)
    if index is None:
        sources[_ONE_FILE] = FileSource(_only_file(path))
        return (await read_safetensors(sources[_ONE_FILE])).tensors
    file_of = index.get("weight_map")
    if not isinstance(file_of, dict) or not all(map(_is_file_name, file_of.values())):
        raise ModelFileError(f"{path / _INDEX} is damaged: its weight_map is no list of file names; download it again")
    missing = sorted(name for name in set(file_of.values()) if not (path / name).exists())
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ModelFileError(f"{path} lacks {show(missing[0])}{more}: put all files of the model into the folder")
    found = {}
    for file in dict.fromkeys(file_of.values()):
        sources[file] = FileSource(path / file)
        found[file] = (await read_safetensors(sources[file])).tensors
    for name, file in file_of.items():
        if name not in found[file]:
            raise ModelFileError(
                f"{path / file} lacks the tensor {show(name)} that the index says it has: download both again"
            )
    return {name: found[file][name] for name, file in file_of.items()}


def _only_file(path: Path) -> Path:
    if (path / _ONE_FILE).exists():
        return path / _ONE_FILE
    files = sorted(path.glob("*.safetensors"))
    if len(files) == 1:
        return files[0]
    if files:
        raise ModelFileError(f"{path} has {len(files)} .safetensors files and no {_INDEX}: download that as well")
    raise ModelFileError(f"{path} has no .safetensors files: download them, or a GGUF file of the model")


def _is_file_name(name: Any) -> bool:
    """Whether it is the plain name of a file in the folder, and no way out of it."""
    return isinstance(name, str) and _FILE_NAME.fullmatch(name) is not None


def _translated(
    config: HFConfig, family: Family, stored: Mapping[str, StoredTensor | TensorInfo]
) -> dict[str, TensorInfo]:
    """The tensors that the architecture needs, by GGUF's names."""
    tied = config.flag("tie_word_embeddings", family.tied)
    tensors: dict[str, TensorInfo] = {}
    for tensor in stored.values():
        name = family.translate(tensor.name)
        if name is None:
            raise UnsupportedModelError(
                f"{tensor.source.name} has the tensor {show(tensor.name)}, which {family.architecture} models don't "
                "have here: use a model of the plain architecture"
            )
        if not name or (tied and name == "output.weight"):
            continue
        if name in tensors:
            raise ModelFileError(
                f"{tensor.source.name} has the tensor {show(tensor.name)} under two names: download the model again"
            )
        tensors[name] = family.arranged(config, _info(name, tensor))
    if not tied and "output.weight" not in tensors and "token_embd.weight" in tensors:
        raise ModelFileError(
            f"the output head is missing, and {config.name} doesn't tie it to the embedding: download the model again"
        )
    return tensors


def _info(name: str, tensor: StoredTensor | TensorInfo) -> TensorInfo:
    """A tensor of floats, or one that was put together, as GGUF would have it."""
    if isinstance(tensor, TensorInfo):
        return replace(tensor, name=name)
    if tensor.dtype not in _FLOATS:
        raise UnsupportedModelError(
            f"{tensor.source.name} can't run: the tensor {show(tensor.name)} is of type {tensor.dtype}, and those "
            f"supported are {', '.join(_FLOATS)}; choose a model of such a type"
        )
    if 0 in tensor.shape:
        raise ModelFileError(f"{tensor.source.name} has the empty tensor {show(tensor.name)}: download it again")
    quant = QUANT_TYPES[tensor.dtype]
    # a dimension of one between others, as convolutions of single channels have, is left out in GGUF
    shape = (*(size for i, size in enumerate(tensor.shape[:-1]) if size > 1 or not i), *tensor.shape[-1:])
    return TensorInfo(name, quant, shape, tensor.source, tensor.offset, tensor.nbytes)


def _in_memory(name: str, values: list[float]) -> TensorInfo:
    data = struct.pack(f"<{len(values)}f", *values)
    return TensorInfo(name, QUANT_TYPES["F32"], (len(values),), MemorySource(name, data), 0, len(data))


async def _tokenizer(path: Path, config: HFConfig) -> dict[str, Value]:
    """What the text room needs, as `text/hf_vocabulary.py` reads it; each special token as its text or its id."""
    values = await read_json(path / "tokenizer_config.json", _SMALL) or {}
    generation = await read_json(path / "generation_config.json", _SMALL) or {}
    metadata: dict[str, Value] = {
        "tokenizer.huggingface.end_ids": _ids(generation.get("eos_token_id")) + _ids(config.values.get("eos_token_id"))
    }
    for name in ("bos", "eos", "unk", "pad"):
        text = values.get(f"{name}_token")
        text = text.get("content") if isinstance(text, dict) else text
        if isinstance(text, str):
            metadata[f"tokenizer.huggingface.{name}_token"] = text
        ids = _ids(config.values.get(f"{name}_token_id"))
        if ids:
            metadata[f"tokenizer.huggingface.{name}_token_id"] = ids[0]
        if isinstance(values.get(f"add_{name}_token"), bool):
            metadata[f"tokenizer.huggingface.add_{name}_token"] = values[f"add_{name}_token"]
    text = await read_text(path / "tokenizer.json", _LARGE)
    if text is None:
        metadata["tokenizer.ggml.model"] = "none"
    else:
        metadata["tokenizer.huggingface.json"] = text
    template = await read_text(path / "chat_template.jinja", _SMALL) or values.get("chat_template")
    if template is not None:
        metadata["tokenizer.chat_template"] = template
    return metadata


def _ids(value: Any) -> list[int]:
    """A token's id, or several, as configurations have them; what is none is left out."""
    return [each for each in (value if isinstance(value, list) else [value]) if type(each) is int and each >= 0]
