"""Ops on small inputs: what `doctor` tries, every kernel in every form that the ops use on the device."""

import struct
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from itertools import product
from random import Random
from typing import Any, Literal

from wgpu_engine.files.quants import QUANT_TYPES
from wgpu_engine.ops.attention import PARTITION, Heads, attend
from wgpu_engine.ops.builder import SLOT_WORDS, Activation, Codec, PlanBuilder, ceil_div, square_words
from wgpu_engine.ops.embed import Index, embed, look_up
from wgpu_engine.ops.experts import add_experts, gated_experts
from wgpu_engine.ops.known_answers.blocks import FORMATS
from wgpu_engine.ops.known_answers.log_prob import log_prob_error
from wgpu_engine.ops.known_answers.repack import FEATURES, K, repack_error, small_tensor
from wgpu_engine.ops.known_answers.sampling import sampling_error
from wgpu_engine.ops.known_answers.trial import SLOTS, Stage, Trial
from wgpu_engine.ops.known_answers.verify import PRECISIONS, error_of
from wgpu_engine.ops.kv import KV_BLOCK, KVCache, KVType
from wgpu_engine.ops.matmul import Gate, activated, add_to_residual, gated, project
from wgpu_engine.ops.norm import norm, residual_norm
from wgpu_engine.ops.pool import Pooling, pool
from wgpu_engine.ops.repack import Loader
from wgpu_engine.ops.rope import angle_table, rope_and_store
from wgpu_engine.ops.routing import Routing, route
from wgpu_engine.ops.short_conv import Convolution, short_conv
from wgpu_engine.ops.state import FROM_SLOT, Row
from wgpu_engine.ops.weight import Norm, Weight

_CODECS: tuple[Codec, ...] = ("f32", "q8")
_KV_TYPES: tuple[KVType, ...] = ("f16", "f32")
_MANY = 8
"""rows of a plan for several"""
_EPS = 1e-5
_VOCAB = 1003
_NORM_WIDTH = 416
"""of norms by several clusters, the last of which has less to do"""
_POOLINGS: tuple[Pooling, ...] = ("mean", "cls")
_INDICES: tuple[Index, ...] = ("token", "position", "first")
_ACTIVATIONS: tuple[Gate, ...] = ("gelu", "gelu_tanh", "relu", "relu2")
_NORMS: tuple[Literal["rms", "layer"], ...] = ("rms", "layer")
_HALF = FEATURES // 2
_EXPERTS, _USED = 4, 2
_HEADS, _KV_HEADS, _HEAD_DIM, _ROPE_DIM = 4, 2, 32, 16
_ROW = (_HEADS + 2 * _KV_HEADS) * _HEAD_DIM
_LONGEST = PARTITION + 34
_CHANNELS, _KERNEL, _RING = 64, 3, 11
_TABLE_WIDTH = ceil_div(_LONGEST, KV_BLOCK)
_WINDOW_RING = KV_BLOCK * (_TABLE_WIDTH - 1)


@dataclass(frozen=True)
class Check:
    """A kernel and an attempt at it, which returns its error."""

    kernel: str
    attempt: Callable[[], Awaitable[float]]


class SmallChecks:
    """Every kernel on small inputs, those that others build on first."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        rows = [Row(token, position, 0) for token, position in ((3, 0), (60, 4), (7, 1), (41, 5), (12, 9))]
        self._many = trial.stage(trial.builder(_MANY, 1), rows, (3,))
        self._one = trial.stage(trial.builder(1, 1), rows[:1], (0,))
        self._norm = Norm(trial.floats([1.25 - i % 3 for i in range(K)], "gain"), _EPS)
        self._loader = Loader(trial.device, lambda count: None)
        self._weights: dict[tuple[str, int, int], Weight] = {}

    def free(self) -> None:
        self._loader.close()

    def checks(self) -> Iterator[Check]:
        known = [name for name in QUANT_TYPES if name in FORMATS]
        readers = {
            codec: [name for name in known if codec == "f32" or not QUANT_TYPES[name].is_float] for codec in _CODECS
        }
        stages = (self._one, self._many)
        for name in known:
            yield self._repack(name)
        for name in known:
            yield self._embed(name, "f32")
        yield self._embed("F32", "q8")
        for index in _INDICES:
            yield self._look_up(index)
        for codec in _CODECS:
            for name, stage in product(readers[codec], stages):
                yield self._matmul(name, codec, stage)
        yield self._matmul("F32", "f32", self._many, squared=True)
        for codec, stage in product(_CODECS, stages):
            yield self._gated(readers[codec][0], codec, stage)
            yield self._residual(readers[codec][0], codec, stage)
        for codec in _CODECS:
            yield self._gate(readers[codec][0], codec)
            yield self._capped(readers[codec][0], codec)
        for activation in _ACTIVATIONS:
            yield self._activated(activation)
        for rows in (1, _MANY, 2 * _MANY):
            yield self._route(rows)
        for codec, stage in product(_CODECS, stages):
            yield self._gated_experts(readers[codec][0], codec, stage)
            yield self._add_experts(readers[codec][0], codec, stage)
        for kind, codec in product(_NORMS, _CODECS):
            yield self._explicit_norm(kind, codec)
        for kind in _NORMS:
            yield self._residual_norm(kind)
        yield self._residual_norm("rms", after=False)
        for pooling in _POOLINGS:
            yield self._pool(pooling)
        for neox, kv_type in product((False, True), _KV_TYPES):
            yield self._rope(neox, kv_type)
        yield self._rope(True, "f16", row_norm=True)
        for split, kv_type, codec in product((False, True), _KV_TYPES, _CODECS):
            yield self._attend(split, kv_type, codec)
        for split, form in product((False, True), ("windowed", "capped", "bidirectional", "with sinks")):
            yield self._attend(split, "f16", "f32", form)
        for codec in _CODECS:
            yield self._short_conv(codec)
        yield Check("log probability", lambda: log_prob_error(self.trial, self._one, _VOCAB))
        yield Check("sample", lambda: sampling_error(self.trial, self._one, _VOCAB))

    def _repack(self, name: str) -> Check:
        return Check(f"repack {name}", lambda: repack_error(self.trial, self._loader, QUANT_TYPES[name]))

    def _embed(self, name: str, codec: Codec) -> Check:
        async def attempt() -> float:
            table = await self._weight(name)
            return await self._error(self._many, lambda builder: embed(builder, table, self._norm, codec, scale=1.5))

        return Check(f"embed {name} {PRECISIONS[codec]}", attempt)

    def _look_up(self, index: Index) -> Check:
        """Tokens alone, anything else added to what there is."""

        async def attempt() -> float:
            table = await self._weight("F32")
            x = None if index == "token" else self.trial.floats(_numbers(_MANY * K, seed=8), "x")
            return await self._error(self._many, lambda builder: look_up(builder, table, index, scale=1.5, onto=x))

        return Check(f"embed F32 by {index}{'' if index == 'token' else ', added'}", attempt)

    def _matmul(self, name: str, codec: Codec, stage: Stage, *, squared: bool = False) -> Check:
        async def attempt() -> float:
            weight = await self._weight(name)

            def op(builder: PlanBuilder, h: Activation) -> None:
                out = builder.floats(FEATURES, "product")
                squares = (
                    builder.buffer(4 * builder.rows * square_words(FEATURES), "squares of it") if squared else None
                )
                project(builder, (weight,), h, out, FEATURES, squares=squares)

            return await self._error_of_reader(stage, codec, op)

        form = " and squares" if squared else ""
        return Check(f"matmul {name}{form} {PRECISIONS[codec]}, {_rows(stage)}", attempt)

    def _gated(self, name: str, codec: Codec, stage: Stage) -> Check:
        async def attempt() -> float:
            halves = [small_tensor(QUANT_TYPES[name], *half) for half in ((0, _HALF), (_HALF, FEATURES))]
            pair = await self._loader.paired(name, halves)
            self.trial.hold(pair[0].parts[0].buffer)
            return await self._error_of_reader(stage, codec, lambda builder, h: gated(builder, pair, h, codec))

        return Check(f"gated {name} {PRECISIONS[codec]}, {_rows(stage)}", attempt)

    def _gate(self, name: str, codec: Codec) -> Check:
        """Gate and up features by products of their own, of rows picked by outputs, and with a bias."""

        async def attempt() -> float:
            weights = (await self._weight(name, 0, _HALF), await self._weight(name, _HALF, FEATURES))
            bias = self.trial.floats([i / 32 - 1 for i in range(FEATURES)], "bias")
            return await self._error_of_reader(
                self._one, codec, lambda builder, h: gated(builder, weights, h, codec, bias=bias)
            )

        return Check(f"gate {PRECISIONS[codec]}", attempt)

    def _capped(self, name: str, codec: Codec) -> Check:
        async def attempt() -> float:
            weight = await self._weight(name)

            def op(builder: PlanBuilder, h: Activation) -> None:
                project(builder, (weight,), h, builder.floats(FEATURES, "product"), FEATURES, cap=3.0)

            return await self._error_of_reader(self._one, codec, op)

        return Check(f"matmul capped {name} {PRECISIONS[codec]}, {_rows(self._one)}", attempt)

    def _activated(self, activation: Gate) -> Check:
        async def attempt() -> float:
            weight = await self._weight("F32")
            bias = self.trial.floats([i / 16 - 2 for i in range(FEATURES)], "bias")
            return await self._error_of_reader(
                self._many,
                "f32",
                lambda builder, h: activated(builder, weight, h, "f32", activation=activation, bias=bias),
            )

        return Check(f"activated {activation} F32 exact, {_rows(self._many)}", attempt)

    def _residual(self, name: str, codec: Codec, stage: Stage) -> Check:
        async def attempt() -> float:
            weight = await self._weight(name)
            x = self.trial.floats([i % 37 / 9 - 2 for i in range(_MANY * FEATURES)], "residual")
            norm = Norm(self.trial.floats([1.5 - i % 4 for i in range(FEATURES)], "gain"), _EPS)
            return await self._error_of_reader(
                stage, codec, lambda builder, h: add_to_residual(builder, weight, h, x, norm, codec)
            )

        return Check(f"residual and norm {name} {PRECISIONS[codec]}, {_rows(stage)}", attempt)

    def _route(self, rows: int) -> Check:
        async def attempt() -> float:
            stage = self.trial.stage(self.trial.builder(rows, 0), [Row(0, 0, 0)] * (rows - rows // 4))
            logits = self.trial.floats(_numbers(rows * 60, seed=8), "logits")
            return await self._error(stage, lambda builder: route(builder, logits, 60, 4, normalised=False, scale=2.5))

        return Check(f"route 4 of 60, {rows} row{'s' if rows > 1 else ''}", attempt)

    def _gated_experts(self, name: str, codec: Codec, stage: Stage) -> Check:
        async def attempt() -> float:
            router = await self._weight(name, 0, _EXPERTS)
            pair = await self._expert_weight(name, 2)
            return await self._error_of_reader(
                stage, codec, lambda builder, h: gated_experts(builder, (pair,), h, _routed(builder, router, h), codec)
            )

        return Check(f"gated experts {name} {PRECISIONS[codec]}, {_rows(stage)}", attempt)

    def _add_experts(self, name: str, codec: Codec, stage: Stage) -> Check:
        async def attempt() -> float:
            router = await self._weight(name, 0, _EXPERTS)
            pair, down = await self._expert_weight(name, 2), await self._expert_weight(name, 1)
            x = self.trial.floats([i % 37 / 9 - 2 for i in range(_MANY * K)], "residual")

            def op(builder: PlanBuilder, h: Activation) -> None:
                routing = _routed(builder, router, h)
                made = gated_experts(builder, (pair,), h, routing, codec)
                add_experts(builder, down, made, routing, x, self._norm, codec)

            return await self._error_of_reader(stage, codec, op)

        return Check(f"sum of experts {name} {PRECISIONS[codec]}, {_rows(stage)}", attempt)

    async def _expert_weight(self, name: str, ports: int) -> Weight:
        """Experts of K features each, no two of them with the same in one place."""
        starts = [(8 * expert + start) % FEATURES for expert in range(_EXPERTS) for start in range(0, K, 8)]
        tensors = [small_tensor(QUANT_TYPES[name], start, start + 8) for start in starts]
        weight = await self._loader.weight(
            name, [tensors[4 * port :] + tensors[: 4 * port] for port in range(ports)], experts=_EXPERTS
        )
        self.trial.hold(weight.parts[0].buffer)
        return weight

    def _explicit_norm(self, kind: Literal["rms", "layer"], codec: Codec) -> Check:
        async def attempt() -> float:
            x = self.trial.floats(_numbers(_MANY * _NORM_WIDTH, seed=5), "x")
            of_x = self._norm_of(kind)
            return await self._error(self._many, lambda builder: norm(builder, x, _NORM_WIDTH, of_x, codec))

        return Check(f"norm {kind} {PRECISIONS[codec]}", attempt)

    def _residual_norm(self, kind: Literal["rms", "layer"], *, after: bool = True) -> Check:
        """The norm of what a sub-layer made, and of the residual stream afterwards or none, which is then rounded."""

        async def attempt() -> float:
            x, y = (self.trial.floats(_numbers(_MANY * _NORM_WIDTH, seed=seed), "x") for seed in (6, 7))
            post, norm_after = self._norm_of(kind), self._norm_of(kind) if after else None
            codec: Codec = "f32" if after else "q8"
            return await self._error(
                self._many,
                lambda builder: residual_norm(builder, x, y, _NORM_WIDTH, norm_after, codec, post=post, scale=1.5),
            )

        return Check(f"norm {f'{kind} exact' if after else 'none fast'}, residual + {kind} norm", attempt)

    def _pool(self, kind: Pooling) -> Check:
        """Two texts, of three rows and of two."""

        async def attempt() -> float:
            rows = [Row(0, i, 0, sees=2) for i in range(3)] + [Row(0, i, 1, sees=1) for i in range(2)]
            stage = self.trial.stage(self.trial.builder(_MANY, 2), rows, (0, 3))
            x = self.trial.floats(_numbers(_MANY * _NORM_WIDTH, seed=9), "x")
            return await self._error(stage, lambda builder: pool(builder, x, _NORM_WIDTH, kind))

        return Check(f"pool {kind}", attempt)

    def _norm_of(self, kind: Literal["rms", "layer"]) -> Norm:
        gain, bias = (
            self.trial.floats([shift - i % 5 / 4 for i in range(_NORM_WIDTH)], "norm") for shift in (1.25, 0.5)
        )
        return Norm(gain, _EPS, bias if kind == "layer" else None, kind)

    def _rope(self, neox: bool, kv_type: KVType, *, row_norm: bool = False) -> Check:
        async def attempt() -> float:
            trial = self.trial
            rows = [Row(0, 0, 0), Row(0, 7, 0), Row(0, 271, 0), Row(FROM_SLOT, FROM_SLOT, 1)]
            stage = trial.stage(trial.builder(_MANY, 0), rows)
            trial.device.write(trial.slots, 4 * SLOT_WORDS, struct.pack("<2I", 0, 35))
            qkv = trial.floats(_numbers(_ROW * _MANY, seed=1), "qkv")
            frequencies = [10000 ** (-2 * i / _ROPE_DIM) for i in range(_ROPE_DIM // 2)]
            angles = trial.hold(angle_table(trial.device, frequencies, _LONGEST))
            cache = self._cache(kv_type)
            norm = squares = None
            if row_norm:
                norm = Norm(trial.floats(_numbers((_HEADS + _KV_HEADS) * _HEAD_DIM, seed=8), "gain"), _EPS)
                squares = trial.floats([2.0 + i % 7 for i in range(_MANY * square_words(_ROW))], "squares")
            return await self._error(
                stage, lambda builder: rope_and_store(builder, qkv, _heads(neox), angles, cache, 0, norm, squares)
            )

        return Check(f"rope {'neox' if neox else 'norm'} {kv_type}{' with norm of rows' if row_norm else ''}", attempt)

    def _attend(self, split: bool, kv_type: KVType, codec: Codec, form: str = "") -> Check:
        async def attempt() -> float:
            places = ((0, _LONGEST - 1), (1, 40), (0, PARTITION - 1))
            rows = [Row(0, position, slot, sees=_LONGEST - 1 - position // 3) for slot, position in places]
            stage = self.trial.stage(self.trial.builder(_MANY if split else 2 * _MANY, 0), rows)
            forms: dict[str, dict[str, Any]] = {
                "windowed": {"window": PARTITION + 17 if split else 43},
                "capped": {"cap": 2.5},
                "bidirectional": {"causal": False},
                "with sinks": {"sinks": self.trial.floats([i - 1.5 for i in range(_HEADS)], "sinks")},
            }
            qkv = self.trial.floats(_numbers(_ROW * len(places), seed=2), "qkv")
            # in a ring of blocks, as windows have it
            cache = self._cache(kv_type, ring=_WINDOW_RING if form == "windowed" else 0)
            return await self._error(
                stage,
                lambda builder: attend(builder, qkv, _heads(False), cache, 0, _LONGEST, codec, **forms.get(form, {})),
            )

        name = " ".join(filter(None, (kv_type, "split" if split else "", form, PRECISIONS[codec])))
        return Check(f"attention {name}", attempt)

    def _short_conv(self, codec: Codec) -> Check:
        """Rows at the start of a sequence, next to each other, and where the ring closes."""

        async def attempt() -> float:
            places = ((0, 0), (0, 1), (0, 2), (1, _RING - 1), (1, _RING))
            stage = self.trial.stage(
                self.trial.builder(_MANY, 0), [Row(0, position, slot) for slot, position in places]
            )
            bcx = self.trial.floats(_numbers(3 * _CHANNELS * _MANY, seed=5), "bcx")
            taps = self.trial.floats(_numbers((_KERNEL + 1) * _CHANNELS, seed=6), "taps")
            ring = self.trial.floats(_numbers(SLOTS * _RING * _CHANNELS, seed=7), "ring")
            cache = KVCache("f32", (ring,), self.trial.words([0], "block tables"), 1, (_RING,))
            conv = Convolution(taps, _CHANNELS, _KERNEL)
            return await self._error(stage, lambda builder: short_conv(builder, bcx, conv, cache, 0, codec))

        return Check(f"short convolution {PRECISIONS[codec]}", attempt)

    async def _error(self, stage: Stage, op: Callable[[PlanBuilder], object]) -> float:
        """The error of the last op that is called."""
        builder = stage.builder
        builder.dispatches, builder.calls = [], []
        op(builder)
        *before, last = builder.calls
        for call in before:
            self.trial.run(call.dispatches)
        return await error_of(self.trial, stage, last)

    async def _error_of_reader(
        self, stage: Stage, codec: Codec, op: Callable[[PlanBuilder, Activation], object]
    ) -> float:
        """The error of an op that reads normed activations, which the embedding kernel makes."""
        table = await self._weight("F32")
        return await self._error(stage, lambda builder: op(builder, embed(builder, table, self._norm, codec)[1]))

    async def _weight(self, name: str, start: int = 0, stop: int = FEATURES) -> Weight:
        """Rows start..stop of a type's small matrix, as a weight of their own."""
        key = (name, start, stop)
        if key not in self._weights:
            self._weights[key] = await self._loader.weight(name, [[small_tensor(QUANT_TYPES[name], start, stop)]])
            self.trial.hold(self._weights[key].parts[0].buffer)
        return self._weights[key]

    def _cache(self, kv_type: KVType, ring: int = 0) -> KVCache:
        """A cache of one layer that is full of numbers, its blocks in no order or in rings of so many positions."""
        blocks = list(range(SLOTS * _TABLE_WIDTH))
        Random(3).shuffle(blocks)
        values = _numbers(len(blocks) * 2 * _KV_HEADS * KV_BLOCK * _HEAD_DIM, seed=4)
        layer = struct.pack(f"<{len(values)}{'e' if kv_type == 'f16' else 'f'}", *values)
        tables = self.trial.words(blocks, "block tables")
        return KVCache(kv_type, (self.trial.filled(layer, "kv"),), tables, _TABLE_WIDTH, (ring,))


def _heads(neox: bool) -> Heads:
    return Heads(_HEADS, _KV_HEADS, _HEAD_DIM, _ROPE_DIM, neox, _HEAD_DIM**-0.5)


def _numbers(count: int, seed: int) -> list[float]:
    """Numbers from -2 to 2 that halves hold exactly."""
    return [value / 64 for value in memoryview(Random(seed).randbytes(count)).cast("b")]


def _routed(builder: PlanBuilder, router: Weight, h: Activation) -> Routing:
    logits = builder.floats(_EXPERTS, "router")
    project(builder, (router,), h, logits, _EXPERTS)
    return route(builder, logits, _EXPERTS, _USED, normalised=True)


def _rows(stage: Stage) -> str:
    return "1 row" if stage.builder.rows == 1 else f"{stage.builder.rows} rows"
