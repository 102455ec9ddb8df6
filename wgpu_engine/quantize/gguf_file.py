"""Writes a model as a GGUF file."""

import os
import shutil
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np

from wgpu_engine.errors import EngineError, RequestError
from wgpu_engine.files.gguf import TensorInfo, Value
from wgpu_engine.files.gguf_window import ARRAY, BOOL, NUMBERS, STRING
from wgpu_engine.files.model_file import ModelFile
from wgpu_engine.files.quants import QuantType
from wgpu_engine.platform.drive import drive

Progress = Callable[[str, int, int | None], None]

_STEP = 4 << 20
"""bytes written at a time, about"""
_SPARE = 32 << 20
"""bytes of disk that the header and others may need"""
_UINT32, _INT32, _FLOAT32, _INT64 = 4, 5, 6, 11
_OWN = ("general.architecture", "general.alignment", "general.file_type", "general.quantization_version", "split.")
"""beginnings of keys that the file gets anew, or that a file in one piece doesn't have"""
_FILE_TYPES = {
    "F32": gguf.LlamaFileType.ALL_F32,
    "Q3_K": gguf.LlamaFileType.MOSTLY_Q3_K_S,
    "Q4_K": gguf.LlamaFileType.MOSTLY_Q4_K_S,
    "Q5_K": gguf.LlamaFileType.MOSTLY_Q5_K_S,
    "MXFP4": gguf.LlamaFileType.MOSTLY_MXFP4_MOE,
}
"""by type, where it isn't MOSTLY_<type>"""


def write_gguf(file: ModelFile, path: Path, main: QuantType, progress: Progress, *, replace: bool = False) -> None:
    """Write a model, whose matrices are mostly of the type `main`, to `path`: whole or not at all.

    `progress` is called with "quantize", the bytes done and the bytes in all. Nested and empty arrays of the metadata,
    which GGUFWriter can't write, are left out.

    Raises:
        RequestError: there is such a file and it isn't to be replaced, or it is the one that is read.
        EngineError: the disk has too little room, or a tensor can't be read.
        OSError: the system refuses.
    """
    _check(file, path, replace)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        _write_header(file, part, main)
        with part.open("ab") as out:
            done = 0
            for tensor in file.tensors.values():
                out.write(bytes(-out.tell() % gguf.GGUF_DEFAULT_ALIGNMENT))
                row = tensor.type.row_bytes(tensor.columns)
                step = max(1, _STEP // row) * row
                for start in range(0, tensor.nbytes, step):
                    size = min(step, tensor.nbytes - start)
                    out.write(drive(tensor.source.read(tensor.offset + start, size)))
                    done += size
                    progress("quantize", done, file.tensor_bytes)
            out.write(bytes(-out.tell() % gguf.GGUF_DEFAULT_ALIGNMENT))
            out.flush()
            os.fsync(out.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _check(file: ModelFile, path: Path, replace: bool) -> None:
    if path.is_dir():
        raise RequestError(f"{path} is a folder: name the file to write, such as {path / 'model.gguf'}")
    if not path.parent.is_dir():
        raise RequestError(f"there is no folder {path.parent}: make it first")
    if path.exists():
        if any(path.samefile(source.name) for source in file.sources):
            raise RequestError(f"{path} is the model that is read: write to another file")
        if not replace:
            raise RequestError(f"{path} exists: choose another name, or replace it with --force")
    need, free = file.tensor_bytes + _SPARE, shutil.disk_usage(path.parent).free
    if need > free:
        raise EngineError(
            f"{path} would take {need / 1e6:.0f} MB and {free / 1e6:.0f} MB are free: free some space or write to "
            "another disk"
        )


def _write_header(file: ModelFile, path: Path, main: QuantType) -> None:
    """All before the tensors' bytes."""
    writer = gguf.GGUFWriter(path, str(file.metadata.get("general.architecture", "unknown")))
    writer.add_file_type(_file_type(main))
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    for key, value in file.metadata.items():
        if not key.startswith(_OWN):
            _add(writer, key, value, file.kinds.get(key))
    for tensor in file.tensors.values():
        _add_tensor(writer, tensor)
    try:
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
    finally:
        writer.close()


def _file_type(main: QuantType) -> int:
    """llama.cpp's number for files of mostly that type."""
    usual = getattr(gguf.LlamaFileType, f"MOSTLY_{main.name}", gguf.LlamaFileType.GUESSED)
    return int(_FILE_TYPES.get(main.name, usual))


def _add(writer: gguf.GGUFWriter, key: str, value: Value, kind: int | None) -> None:
    if isinstance(value, array | list):
        within = _kind_within(value)
        if within is not None:
            items = [_raw(item) for item in value] if within == STRING else value
            writer.add_key_value(key, items, gguf.GGUFValueType.ARRAY, gguf.GGUFValueType(within))
        return
    kind = _kind(value) if kind is None else kind
    writer.add_key_value(key, _raw(value) if isinstance(value, str) else value, gguf.GGUFValueType(kind))


def _kind(value: Value) -> int:
    """GGUF's type of a value that comes from elsewhere."""
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, int):
        if 0 <= value < 1 << 32:
            return _UINT32
        return _INT32 if -(1 << 31) <= value < 0 else _INT64
    return _FLOAT32 if isinstance(value, float) else STRING


def _kind_within(values: "array[Any] | list[Any]") -> int | None:
    """The type of an array's values; None for those that GGUFWriter can't write."""
    if not values:
        return None
    if isinstance(values, array):
        return next(kind for kind, code in NUMBERS.items() if code == values.typecode)
    kinds = {ARRAY if isinstance(value, array | list) else _kind(value) for value in values}
    return kinds.pop() if len(kinds) == 1 and ARRAY not in kinds else None


def _raw(text: str) -> bytes:
    """A string as the bytes that it was read from."""
    return text.encode("utf-8", "surrogateescape")


def _add_tensor(writer: gguf.GGUFWriter, tensor: TensorInfo) -> None:
    # The writer takes the shape as it is where numbers aren't bytes, and has no names for the newest types.
    kind: Any = tensor.type.ggml_id
    writer.add_tensor_info(tensor.name, tensor.shape, np.dtype(np.float32), tensor.nbytes, kind)
