"""The small inputs that ops are tried on, and how far they are off on them."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Literal

from wgpu_engine.files.quants import QUANT_TYPES
from wgpu_engine.ops.builder import Activation, Codec, PlanBuilder
from wgpu_engine.ops.embed import embed
from wgpu_engine.ops.known_answers.repack import FEATURES, K, small_tensor
from wgpu_engine.ops.known_answers.trial import Stage, Trial
from wgpu_engine.ops.known_answers.verify import error_of
from wgpu_engine.ops.repack import Loader
from wgpu_engine.ops.state import Row
from wgpu_engine.ops.weight import Norm, Weight

MANY = 8
"""rows of a plan for several"""
EPS = 1e-5
NORM_WIDTH = 416
"""of norms by several clusters, the last of which has less to do"""


@dataclass(frozen=True)
class Check:
    """A kernel and an attempt at it, which returns its error."""

    kernel: str
    attempt: Callable[[], Awaitable[float]]


class SmallInputs:
    """Plans of one row and of several, a norm, and a weight of each type."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        rows = [Row(token, position, 0) for token, position in ((3, 0), (60, 4), (7, 1), (41, 5), (12, 9))]
        self.many = trial.stage(trial.builder(MANY, 1), rows, (3,))
        self.one = trial.stage(trial.builder(1, 1), rows[:1], (0,))
        self.norm = Norm(trial.floats([1.25 - i % 3 for i in range(K)], "gain"), EPS)
        self.loader = Loader(trial.device, lambda count: None)
        self._weights: dict[tuple[str, int, int], Weight] = {}

    def free(self) -> None:
        self.loader.close()

    async def error(self, stage: Stage, op: Callable[[PlanBuilder], object]) -> float:
        """The error of the last op that is called."""
        builder = stage.builder
        builder.dispatches, builder.calls = [], []
        op(builder)
        *before, last = builder.calls
        for call in before:
            await self.trial.run(call.dispatches)
        return await error_of(self.trial, stage, last)

    async def error_of_reader(
        self, stage: Stage, codec: Codec, op: Callable[[PlanBuilder, Activation], object]
    ) -> float:
        """The error of an op that reads normed activations, which the embedding kernel makes."""
        table = await self.weight("F32")
        return await self.error(stage, lambda builder: op(builder, embed(builder, table, self.norm, codec)[1]))

    async def weight(self, name: str, start: int = 0, stop: int = FEATURES) -> Weight:
        """Rows start..stop of a type's small matrix, as a weight of their own."""
        key = (name, start, stop)
        if key not in self._weights:
            self._weights[key] = await self.loader.weight(name, [[small_tensor(QUANT_TYPES[name], start, stop)]])
            self.trial.hold(self._weights[key].parts[0].buffer)
        return self._weights[key]

    def norm_of(self, kind: Literal["rms", "layer"]) -> Norm:
        gain, bias = (
            self.trial.floats([shift - i % 5 / 4 for i in range(NORM_WIDTH)], "norm") for shift in (1.25, 0.5)
        )
        return Norm(gain, EPS, bias if kind == "layer" else None, kind)


def numbers(count: int, seed: int) -> list[float]:
    """Numbers from -2 to 2 that halves hold exactly."""
    return [value / 64 for value in memoryview(Random(seed).randbytes(count)).cast("b")]


def rows_of(stage: Stage) -> str:
    return "1 row" if stage.builder.rows == 1 else f"{stage.builder.rows} rows"
