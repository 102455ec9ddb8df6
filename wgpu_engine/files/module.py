"""A module of a quantized model: the tensors whose names differ in their last part alone."""

from collections.abc import Collection
from dataclasses import dataclass, field

from wgpu_engine.errors import ModelFileError, UnsupportedModelError
from wgpu_engine.files.gguf_window import show
from wgpu_engine.files.safetensors import StoredTensor

FLOATS = ("F32", "F16", "BF16")
INTEGERS = ("I32", "U32")


@dataclass
class Module:
    """Tensors by the last part of their names; those that were taken make up a weight, the others are left."""

    stem: str
    parts: dict[str, StoredTensor]
    _taken: set[str] = field(default_factory=set)

    def name(self, part: str) -> str:
        return f"{self.stem}.{part}" if self.stem else part

    def __contains__(self, part: str) -> bool:
        return part in self.parts

    def rest(self, without: Collection[str] = ()) -> dict[str, StoredTensor]:
        """What wasn't taken, and isn't in `without`."""
        return {part: tensor for part, tensor in self.parts.items() if part not in self._taken and part not in without}

    def take(self, part: str, dtypes: Collection[str]) -> StoredTensor:
        """A tensor of one of these types.

        Raises:
            ModelFileError: it is missing, of another type, or empty.
        """
        tensor = self.take_any(part)
        if tensor.dtype not in dtypes:
            raise ModelFileError(
                f"the tensor {show(self.name(part))} is of type {tensor.dtype} where {' or '.join(dtypes)} belongs: "
                "download the model again"
            )
        return tensor

    def take_any(self, part: str) -> StoredTensor:
        """A tensor of any type; raises as `take`."""
        if part not in self.parts:
            raise ModelFileError(
                f"the tensor {show(self.name(part))} is missing, and {show(self.name(min(self.parts)))} needs it: "
                "download the model again"
            )
        self._taken.add(part)
        tensor = self.parts[part]
        if not tensor.nbytes:
            raise self.wrong(part, "is empty")
        return tensor

    def take_shaped(self, part: str, dtypes: Collection[str], *shape: int) -> StoredTensor:
        """A tensor of one of these types and of this shape; raises as `take`, and where the shape is another."""
        tensor = self.take(part, dtypes)
        if tensor.shape != shape:
            raise self.wrong(part, f"has the shape {list(tensor.shape)} where {list(shape)} belongs")
        return tensor

    def take_matrix(self, part: str, dtypes: Collection[str]) -> StoredTensor:
        """A tensor of one of these types and of two dimensions; raises as `take_shaped`."""
        tensor = self.take(part, dtypes)
        if len(tensor.shape) != 2:
            raise self.wrong(part, f"has the shape {list(tensor.shape)}, which is no matrix's")
        return tensor

    def wrong(self, part: str, what: str) -> ModelFileError:
        return ModelFileError(f"the tensor {show(self.name(part))} {what}: download the model again")

    def unsupported(self, what: str) -> UnsupportedModelError:
        return UnsupportedModelError(
            f"the module {show(self.stem)} {what}, which is not supported: use another version of the model, or a GGUF "
            "file"
        )
