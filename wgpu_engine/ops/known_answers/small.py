"""Ops on small inputs: what `doctor` tries, every kernel in every form that the ops use on the device."""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from random import Random

from wgpu_engine.files.quants import QUANT_TYPES
from wgpu_engine.gpu.device import Buffer
from wgpu_engine.ops.attention import PARTITION, Heads, attend
from wgpu_engine.ops.builder import SLOT_WORDS, Activation, Codec, ceil_div
from wgpu_engine.ops.embed import embed
from wgpu_engine.ops.known_answers.blocks import FORMATS
from wgpu_engine.ops.known_answers.repack import FEATURES, K, repack, small_tensor
from wgpu_engine.ops.known_answers.sampling import sampling_error
from wgpu_engine.ops.known_answers.trial import KnownAnswer, Stage, Trial, answer
from wgpu_engine.ops.known_answers.verify import PRECISIONS, error_of
from wgpu_engine.ops.kv import KV_BLOCK, KVCache, KVType
from wgpu_engine.ops.matmul import add_to_residual, gated, project
from wgpu_engine.ops.repack import Loader
from wgpu_engine.ops.rope import angle_table, rope_and_store
from wgpu_engine.ops.state import FROM_SLOT, Row
from wgpu_engine.ops.weight import Norm, Weight

_MANY = 8
"""rows of a plan for several"""
_EPS = 1e-5
_VOCAB = 1003
_HEADS, _KV_HEADS, _HEAD_DIM, _ROPE_DIM = 4, 2, 32, 16
_LONGEST = PARTITION + 34
_TABLE_WIDTH = ceil_div(_LONGEST, KV_BLOCK)
_SLOTS = 3


@dataclass(frozen=True)
class SmallInputs:
    """What the checks share on a device."""

    trial: Trial
    loader: Loader
    norm: Norm
    many: Stage
    """five of eight rows, the fourth of which has an output"""
    one: Stage
    weights: dict[tuple[str, int, int], Weight]

    @staticmethod
    def make(trial: Trial) -> "SmallInputs":
        rows = [Row(token, 0, 0) for token in (3, 60, 7, 41, 12)]
        gain = trial.floats([1.25 - i % 3 for i in range(K)], "gain")
        loader = Loader(trial.device, lambda count: None)
        return SmallInputs(trial, loader, Norm(gain, _EPS), trial.stage(_MANY, rows, (3,)), trial.stage(1, rows[:1], (0,)), {})

    async def weight(self, name: str, start: int = 0, stop: int = FEATURES) -> Weight:
        """Rows start..stop of the type's small matrix, as a weight of their own."""
        key = (name, start, stop)
        if key not in self.weights:
            tensor = small_tensor(QUANT_TYPES[name], start, stop)
            weight = await self.loader.weight(name, [[tensor]])
            self.trial.hold(weight.parts[0].buffer)
            self.weights[key] = weight
        return self.weights[key]

    async def normed(self, codec: Codec, stage: Stage) -> Activation:
        """Activations [rows, K] to read, as the embedding kernel makes them."""
        _, h = embed(stage.builder, await self.weight("F32"), self.norm, codec)
        self.trial.run(stage.builder.dispatches)
        stage.builder.dispatches.clear()
        return h
