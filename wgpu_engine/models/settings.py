"""Reads a model's settings out of GGUF metadata, each checked for its type and range."""

from collections.abc import Mapping, Sequence
from typing import Any

from wgpu_engine.errors import ModelFileError

REMEDY = "download the file again, or get another version of the model"


class Settings:
    """Metadata under an architecture's prefix, e.g. `llama.block_count`."""

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        self.metadata = metadata
        self.architecture = str(metadata.get("general.architecture", ""))

    def _value(self, key: str) -> Any:
        return self.metadata.get(f"{self.architecture}.{key}")

    def count(self, key: str, default: int | None = None, *, smallest: int = 1, largest: int = 1 << 24) -> int:
        """A whole number from `smallest` on; a list of equal numbers (one a layer) counts as that number."""
        value = self._value(key)
        if isinstance(value, Sequence) and not isinstance(value, str) and value and value.count(value[0]) == len(value):
            value = value[0]
        if value is None and default is not None:
            return default
        if value is None:
            raise ModelFileError(f"the setting {self.architecture}.{key} is missing: {REMEDY}")
        if isinstance(value, bool) or not isinstance(value, int) or not smallest <= value <= largest:
            raise ModelFileError(
                f"the setting {self.architecture}.{key} is {value!r:.40}, not a whole number from {smallest} to "
                f"{largest}: {REMEDY}"
            )
        return value

    def flag(self, key: str, default: bool) -> bool:
        value = self._value(key)
        return value if isinstance(value, bool) else default

    def flags(self, key: str, layers: int) -> list[bool] | None:
        """A flag for each layer; None where there is no list of them."""
        value = self._value(key)
        if not isinstance(value, list):
            return None
        if len(value) != layers or not all(isinstance(flag, bool) for flag in value):
            raise ModelFileError(
                f"the setting {self.architecture}.{key} isn't a flag for each of {layers} layers: {REMEDY}"
            )
        return value

    def counts(self, key: str, layers: int, *, largest: int = 1 << 24) -> list[int]:
        """A whole number of at least 0 for each layer, which may be one for all."""
        value = self._value(key)
        each = list(value) if isinstance(value, Sequence) and not isinstance(value, str) else [value] * layers
        if len(each) != layers or not all(type(number) is int and 0 <= number <= largest for number in each):
            raise ModelFileError(
                f"the setting {self.architecture}.{key} isn't a whole number from 0 to {largest} for each of "
                f"{layers} layers: {REMEDY}"
            )
        return each

    def number(self, key: str, default: float, *, zero: bool = False) -> float:
        """A positive number that f32 holds, or with `zero` also 0."""
        value = self._value(key)
        if value is None:
            return default
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not (2.0**-126 <= value < 1e30 or (zero and value == 0))
        ):
            raise ModelFileError(
                f"the setting {self.architecture}.{key} is {value!r:.40}, not a positive number of f32: {REMEDY}"
            )
        return float(value)

    def text(self, key: str, default: str) -> str:
        value = self._value(key)
        return value if isinstance(value, str) else default
