"""The paged KV cache as kernels see it."""

from dataclasses import dataclass
from typing import Any, Literal

from wgpu_engine.gpu.device import Buffer

KVType = Literal["f16", "f32"]
KV_BLOCK = 32
"""positions in a block"""


@dataclass(frozen=True)
class KVCache:
    """The state of each layer, and the slots' block tables.

    A layer with attention has a buffer [blocks, key or value, kv_heads, KV_BLOCK, head_dim], and one with a window has
    so many blocks a slot that they can be used in turns. One with a short convolution has a ring, f32 [slots, ring,
    width].
    """

    kv_type: KVType
    layers: tuple[Buffer, ...]
    tables: Buffer
    """u32 [slots, table_width]: the block of each run of KV_BLOCK positions"""
    table_width: int
    rings: tuple[int, ...] = ()
    """for each layer, the positions that its ring holds; 0 where it has none"""

    def ring_blocks(self, layer: int) -> int:
        """Blocks that each slot of a layer with attention has to itself; 0: those of its table."""
        return self.rings[layer] // KV_BLOCK if self.rings else 0

    def values(self, layer: int) -> dict[str, Any]:
        return {
            "kv_type": self.kv_type,
            "kv_block": KV_BLOCK,
            "table_width": self.table_width,
            "ring_blocks": self.ring_blocks(layer),
        }


def kv_block_bytes(kv_heads: int, head_dim: int, kv_type: KVType) -> int:
    """Bytes of a block of one layer."""
    return 2 * kv_heads * KV_BLOCK * head_dim * (2 if kv_type == "f16" else 4)
