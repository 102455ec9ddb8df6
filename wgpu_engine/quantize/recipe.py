"""Which type each tensor of a model gets when the model is quantized."""

from dataclasses import dataclass, replace

from wgpu_engine.files.gguf import TensorInfo
from wgpu_engine.files.model_file import ModelFile
from wgpu_engine.files.quants import QUANT_TYPES, QuantType
from wgpu_engine.quantize.source import quantized

_FLOATS = ("F64", "F32", "F16", "BF16")
_INTEGERS = ("I8", "I16", "I32", "I64")
_KEPT = (
    "_norm.weight",
    ".ffn_gate_inp.weight",
    ".ffn_gate_inp_shexp.weight",
    ".ssm_conv1d.weight",
    ".shortconv.conv.weight",
    "position_embd.weight",
    "token_types.weight",
)
"""ends of names of matrices that are small or touchy: they stay in float, as llama.cpp has them"""
_ENDS = ("token_embd.weight", "output.weight")
_FALLBACKS = {
    "Q2_K": "Q4_0",
    "Q3_K": "Q4_0",
    "TQ1_0": "Q4_0",
    "TQ2_0": "Q4_0",
    "Q1_0": "Q4_0",
    "Q2_0": "Q4_0",
    "IQ4_XS": "IQ4_NL",
    "Q4_K": "Q5_0",
    "Q5_K": "Q5_1",
    "Q6_K": "Q8_0",
}
"""the type for rows that the blocks don't divide, as llama.cpp chooses it; F16 where that doesn't fit either"""


@dataclass(frozen=True)
class Fallback:
    """A tensor whose rows the blocks of the type that it should have don't divide."""

    tensor: TensorInfo
    """in the type that it gets"""
    wish: QuantType


@dataclass(frozen=True)
class Recipe:
    """A model to be quantized, and what to tell about it."""

    file: ModelFile
    """tensors are quantized as they are read"""
    wanted: QuantType
    changed: int
    """how many matrices get another type"""
    requantized: int
    """how many of those were quantized before"""
    fallbacks: tuple[Fallback, ...]

    @property
    def notes(self) -> list[str]:
        """Sentences on types that are not those one would expect."""
        groups: dict[tuple[str, str], list[Fallback]] = {}
        for each in self.fallbacks:
            groups.setdefault((each.wish.name, each.tensor.type.name), []).append(each)
        unchanged = f"no weight became {self.wanted.name}: all have that type, or a quantized one, already"
        return [_note(group) for group in groups.values()] + ([] if self.changed else [unchanged])


def _note(group: list[Fallback]) -> str:
    tensor, wish = group[0].tensor, group[0].wish
    who = tensor.name if len(group) == 1 else f"{tensor.name} and {len(group) - 1} more"
    return (
        f"{who} became {tensor.type.name}, since rows of {tensor.columns} are not whole blocks of {wish.name}, which "
        f"have {wish.block} weights"
    )


def recipe(file: ModelFile, wanted: QuantType, *, pure: bool = False, requantize: bool = False) -> Recipe:
    """The model with its matrices in the wanted type.

    Vectors, norms and some small matrices become F32. Embedding and output get Q6_K where `wanted` has fewer than four
    bits a weight, unless all is to be `pure`. Weights that are quantized already stay as they are unless `requantize`.
    """
    tensors, changed, requantized, fallbacks = {}, 0, 0, []
    for tensor in file.tensors.values():
        wish = _wish(tensor, wanted, pure, requantize)
        target = _fitting(wish, tensor.columns)
        tensors[tensor.name] = quantized(tensor, target)
        if target is not tensor.type and _is_matrix(tensor):
            changed += 1
            requantized += tensor.type.name not in _FLOATS
        if target is not wish:
            fallbacks.append(Fallback(tensors[tensor.name], wish))
    return Recipe(replace(file, tensors=tensors), wanted, changed, requantized, tuple(fallbacks))


def _is_matrix(tensor: TensorInfo) -> bool:
    return len(tensor.shape) > 1 and tensor.name.endswith(".weight") and not tensor.name.endswith(_KEPT)


def _wish(tensor: TensorInfo, wanted: QuantType, pure: bool, requantize: bool) -> QuantType:
    """The type that a tensor should have, whether its rows are whole blocks of it or not."""
    if tensor.type.name in _INTEGERS or (tensor.type.name not in _FLOATS and not requantize):
        return tensor.type
    if not _is_matrix(tensor):
        return QUANT_TYPES["F32"]
    few = 8 * wanted.block_bytes < 4 * wanted.block
    return QUANT_TYPES["Q6_K"] if few and tensor.name in _ENDS and not pure else wanted


def _fitting(quant: QuantType, columns: int) -> QuantType:
    while columns % quant.block:
        quant = QUANT_TYPES[_FALLBACKS.get(quant.name, "F16")]
    return quant
