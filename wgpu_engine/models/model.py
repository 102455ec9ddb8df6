"""What the engine needs to know of a model, whatever its architecture."""

from dataclasses import dataclass
from typing import Protocol

from wgpu_engine.gpu.device import Buffer, Device
from wgpu_engine.models.settings import Settings
from wgpu_engine.models.tensors import Tensors
from wgpu_engine.ops.builder import PlanBuilder
from wgpu_engine.ops.kv import KVCache
from wgpu_engine.ops.repack import Loader


@dataclass(frozen=True)
class PagedKV:
    """State of an attention layer: a key and a value of `heads` * `head_dim` for each position."""

    heads: int
    head_dim: int
    window: int = 0
    """positions that a row sees, its own among them; 0: all before it"""


@dataclass(frozen=True)
class ShortConv:
    """State of a short convolution: its inputs, `width` floats, at the last positions."""

    width: int
    kernel: int
    """positions that are convolved"""


State = PagedKV | ShortConv


@dataclass(frozen=True)
class Description:
    """A model in figures, as `info` shows it."""

    architecture: str
    name: str
    parameters: int
    active_parameters: int
    """those that a token meets, where it goes through some of many experts"""
    layers: int
    width: int
    vocab: int
    context: int
    """positions that it was trained for; of an encoder, the tokens of a text"""
    states: tuple[State, ...]
    """the state of each layer"""
    most_positions: int | None = None
    """positions that there are embeddings of; None: any number"""
    encodes: bool = False
    """whether it makes embeddings of texts instead of logits"""


class Architecture(Protocol):
    """How files of an architecture become models."""

    @staticmethod
    def states(settings: Settings, tensors: Tensors) -> tuple[State, ...]:
        """The state of each layer; raises ModelFileError where a setting is missing or absurd."""

    @staticmethod
    async def load(
        device: Device, settings: Settings, tensors: Tensors, description: Description, loader: Loader
    ) -> "Model":
        """Brings the weights onto the device.

        Raises:
            ModelFileError: a tensor or a setting is missing or can't be.
            UnsupportedModelError: something that this version can't compute.
        """


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

        Returns logits f32 [outputs, vocab], or embeddings [outputs, width] of the texts that begin in the rows of the
        outputs; their rows are padded to 16 bytes. None in a plan without outputs.
        """
