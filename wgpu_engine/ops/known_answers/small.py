"""Ops on small inputs: what `doctor` tries, every kernel in every form that the ops use on the device."""

from collections.abc import Iterator
from itertools import product
from typing import Literal

from wgpu_engine.files.quants import QUANT_TYPES
from wgpu_engine.ops.builder import Activation, Codec, PlanBuilder, square_words
from wgpu_engine.ops.embed import Index, embed, look_up
from wgpu_engine.ops.experts import add_experts, gated_experts
from wgpu_engine.ops.known_answers.bias import bias_error
from wgpu_engine.ops.known_answers.blocks import FORMATS
from wgpu_engine.ops.known_answers.log_prob import log_prob_error
from wgpu_engine.ops.known_answers.repack import FEATURES, K, halving_error, repack_error, small_tensor
from wgpu_engine.ops.known_answers.sampling import sampling_error
from wgpu_engine.ops.known_answers.small_attention import attend_check, rope_check, short_conv_check
from wgpu_engine.ops.known_answers.small_inputs import EPS, MANY, NORM_WIDTH, Check, SmallInputs, numbers, rows_of
from wgpu_engine.ops.known_answers.top_tokens import top_tokens_error
from wgpu_engine.ops.known_answers.trial import Stage, Trial
from wgpu_engine.ops.known_answers.verify import PRECISIONS
from wgpu_engine.ops.kv import KVType
from wgpu_engine.ops.matmul import Gate, activated, add_to_residual, gated, project
from wgpu_engine.ops.norm import norm, residual_norm
from wgpu_engine.ops.pool import Pooling, pool
from wgpu_engine.ops.routing import Routing, route
from wgpu_engine.ops.state import Row
from wgpu_engine.ops.weight import Norm, Weight

_KV_TYPES: tuple[KVType, ...] = ("f16", "f32")
_CODECS: tuple[Codec, ...] = ("f32", "q8")
_VOCAB = 1003
_POOLINGS: tuple[Pooling, ...] = ("mean", "cls")
_INDICES: tuple[Index, ...] = ("token", "position", "first")
_ACTIVATIONS: tuple[Gate, ...] = ("gelu", "gelu_tanh", "relu", "relu2")
_NORMS: tuple[Literal["rms", "layer"], ...] = ("rms", "layer")
_HALF = FEATURES // 2
_EXPERTS, _USED = 4, 2


class SmallChecks:
    """Every kernel on small inputs, those that others build on first."""

    def __init__(self, trial: Trial) -> None:
        self.inputs = SmallInputs(trial)

    def free(self) -> None:
        self.inputs.free()

    def checks(self) -> Iterator[Check]:
        known = [name for name in QUANT_TYPES if name in FORMATS]
        readers = {
            codec: [name for name in known if codec == "f32" or not QUANT_TYPES[name].is_float] for codec in _CODECS
        }
        stages = (self.inputs.one, self.inputs.many)
        for name in known:
            yield self._repack(name)
        yield Check("halve F32", lambda: halving_error(self.inputs.trial))
        for name in known:
            yield self._embed(name, "f32")
        yield self._embed("F32", "q8")
        for index in _INDICES:
            yield self._look_up(index)
        for codec in _CODECS:
            for name, stage in product(readers[codec], stages):
                yield self._matmul(name, codec, stage)
        yield self._matmul("F32", "f32", self.inputs.many, squared=True)
        for codec, stage in product(_CODECS, stages):
            yield self._gated(readers[codec][0], codec, stage)
            yield self._residual(readers[codec][0], codec, stage)
        for codec in _CODECS:
            yield self._gate(readers[codec][0], codec)
            yield self._capped(readers[codec][0], codec)
        for activation in _ACTIVATIONS:
            yield self._activated(activation)
        for rows in (1, MANY, 2 * MANY):
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
            yield rope_check(self.inputs, neox, kv_type)
        yield rope_check(self.inputs, True, "f16", row_norm=True)
        for split, kv_type, codec in product((False, True), _KV_TYPES, _CODECS):
            yield attend_check(self.inputs, split, kv_type, codec)
        for split, form in product((False, True), ("windowed", "capped", "bidirectional", "with sinks")):
            yield attend_check(self.inputs, split, "f16", "f32", form)
        for codec in _CODECS:
            yield short_conv_check(self.inputs, codec)
        yield Check("log probability", lambda: log_prob_error(self.inputs.trial, self.inputs.one, _VOCAB))
        yield Check("sample", lambda: sampling_error(self.inputs.trial, self.inputs.one, _VOCAB))
        yield Check("bias", lambda: bias_error(self.inputs.trial, _VOCAB))
        yield Check("likeliest tokens", lambda: top_tokens_error(self.inputs.trial, _VOCAB))

    def _repack(self, name: str) -> Check:
        return Check(f"repack {name}", lambda: repack_error(self.inputs.trial, self.inputs.loader, QUANT_TYPES[name]))

    def _embed(self, name: str, codec: Codec) -> Check:
        async def attempt() -> float:
            table = await self.inputs.weight(name)
            return await self.inputs.error(
                self.inputs.many, lambda builder: embed(builder, table, self.inputs.norm, codec, scale=1.5)
            )

        return Check(f"embed {name} {PRECISIONS[codec]}", attempt)

    def _look_up(self, index: Index) -> Check:
        """Tokens alone, anything else added to what there is."""

        async def attempt() -> float:
            table = await self.inputs.weight("F32")
            x = None if index == "token" else self.inputs.trial.floats(numbers(MANY * K, seed=8), "x")
            return await self.inputs.error(
                self.inputs.many, lambda builder: look_up(builder, table, index, scale=1.5, onto=x)
            )

        return Check(f"embed F32 by {index}{'' if index == 'token' else ', added'}", attempt)

    def _matmul(self, name: str, codec: Codec, stage: Stage, *, squared: bool = False) -> Check:
        async def attempt() -> float:
            weight = await self.inputs.weight(name)

            def op(builder: PlanBuilder, h: Activation) -> None:
                out = builder.floats(FEATURES, "product")
                squares = (
                    builder.buffer(4 * builder.rows * square_words(FEATURES), "squares of it") if squared else None
                )
                project(builder, (weight,), h, out, FEATURES, squares=squares)

            return await self.inputs.error_of_reader(stage, codec, op)

        form = " and squares" if squared else ""
        return Check(f"matmul {name}{form} {PRECISIONS[codec]}, {rows_of(stage)}", attempt)

    def _gated(self, name: str, codec: Codec, stage: Stage) -> Check:
        async def attempt() -> float:
            halves = [small_tensor(QUANT_TYPES[name], *half) for half in ((0, _HALF), (_HALF, FEATURES))]
            pair = await self.inputs.loader.paired(name, halves)
            self.inputs.trial.hold(pair[0].parts[0].buffer)
            return await self.inputs.error_of_reader(stage, codec, lambda builder, h: gated(builder, pair, h, codec))

        return Check(f"gated {name} {PRECISIONS[codec]}, {rows_of(stage)}", attempt)

    def _gate(self, name: str, codec: Codec) -> Check:
        """Gate and up features by products of their own, of rows picked by outputs, and with a bias."""

        async def attempt() -> float:
            weights = (await self.inputs.weight(name, 0, _HALF), await self.inputs.weight(name, _HALF, FEATURES))
            bias = self.inputs.trial.floats([i / 32 - 1 for i in range(FEATURES)], "bias")
            return await self.inputs.error_of_reader(
                self.inputs.one, codec, lambda builder, h: gated(builder, weights, h, codec, bias=bias)
            )

        return Check(f"gate {PRECISIONS[codec]}", attempt)

    def _capped(self, name: str, codec: Codec) -> Check:
        async def attempt() -> float:
            weight = await self.inputs.weight(name)

            def op(builder: PlanBuilder, h: Activation) -> None:
                project(builder, (weight,), h, builder.floats(FEATURES, "product"), FEATURES, cap=3.0)

            return await self.inputs.error_of_reader(self.inputs.one, codec, op)

        return Check(f"matmul capped {name} {PRECISIONS[codec]}, {rows_of(self.inputs.one)}", attempt)

    def _activated(self, activation: Gate) -> Check:
        async def attempt() -> float:
            weight = await self.inputs.weight("F32")
            bias = self.inputs.trial.floats([i / 16 - 2 for i in range(FEATURES)], "bias")
            return await self.inputs.error_of_reader(
                self.inputs.many,
                "f32",
                lambda builder, h: activated(builder, weight, h, "f32", activation=activation, bias=bias),
            )

        return Check(f"activated {activation} F32 exact, {rows_of(self.inputs.many)}", attempt)

    def _residual(self, name: str, codec: Codec, stage: Stage) -> Check:
        async def attempt() -> float:
            weight = await self.inputs.weight(name)
            x = self.inputs.trial.floats([i % 37 / 9 - 2 for i in range(MANY * FEATURES)], "residual")
            norm = Norm(self.inputs.trial.floats([1.5 - i % 4 for i in range(FEATURES)], "gain"), EPS)
            return await self.inputs.error_of_reader(
                stage, codec, lambda builder, h: add_to_residual(builder, weight, h, x, norm, codec)
            )

        return Check(f"residual and norm {name} {PRECISIONS[codec]}, {rows_of(stage)}", attempt)

    def _route(self, rows: int) -> Check:
        async def attempt() -> float:
            stage = self.inputs.trial.stage(self.inputs.trial.builder(rows, 0), [Row(0, 0, 0)] * (rows - rows // 4))
            logits = self.inputs.trial.floats(numbers(rows * 60, seed=8), "logits")
            return await self.inputs.error(
                stage, lambda builder: route(builder, logits, 60, 4, shares="all", scale=2.5)
            )

        return Check(f"route 4 of 60, {rows} row{'s' if rows > 1 else ''}", attempt)

    def _gated_experts(self, name: str, codec: Codec, stage: Stage) -> Check:
        async def attempt() -> float:
            router = await self.inputs.weight(name, 0, _EXPERTS)
            pair = await self._expert_weight(name, 2)
            return await self.inputs.error_of_reader(
                stage, codec, lambda builder, h: gated_experts(builder, (pair,), h, _routed(builder, router, h), codec)
            )

        return Check(f"gated experts {name} {PRECISIONS[codec]}, {rows_of(stage)}", attempt)

    def _add_experts(self, name: str, codec: Codec, stage: Stage) -> Check:
        async def attempt() -> float:
            router = await self.inputs.weight(name, 0, _EXPERTS)
            pair, down = await self._expert_weight(name, 2), await self._expert_weight(name, 1)
            x = self.inputs.trial.floats([i % 37 / 9 - 2 for i in range(MANY * K)], "residual")

            def op(builder: PlanBuilder, h: Activation) -> None:
                routing = _routed(builder, router, h)
                made = gated_experts(builder, (pair,), h, routing, codec)
                add_experts(builder, down, made, routing, x, self.inputs.norm, codec)

            return await self.inputs.error_of_reader(stage, codec, op)

        return Check(f"sum of experts {name} {PRECISIONS[codec]}, {rows_of(stage)}", attempt)

    async def _expert_weight(self, name: str, ports: int) -> Weight:
        """Experts of K features each, no two of them with the same in one place."""
        starts = [(8 * expert + start) % FEATURES for expert in range(_EXPERTS) for start in range(0, K, 8)]
        tensors = [small_tensor(QUANT_TYPES[name], start, start + 8) for start in starts]
        weight = await self.inputs.loader.weight(
            name, [tensors[4 * port :] + tensors[: 4 * port] for port in range(ports)], experts=_EXPERTS
        )
        self.inputs.trial.hold(weight.parts[0].buffer)
        return weight

    def _explicit_norm(self, kind: Literal["rms", "layer"], codec: Codec) -> Check:
        async def attempt() -> float:
            x = self.inputs.trial.floats(numbers(MANY * NORM_WIDTH, seed=5), "x")
            of_x = self.inputs.norm_of(kind)
            return await self.inputs.error(self.inputs.many, lambda builder: norm(builder, x, NORM_WIDTH, of_x, codec))

        return Check(f"norm {kind} {PRECISIONS[codec]}", attempt)

    def _residual_norm(self, kind: Literal["rms", "layer"], *, after: bool = True) -> Check:
        """The norm of what a sub-layer made, and of the residual stream afterwards or none, which is then rounded."""

        async def attempt() -> float:
            x, y = (self.inputs.trial.floats(numbers(MANY * NORM_WIDTH, seed=seed), "x") for seed in (6, 7))
            post, norm_after = self.inputs.norm_of(kind), self.inputs.norm_of(kind) if after else None
            codec: Codec = "f32" if after else "q8"
            return await self.inputs.error(
                self.inputs.many,
                lambda builder: residual_norm(builder, x, y, NORM_WIDTH, norm_after, codec, post=post, scale=1.5),
            )

        return Check(f"norm {f'{kind} exact' if after else 'none fast'}, residual + {kind} norm", attempt)

    def _pool(self, kind: Pooling) -> Check:
        """Two texts, of three rows and of two."""

        async def attempt() -> float:
            rows = [Row(0, i, 0, sees=2) for i in range(3)] + [Row(0, i, 1, sees=1) for i in range(2)]
            stage = self.inputs.trial.stage(self.inputs.trial.builder(MANY, 2), rows, (0, 3))
            x = self.inputs.trial.floats(numbers(MANY * NORM_WIDTH, seed=9), "x")
            return await self.inputs.error(stage, lambda builder: pool(builder, x, NORM_WIDTH, kind))

        return Check(f"pool {kind}", attempt)


def _routed(builder: PlanBuilder, router: Weight, h: Activation) -> Routing:
    logits = builder.floats(_EXPERTS, "router")
    project(builder, (router,), h, logits, _EXPERTS)
    return route(builder, logits, _EXPERTS, _USED, shares="chosen")
