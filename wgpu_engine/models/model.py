"""What the engine needs to know of a model, whatever its architecture."""

from dataclasses import dataclass
from typing import Protocol

from wgpu_engine.gpu.device import Buffer
from wgpu_engine.ops.builder import PlanBuilder
from wgpu_engine.ops.kv import KVCache


@dataclass(frozen=True)
class PagedKV:
    """State of an attention layer: a key and a value of `heads` * `head_dim` for each position."""

    heads: int
    head_dim: int


@dataclass(frozen=True)
class Description:
    """A model in figures, as `info` shows it."""

    architecture: str
    name: str
    parameters: int
    layers: int
    width: int
    vocab: int
    context: int
    """positions that it was trained for"""
    states: "tuple[PagedKV, ...]"
    """the state of each layer"""


class Model(Protocol):
    """Weights on a device and the forward pass over them."""

    description: Description

    @property
    def weight_bytes_per_token(self) -> int:
        """Bytes of weights that a decode step reads."""

    def prepare(self, positions: int) -> None:
        """Makes what depends on the longest context (tables of angles)."""

    def forward(self, builder: PlanBuilder, cache: KVCache, positions: int) -> Buffer | None:
        """Adds the forward pass of a plan; `positions` bounds the rows' positions.

        Returns logits f32 [outputs, vocab], rows padded to 16 bytes; None in a plan without outputs.
        """
