"""The attention heads of a model, out of its settings."""

from wgpu_engine.errors import ModelFileError
from wgpu_engine.models.settings import REMEDY, Settings
from wgpu_engine.ops.attention import Heads


def read_heads(settings: Settings, *, neox: bool, scale: float | None = None) -> Heads:
    """The heads of a model that rotates queries and keys; `scale` where the file gives none, else head_dim^-0.5.

    Raises:
        ModelFileError: heads that can't be.
    """
    heads = settings.count("attention.head_count", largest=1 << 12)
    kv_heads = settings.count("attention.head_count_kv", heads, largest=1 << 12)
    head_dim = settings.count("attention.key_length", settings.count("embedding_length") // heads, largest=1 << 10)
    rope_dim = settings.count("rope.dimension_count", head_dim, largest=1 << 10)
    if heads % kv_heads or head_dim % 8 or not head_dim or rope_dim % 4 or rope_dim > head_dim:
        raise ModelFileError(
            f"the attention of this file can't be: {heads} heads over {kv_heads} key heads of {head_dim} values, "
            f"{rope_dim} of them rotated; {REMEDY}"
        )
    # said by what isn't GGUF, where the rows of q and k are as they were trained
    neox = settings.text("rope.pairs", "halves" if neox else "neighbours") == "halves"
    scale = settings.number("attention.scale", scale or head_dim**-0.5)
    return Heads(heads, kv_heads, head_dim, rope_dim, neox=neox, scale=scale)
