"""Quantized models as the hub has them: which tensors make up a weight, by `quantization_config` in config.json.

What isn't quantized in such a model (embedding, norms, modules that its configuration leaves out) stays as it is.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from wgpu_engine.errors import UnsupportedModelError
from wgpu_engine.files.gguf import TensorInfo
from wgpu_engine.files.gguf_window import show
from wgpu_engine.files.hf_config import HFConfig
from wgpu_engine.files.hf_float8 import float8
from wgpu_engine.files.hf_integers import awq, compressed, gptq
from wgpu_engine.files.hf_ternary import ternary
from wgpu_engine.files.module import Module
from wgpu_engine.files.packed_rows import Rows, packed_tensor
from wgpu_engine.files.safetensors import StoredTensor

_NOT_NEEDED = (
    *("activation_scale", "input_scale", "input_scale_ub", "input_zero_point", "output_scale"),
    *("k_scale", "v_scale", "q_scale"),
)
"""scales of activations and of the cache, which are not quantized by them here"""


@dataclass
class Unpacked:
    """The tensors of a model by their names on the hub, quantized ones as single tensors called `<module>.weight`."""

    tensors: dict[str, StoredTensor | TensorInfo] = field(default_factory=dict)
    expanded: list[str] = field(default_factory=list)
    """those that had to become F16"""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know of it, a sentence each."""
        if not self.expanded:
            return ()
        more = f" and {len(self.expanded) - 1} other tensors" if len(self.expanded) > 1 else ""
        return (
            f"{self.expanded[0]}{more} became F16, since their groups are in no order that blocks can follow: a "
            "version of the model without act-order (desc_act) would take a quarter of the memory",
        )


async def unpack(config: HFConfig, stored: Mapping[str, StoredTensor]) -> Unpacked:
    """Puts the tensors of quantized weights together; of a model that isn't quantized all stay as they are.

    Raises:
        UnsupportedModelError: a method, or a setting of one, that this version doesn't know.
        ModelFileError: tensors that a weight needs are missing, or have the wrong type or shape.
    """
    settings = config.section("quantization_config")
    if settings is None:
        return Unpacked(dict(stored))
    method = settings.text("quant_method", "unnamed")
    if method not in _METHODS:
        raise UnsupportedModelError(
            f"the quantization {show(method)} of {config.name} is not supported; supported: "
            f"{', '.join(sorted(_METHODS))}, or use a GGUF file"
        )
    rows_of = _METHODS[method](settings)
    modules: dict[str, dict[str, StoredTensor]] = {}
    for name, tensor in stored.items():
        stem, _, part = name.rpartition(".")
        modules.setdefault(stem, {})[part] = tensor
    found = Unpacked()
    for stem, parts in modules.items():
        module = Module(stem, parts)
        rows = await rows_of(module)
        if rows is not None:
            name = module.name("weight")
            found.tensors[name] = packed_tensor(name, rows, next(iter(parts.values())).source.name)
            if rows.quant.is_float and rows.quant.block == 1:
                found.expanded.append(name)
        rest = module.rest(_NOT_NEEDED)
        if rows is not None and set(rest) - {"bias"}:
            raise UnsupportedModelError(
                f"the tensor {show(module.name(min(set(rest) - {'bias'})))} is not known of models that are quantized "
                f"by {show(method)}: use another version of the model, or a GGUF file"
            )
        found.tensors |= {module.name(part): tensor for part, tensor in rest.items()}
    return found


_RowsOf = Callable[[Module], Awaitable[Rows | None]]
"""the rows of a quantized weight, None where a module has none; takes what it uses out of the module"""

_METHODS: dict[str, Callable[[HFConfig], _RowsOf]] = {
    "awq": awq,
    "bitnet": ternary,
    "compressed-tensors": compressed,
    "fbgemm_fp8": float8,
    "fp8": float8,
    "gptq": gptq,
}
"""by `quant_method`"""
