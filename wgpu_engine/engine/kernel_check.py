"""Checks the kernels of a model on the adapter at hand, before the first token: wrong numbers are worse than none.

The plans of the model are gone through call by call, on the model's own weights. Kernels that were compiled for this
are those that the model runs, so a first start pays little, and later ones nothing: the verdict is kept on disk for as
long as adapter, driver, library, shaders and model stay what they are.
"""

import struct
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Literal

from wgpu_engine.engine.encoder import Encoder
from wgpu_engine.engine.engine import Engine
from wgpu_engine.errors import DeviceError
from wgpu_engine.files.gguf import TensorInfo
from wgpu_engine.files.quants import QUANT_TYPES, QuantType
from wgpu_engine.files.store import Store, read_record, write_record
from wgpu_engine.gpu.fingerprint import fingerprint
from wgpu_engine.ops.attention import PARTITION
from wgpu_engine.ops.builder import OpCall
from wgpu_engine.ops.known_answers.bias import bias_error
from wgpu_engine.ops.known_answers.log_prob import log_prob_error
from wgpu_engine.ops.known_answers.repack import halving_error, repack_error
from wgpu_engine.ops.known_answers.sampling import sampling_error
from wgpu_engine.ops.known_answers.top_tokens import top_tokens_error
from wgpu_engine.ops.known_answers.trial import KnownAnswer, Stage, Trial, answer
from wgpu_engine.ops.known_answers.verify import error_of, is_known, kernel_name, weights_of
from wgpu_engine.ops.kv import KV_BLOCK, kv_block_bytes
from wgpu_engine.ops.repack import Loader
from wgpu_engine.ops.state import Row

Progress = Callable[[str, int, int | None], None]

_FILE = "kernel-checks.json"
_KEPT = 64
"""verdicts; the oldest go first"""
_FAR = PARTITION + 34
"""a position in the second partition of attention"""
_POSITIONS = (3, 33, 64, 70)

Checked = Engine | Encoder


@dataclass(frozen=True)
class Verdict:
    """How an engine has to run so that its kernels give the right answers."""

    subgroups: bool
    tuned: bool
    precision: Literal["exact", "fast"]
    warning: str | None = None
    """why it is not as it was asked for"""

    def apply(self, engine: Checked) -> None:
        if not self.subgroups:
            engine.device.subgroup_size = 0
        if not self.tuned:
            engine.tuning.clear()
        engine.precision = self.precision


async def check_kernels(
    engine: Checked, tensors: Mapping[str, TensorInfo], warnings: list[str], progress: Progress | None = None
) -> None:
    """Checks the kernels of an engine that has made no plan yet, unless that was done at an earlier start.

    `tensors` are those of the model's file: what kernels it needs depends on their types and shapes.

    Where some give wrong answers and there is another way, the engine takes it and `warnings` says so: variants that
    were not tuned, kernels without subgroups, `exact` in place of `fast`. `progress` is called with "kernels" and how
    many were tried.

    Raises:
        DeviceError: kernels give wrong answers, whatever is tried.
    """
    path, key = Store().home / _FILE, _key(engine, tensors)
    verdict = _remembered(path, key)
    if verdict is None:
        verdict = await _judged(engine, progress or (lambda stage, done, total: None))
        _remember(path, key, verdict)
    verdict.apply(engine)
    if verdict.warning:
        warnings.append(verdict.warning)


async def check_log_probs(engine: Engine) -> None:
    """Checks the kernel that only asking for probabilities needs.

    Raises:
        DeviceError: it gives wrong answers.
    """
    trial = Trial(engine.device)
    try:
        stage = trial.stage(engine.builder(1, 1), [Row(0, 0, 0)], (0,))
        found = await answer("log probability", partial(log_prob_error, trial, stage, engine.vocab))
    finally:
        trial.free()
    if not found.passed:
        raise _failed(engine, found)


async def _judged(engine: Checked, progress: Progress) -> Verdict:
    device, size = engine.device, engine.device.subgroup_size
    first: KnownAnswer | None = None
    for way in _ways(engine):
        device.subgroup_size = size
        way.apply(engine)
        wrong = await first_wrong(engine, progress)
        if wrong is None:
            return replace(way, warning=_warning(engine, way, first)) if first else way
        first = first or wrong
    assert first is not None
    raise _failed(engine, first)


def _failed(engine: Checked, wrong: KnownAnswer) -> DeviceError:
    adapter = engine.device.adapter
    return DeviceError(
        f"{wrong.kernel} fails its check on {adapter.name} ({wrong.error}): update its driver ({adapter.driver}) or "
        "choose another adapter with --device; `wgpu-engine doctor` tells more"
    )


def _ways(engine: Checked) -> Iterator[Verdict]:
    """How the engine may run: as it is, then ever more carefully."""
    subgroups, precision = engine.device.subgroup_size > 0, engine.precision
    yield Verdict(subgroups, True, precision)
    if engine.tuning:
        yield Verdict(subgroups, False, precision)
    if subgroups:
        yield Verdict(False, False, precision)
    if precision == "fast":
        yield Verdict(subgroups, False, "exact")
        if subgroups:
            yield Verdict(False, False, "exact")


def _warning(engine: Checked, way: Verdict, wrong: KnownAnswer) -> str:
    adapter = engine.device.adapter
    changes = [
        *(["with precision exact"] if way.precision != "fast" else []),
        *(["without subgroups"] if not way.subgroups else []),
    ]
    how = " and ".join(changes) or "without tuned kernels"
    return (
        f"{wrong.kernel} fails its check on {adapter.name} ({wrong.error}): the model runs {how}, which is slower; "
        f"update the driver ({adapter.driver})"
    )


async def first_wrong(engine: Checked, progress: Progress) -> KnownAnswer | None:
    """The first kernel of the engine's plans that gives a wrong answer; each is tried once."""
    trial = Trial(engine.device)
    tried = 0
    try:
        async for found in _answers(engine, trial):
            tried += 1
            progress("kernels", tried, None)
            if not found.passed:
                return found
        return None
    finally:
        trial.free()


async def _answers(engine: Checked, trial: Trial) -> AsyncIterator[KnownAnswer]:
    stages = [_stage(engine, trial, *plan) for plan in _plans(engine)]
    types = _types(stages)
    for quant in types:
        yield await answer(f"repack {quant.name}", partial(_repack_error, trial, quant))
    if QUANT_TYPES["F16"] in types and engine.precision == "fast":
        yield await answer("halve F32", partial(halving_error, trial))
    tried: set[str] = set()
    for stage in stages:
        done: set[str] = set()
        for call in stage.builder.calls or ():
            sources = {dispatch.shader.source for dispatch in call.dispatches}
            if sources <= done:
                # a later layer
                continue
            done |= sources
            if call.op in _FILLS:
                _FILLS[call.op](engine, call)
            if is_known(call) and not sources <= tried:
                tried |= sources
                yield await answer(kernel_name(stage, call), partial(error_of, trial, stage, call))
            else:
                await trial.run(call.dispatches)
    if not engine.model.description.encodes:
        yield await answer("sample", partial(sampling_error, trial, stages[0], engine.vocab))
        yield await answer("bias", partial(bias_error, trial, engine.vocab))
        yield await answer("likeliest tokens", partial(top_tokens_error, trial, engine.vocab))


def _plans(engine: Checked) -> list[tuple[int, int]]:
    """Room for rows, and the furthest position, of plans that have all kernels of the model between them."""
    last = engine.ctx_size - 1
    plans = [(rows, min(_POSITIONS[-1], last)) for rows in engine.plan_rows]
    return [*plans, (1, min(_FAR, last))] if engine.plan_rows[0] == 1 else plans


def _stage(engine: Checked, trial: Trial, room: int, furthest: int) -> Stage:
    """A plan of the engine, as yet without sampling, on some tokens at positions of slot 0."""
    tokens = [engine.vocab * i // 5 for i in (4, 1, 2, 3)]
    # each but once, since two rows can't write the same place
    positions = [furthest] if room == 1 else sorted({min(position, furthest) for position in _POSITIONS})
    rows = [Row(token, position, 0) for token, position in zip(tokens, positions, strict=False)]
    stage = trial.stage(engine.builder(room, 1), rows, (len(rows) - 1,))
    engine.model.forward(stage.builder, engine.cache, engine.bucket(furthest + 1))
    return stage


def _types(stages: Sequence[Stage]) -> list[QuantType]:
    """Types of the weights that the stages read."""
    calls = [call for stage in stages for call in stage.builder.calls or () if is_known(call)]
    return list({weight.quant.name: weight.quant for call in calls for weight in weights_of(call)}.values())


async def _repack_error(trial: Trial, quant: QuantType) -> float:
    loader = Loader(trial.device, lambda count: None)
    try:
        return await repack_error(trial, loader, quant)
    finally:
        loader.close()


def _fill_cache(engine: Checked, call: OpCall) -> None:
    """Puts numbers into the first blocks of a layer, and these blocks into the table of slot 0.

    Nothing of it is left to see: a sequence gets a table of its own, and writes positions before it reads them.
    """
    cache, heads, layer = (call.arguments[name] for name in ("cache", "heads", "layer"))
    blocks = min(_FAR // KV_BLOCK + 1, cache.table_width)
    filled = min(blocks, cache.ring_blocks(layer) or blocks)
    size = filled * kv_block_bytes(heads.kv_count, heads.head_dim, cache.kv_type)
    engine.device.write(cache.layers[layer], 0, _numbers("e" if cache.kv_type == "f16" else "f", size))
    engine.device.write(cache.tables, 0, struct.pack(f"<{blocks}I", *reversed(range(blocks))))


def _fill_ring(engine: Checked, call: OpCall) -> None:
    """Puts numbers into the ring of slot 0."""
    cache, conv, layer = (call.arguments[name] for name in ("cache", "conv", "layer"))
    engine.device.write(cache.layers[layer], 0, _numbers("f", 4 * cache.rings[layer] * conv.width))


_FILLS = {"attend": _fill_cache, "short_conv": _fill_ring}
"""what has state filled before an op that reads it is tried"""


def _numbers(kind: str, size: int) -> bytes:
    """So many bytes of small numbers of a format of `struct`."""
    pattern = struct.pack(f"<251{kind}", *((i * 97 % 251 - 125) / 64 for i in range(251)))
    return (pattern * (size // len(pattern) + 1))[:size]


def _key(engine: Checked, tensors: Mapping[str, TensorInfo]) -> str:
    """What a verdict depends on."""
    return fingerprint(
        engine.device,
        (engine.precision, engine.cache.kv_type, engine.cache.table_width, engine.plan_rows),
        sorted(map(repr, engine.tuning.items())),
        engine.model.description,
        [(tensor.name, tensor.type.name, tensor.shape) for tensor in tensors.values()],
    )


def _remembered(path: Path, key: str) -> Verdict | None:
    """The verdict of an earlier start; whatever is no verdict counts as none."""
    found = read_record(path).get(key)
    if not isinstance(found, dict) or set(found) != {field.name for field in fields(Verdict)}:
        return None
    verdict = Verdict(**found)
    sound = (
        isinstance(verdict.subgroups, bool)
        and isinstance(verdict.tuned, bool)
        and verdict.precision in ("exact", "fast")
        and (verdict.warning is None or isinstance(verdict.warning, str))
    )
    return verdict if sound else None


def _remember(path: Path, key: str, verdict: Verdict) -> None:
    """Keeps a verdict if the folder can be written to."""
    kept = list(read_record(path).items())[1 - _KEPT :]
    # without it, the next start checks again
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_record(path, {**dict(kept), key: asdict(verdict)})
