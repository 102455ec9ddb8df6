"""Takes the tensors of a model out of a file by name, with every shape checked."""

from collections.abc import Mapping
from dataclasses import replace

from wgpu_engine.errors import ModelFileError, UnsupportedModelError
from wgpu_engine.files.gguf import TensorInfo


class Tensors:
    """The tensors of a file, as an architecture asks for them."""

    def __init__(self, tensors: Mapping[str, TensorInfo]) -> None:
        self._tensors = tensors
        self._taken: set[str] = set()

    @property
    def unused(self) -> list[str]:
        """Names of those that nobody has taken."""
        return [name for name in self._tensors if name not in self._taken]

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def take(self, name: str, *shape: int) -> TensorInfo:
        """The tensor of this name and shape, with its scale where there is one.

        Raises:
            ModelFileError: it is missing, or has another shape.
            UnsupportedModelError: it has a scale that isn't one for all of a matrix, or one an expert.
        """
        self._taken.add(name)
        tensor = self._tensors.get(name)
        if tensor is None:
            raise ModelFileError(f"the tensor {name} is missing: the file is incomplete, download it again")
        if tensor.shape != shape:
            raise ModelFileError(
                f"the tensor {name} has the shape {list(tensor.shape)} where the model's settings ask for "
                f"{list(shape)}: the file is damaged or of another architecture, get another version of it"
            )
        return replace(tensor, scale=self._scale(name))

    def _scale(self, name: str) -> TensorInfo | None:
        """`<name>.scale` beside `<name>.weight`, as llama.cpp has it for ternary weights and for NVFP4.

        Experts that lie in one tensor have one each.
        """
        stem, _, end = name.rpartition(".")
        scale = self._tensors.get(f"{stem}.scale") if end == "weight" else None
        self._taken.add(f"{stem}.scale")
        if scale is None:
            return None
        each = self._tensors[name].shape[:-2]
        if stem == "token_embd" or (scale.rows * scale.columns != 1 and scale.shape != each):
            raise UnsupportedModelError(
                f"the tensor {scale.name} of the shape {list(scale.shape)} is not supported, only one scale for a "
                "matrix or an expert, and none for the embedding: use another version of the model"
            )
        return scale

    def take_parts(self, name: str, columns: int, *rows: int) -> list[TensorInfo]:
        """Matrices of so many rows each, which lie one below the other in a tensor; raises like `take`."""
        whole = self.take(name, sum(rows), columns)
        size = whole.type.row_bytes(columns)
        starts = [sum(rows[:i]) for i in range(len(rows))]
        return [
            replace(whole, shape=(count, columns), offset=whole.offset + start * size, nbytes=count * size)
            for start, count in zip(starts, rows, strict=True)
        ]

    def optional(self, name: str, *shape: int) -> TensorInfo | None:
        """Like `take`, but None where there is no such tensor."""
        return self.take(name, *shape) if name in self._tensors else None

    def take_matrix(self, name: str) -> TensorInfo:
        """A tensor of two dimensions, whatever their size; raises like `take`."""
        tensor = self._tensors.get(name)
        return self.take(name, *(tensor.shape if tensor and len(tensor.shape) == 2 else (0, 0)))

    def take_row(self, name: str, columns: int) -> TensorInfo:
        """A matrix of one row, which some files have as a vector; raises like `take`."""
        tensor = self._tensors.get(name)
        shape = (columns,) if tensor and len(tensor.shape) == 1 else (1, columns)
        return replace(self.take(name, *shape), shape=(1, columns))
