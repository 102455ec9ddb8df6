"""Ternary weights: `quant_method` bitnet, packed, or floats that are still to be rounded.

Settings: BitNetQuantConfig of transformers. Activations, which it rounds to int8 a row, stay as they are here.
"""

from collections.abc import Awaitable, Callable

from wgpu_engine.errors import UnsupportedModelError
from wgpu_engine.files.gguf_window import show
from wgpu_engine.files.hf_config import HFConfig
from wgpu_engine.files.module import FLOATS, Module
from wgpu_engine.files.packed_rows import Rows
from wgpu_engine.files.ternary import PackedTernary, RoundedTernary

_LEFT_OUT = ("lm_head", "embed_tokens")
"""modules that are never rounded"""


def ternary(settings: HFConfig) -> Callable[[Module], Awaitable[Rows | None]]:
    """How to read the modules of a model of bitnet."""
    linear = _one_of(settings, "linear_class", "bitlinear", "autobitlinear")
    mode = _one_of(settings, "quantization_mode", "offline", "online")
    if settings.flag("use_rms_norm", False):
        raise UnsupportedModelError(
            f"{settings.name} has norms inside of its linear layers (use_rms_norm), which is not supported: use "
            "another version of the model, or a GGUF file"
        )
    left_out = (*_LEFT_OUT, *settings.texts("modules_to_not_convert"))

    async def rows(module: Module) -> Rows | None:
        weight = module.parts.get("weight")
        if weight is None or any(name in module.stem for name in left_out):
            return None
        found: Rows
        if weight.dtype == "U8":
            packed, scale = module.take_matrix("weight", ("U8",)), module.take("weight_scale", FLOATS)
            if scale.shape not in ((), (1,)):
                raise module.wrong("weight_scale", f"has the shape {list(scale.shape)}, which is not one scale")
            found = PackedTernary(packed, scale, inverse=linear == "bitlinear")
        elif mode == "online" and len(weight.shape) == 2:
            found = RoundedTernary(module.take_matrix("weight", FLOATS))
        else:
            return None
        if found.shape[1] % 32:
            raise module.unsupported(f"has rows of {found.shape[1]} weights, which don't divide by 32")
        return found

    return rows


def _one_of(settings: HFConfig, key: str, *known: str) -> str:
    """A setting; the first of those known where it is absent."""
    found = settings.text(key, known[0])
    if found not in known:
        raise UnsupportedModelError(
            f"the {key} {show(found)} of {settings.name} is not supported, only {' and '.join(known)}: use another "
            "version of the model, or a GGUF file"
        )
    return found
