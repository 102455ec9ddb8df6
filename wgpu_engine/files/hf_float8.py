"""Weights of 8-bit floats: `quant_method` fp8 (per tensor, or in tiles as of DeepSeek and Qwen), fbgemm_fp8 (per row).

Their scales multiply, under either name that they have: `weight_scale_inv` is the inverse of what quantizing
multiplied by.
"""

from collections.abc import Awaitable, Callable

from wgpu_engine.errors import UnsupportedModelError
from wgpu_engine.files.float8 import Float8
from wgpu_engine.files.hf_config import HFConfig
from wgpu_engine.files.module import FLOATS, Module
from wgpu_engine.files.safetensors import StoredTensor

FLOAT8 = ("F8_E4M3", "F8_E5M2")
_SCALES = ("weight_scale", "weight_scale_inv")


def float8(settings: HFConfig) -> Callable[[Module], Awaitable[Float8 | None]]:
    """How to read the modules of a model of fp8 or fbgemm_fp8."""
    tile = tile_of(settings, "weight_block_size")

    async def rows(module: Module) -> Float8 | None:
        weight = module.parts.get("weight")
        if weight is None or weight.dtype not in FLOAT8:
            return None
        return float8_rows(module, tile)

    return rows


def tile_of(settings: HFConfig, key: str) -> tuple[int, int] | None:
    """Rows and columns of tiles that share a scale; None where the key is absent."""
    sizes = settings.counts(key, 2)
    if sizes is None:
        return None
    if sizes[1] % 128:
        raise UnsupportedModelError(
            f"the tiles of {sizes[0]} by {sizes[1]} weights of {settings.name} are not supported, only those whose "
            "columns are a multiple of 128: use another version of the model, or a GGUF file"
        )
    return sizes[0], sizes[1]


def float8_rows(module: Module, tile: tuple[int, int] | None) -> Float8:
    """A module's weight and scale; scales are one for all, one a row, or one a tile where there are tiles.

    Raises:
        ModelFileError: the scale is missing, or its shape is none of these.
    """
    weight = module.take_matrix("weight", FLOAT8)
    named = [part for part in _SCALES if part in module]
    if len(named) == 2:
        raise module.wrong(named[0], "has a sibling that is called weight_scale_inv")
    part = named[0] if named else _SCALES[0]
    scale = module.take(part, FLOATS)
    return Float8(weight, scale, _tile(module, part, scale, weight.shape, tile))


def _tile(
    module: Module, part: str, scale: StoredTensor, shape: tuple[int, ...], tile: tuple[int, int] | None
) -> tuple[int, int]:
    rows, columns = shape
    if scale.shape in ((), (1,), (1, 1)):
        return rows, columns
    if scale.shape in ((rows,), (rows, 1)):
        return 1, columns
    if tile is None:
        raise module.wrong(part, f"has the shape {list(scale.shape)}, which is neither one scale nor one a row")
    wanted = (-(-rows // tile[0]), -(-columns // tile[1]))
    if scale.shape != wanted:
        raise module.wrong(part, f"has the shape {list(scale.shape)} where {list(wanted)} belongs")
    return tile
