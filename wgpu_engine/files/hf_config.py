"""The JSON files of a Hugging Face folder, each value checked for its type before it is used."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wgpu_engine.errors import ModelFileError, ModelNotFoundError
from wgpu_engine.files.gguf_window import show
from wgpu_engine.platform.file_source import FileSource


async def read_text(path: Path, most: int) -> str | None:
    """A file's text; None where there is no such file.

    Raises:
        ModelFileError: it is larger than `most` bytes, no UTF-8 or can't be read.
    """
    try:
        opened = FileSource(path)
    except ModelNotFoundError:
        return None
    with opened as source:
        if source.size > most:
            raise ModelFileError(f"{path} is larger than {most >> 20} MiB: download it again")
        try:
            return bytes(await source.read(0, source.size)).decode()
        except UnicodeDecodeError:
            raise ModelFileError(f"{path} is damaged: it isn't UTF-8; download it again") from None


async def read_json(path: Path, most: int) -> dict[str, Any] | None:
    """A file's JSON object; None where there is no such file. Raises as `read_text`, and where it is no object."""
    text = await read_text(path, most)
    if text is None:
        return None
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise ModelFileError(f"{path} is damaged: it is no JSON object; download it again")
    return values


@dataclass(frozen=True)
class HFConfig:
    """Settings of a `config.json`, or of an object in it. A key that is null counts as absent."""

    name: str
    """what to call it in a message"""
    values: Mapping[str, Any]

    def count(self, key: str, default: int | None = None, *, smallest: int = 1, largest: int = (1 << 31) - 1) -> int:
        """A whole number from `smallest` to `largest`."""
        value = self._value(key, default)
        if type(value) is not int or not smallest <= value <= largest:
            raise self._wrong(key, f"a whole number from {smallest} to {largest}")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """A positive number that f32 holds."""
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 2.0**-126 <= value < 1e30:
            raise self._wrong(key, "a positive number")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        value = self._value(key, default)
        if not isinstance(value, bool):
            raise self._wrong(key, "true or false")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        value = self._value(key, default)
        if not isinstance(value, str):
            raise self._wrong(key, "text")
        return value

    def texts(self, key: str) -> list[str]:
        """A list of texts; empty where the key is absent."""
        value = self._value(key, ())
        if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
            raise self._wrong(key, "a list of texts")
        return list(value)

    def numbers(self, key: str, count: int) -> list[float]:
        """So many finite positive numbers."""
        value = self._value(key, None)
        if not isinstance(value, list) or len(value) != count:
            raise self._wrong(key, f"a list of {count} numbers")
        return [HFConfig(self.name, {key: each}).number(key) for each in value]

    def counts(self, key: str, count: int) -> list[int] | None:
        """So many whole numbers of at least 1; None where the key is absent."""
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, list) or len(value) != count:
            raise self._wrong(key, f"a list of {count} numbers")
        return [HFConfig(self.name, {key: each}).count(key) for each in value]

    def flag_list(self, key: str, count: int, meaning: Mapping[str | int, bool]) -> list[bool] | None:
        """A flag for each of so many names or numbers of `meaning`; None where the key is absent."""
        found = self.values.get(key)
        if found is None:
            return None
        if not isinstance(found, list) or len(found) != count:
            raise self._wrong(key, f"a list of {count}")
        if not all(isinstance(each, str | int) and each in meaning for each in found):
            raise self._wrong(key, f"a list of {count} out of {', '.join(map(str, meaning))}")
        return [meaning[each] for each in found]

    def section(self, key: str) -> "HFConfig | None":
        """An object within this one; None where the key is absent."""
        value = self.values.get(key)
        if value is not None and not isinstance(value, dict):
            raise self._wrong(key, "an object")
        return None if value is None else HFConfig(f"{self.name} ({key})", value)

    def _value(self, key: str, default: Any) -> Any:
        value = self.values.get(key)
        value = default if value is None else value
        if value is None:
            raise ModelFileError(f"{self.name} doesn't say {key}: download it again")
        return value

    def _wrong(self, key: str, wanted: str) -> ModelFileError:
        value = self.values.get(key)
        found = show(str(value)) if isinstance(value, str | int | float) else "something else"
        return ModelFileError(f"{self.name} has {found} for {key} where {wanted} belongs: download it again")
