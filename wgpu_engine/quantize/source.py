"""A tensor that is quantized while it is read."""

from wgpu_engine.errors import ModelFileError, UnsupportedModelError
from wgpu_engine.files.gguf import TensorInfo
from wgpu_engine.files.quants import QuantType
from wgpu_engine.quantize.convert import convert


class QuantizedSource:
    """The bytes of a tensor in another type, made of those rows that are asked for; nothing is kept."""

    def __init__(self, tensor: TensorInfo, quant: QuantType) -> None:
        self.name = tensor.source.name
        self._tensor = tensor
        self._quant = quant
        self._row_bytes = quant.row_bytes(tensor.columns)
        self.size = tensor.rows * self._row_bytes

    async def read(self, offset: int, length: int) -> memoryview:
        """Raises ModelFileError where weights are no numbers, UnsupportedModelError where the type can't hold them."""
        if offset < 0 or length < 0 or offset + length > self.size:
            raise ModelFileError(
                f"{self.name} is truncated or damaged: bytes {offset} to {offset + length} of a tensor of {self.size} "
                "were asked for; download it again"
            )
        tensor, first = self._tensor, offset // self._row_bytes
        rows = -(-(offset + length) // self._row_bytes) - first
        given = tensor.type.row_bytes(tensor.columns)
        raw = await tensor.source.read(tensor.offset + first * given, rows * given)
        try:
            made = convert(raw, tensor.type, self._quant, tensor.columns)
        except ValueError:
            raise ModelFileError(
                f"the tensor {tensor.name} of {self.name} holds NaN or infinite values, which can't be quantized: "
                "get a sound file"
            ) from None
        except OverflowError:
            raise UnsupportedModelError(
                f"the tensor {tensor.name} of {self.name} holds values too large for {self._quant.name}: quantize to "
                "BF16, or leave the model as it is"
            ) from None
        start = offset - first * self._row_bytes
        return made.data[start : start + length]

    def close(self) -> None:
        """Nothing is held; the model's own source stays open."""


def quantized(tensor: TensorInfo, quant: QuantType) -> TensorInfo:
    """The tensor in another type, whose blocks its rows must fill; the same where it is of that type already."""
    if tensor.type is quant:
        return tensor
    source = QuantizedSource(tensor, quant)
    return TensorInfo(tensor.name, quant, tensor.shape, source, 0, source.size)
