"""Ops that read and write the cache, on small inputs: RoPE, attention and the short convolution."""

import struct
from random import Random
from typing import Any

from wgpu_engine.ops.attention import PARTITION, Heads, attend
from wgpu_engine.ops.builder import SLOT_WORDS, Codec, ceil_div, square_words
from wgpu_engine.ops.known_answers.small_inputs import EPS, MANY, Check, SmallInputs, numbers
from wgpu_engine.ops.known_answers.trial import SLOTS
from wgpu_engine.ops.known_answers.verify import PRECISIONS
from wgpu_engine.ops.kv import KV_BLOCK, KVCache, KVType
from wgpu_engine.ops.rope import angle_table, rope_and_store
from wgpu_engine.ops.short_conv import Convolution, short_conv
from wgpu_engine.ops.state import FROM_SLOT, Row
from wgpu_engine.ops.weight import Norm

_HEADS, _KV_HEADS, _HEAD_DIM, _ROPE_DIM = 4, 2, 32, 16
_ROW = (_HEADS + 2 * _KV_HEADS) * _HEAD_DIM
_LONGEST = PARTITION + 34
_CHANNELS, _KERNEL, _RING = 64, 3, 11
_TABLE_WIDTH = ceil_div(_LONGEST, KV_BLOCK)
_WINDOW_RING = KV_BLOCK * (_TABLE_WIDTH - 1)


def rope_check(inputs: SmallInputs, neox: bool, kv_type: KVType, *, row_norm: bool = False) -> Check:
    async def attempt() -> float:
        trial = inputs.trial
        rows = [Row(0, 0, 0), Row(0, 7, 0), Row(0, 271, 0), Row(FROM_SLOT, FROM_SLOT, 1)]
        stage = trial.stage(trial.builder(MANY, 0), rows)
        trial.device.write(trial.slots, 4 * SLOT_WORDS, struct.pack("<2I", 0, 35))
        qkv = trial.floats(numbers(_ROW * MANY, seed=1), "qkv")
        frequencies = [10000 ** (-2 * i / _ROPE_DIM) for i in range(_ROPE_DIM // 2)]
        angles = trial.hold(angle_table(trial.device, frequencies, _LONGEST))
        cache = _cache(inputs, kv_type)
        norm = squares = None
        if row_norm:
            norm = Norm(trial.floats(numbers((_HEADS + _KV_HEADS) * _HEAD_DIM, seed=8), "gain"), EPS)
            squares = trial.floats([2.0 + i % 7 for i in range(MANY * square_words(_ROW))], "squares")
        return await inputs.error(
            stage, lambda builder: rope_and_store(builder, qkv, _heads(neox), angles, cache, 0, norm, squares)
        )

    return Check(f"rope {'neox' if neox else 'norm'} {kv_type}{' with norm of rows' if row_norm else ''}", attempt)


def attend_check(inputs: SmallInputs, split: bool, kv_type: KVType, codec: Codec, form: str = "") -> Check:
    async def attempt() -> float:
        places = ((0, _LONGEST - 1), (1, 40), (0, PARTITION - 1))
        rows = [Row(0, position, slot, sees=_LONGEST - 1 - position // 3) for slot, position in places]
        stage = inputs.trial.stage(inputs.trial.builder(MANY if split else 2 * MANY, 0), rows)
        forms: dict[str, dict[str, Any]] = {
            "windowed": {"window": PARTITION + 17 if split else 43},
            "capped": {"cap": 2.5},
            "bidirectional": {"causal": False},
            "with sinks": {"sinks": inputs.trial.floats([i - 1.5 for i in range(_HEADS)], "sinks")},
        }
        qkv = inputs.trial.floats(numbers(_ROW * len(places), seed=2), "qkv")
        # in a ring of blocks, as windows have it
        cache = _cache(inputs, kv_type, ring=_WINDOW_RING if form == "windowed" else 0)
        return await inputs.error(
            stage,
            lambda builder: attend(builder, qkv, _heads(False), cache, 0, _LONGEST, codec, **forms.get(form, {})),
        )

    name = " ".join(filter(None, (kv_type, "split" if split else "", form, PRECISIONS[codec])))
    return Check(f"attention {name}", attempt)


def short_conv_check(inputs: SmallInputs, codec: Codec) -> Check:
    """Rows at the start of a sequence, next to each other, and where the ring closes."""

    async def attempt() -> float:
        places = ((0, 0), (0, 1), (0, 2), (1, _RING - 1), (1, _RING))
        stage = inputs.trial.stage(inputs.trial.builder(MANY, 0), [Row(0, position, slot) for slot, position in places])
        bcx = inputs.trial.floats(numbers(3 * _CHANNELS * MANY, seed=5), "bcx")
        taps = inputs.trial.floats(numbers((_KERNEL + 1) * _CHANNELS, seed=6), "taps")
        ring = inputs.trial.floats(numbers(SLOTS * _RING * _CHANNELS, seed=7), "ring")
        cache = KVCache("f32", (ring,), inputs.trial.words([0], "block tables"), 1, (_RING,))
        conv = Convolution(taps, _CHANNELS, _KERNEL)
        return await inputs.error(stage, lambda builder: short_conv(builder, bcx, conv, cache, 0, codec))

    return Check(f"short convolution {PRECISIONS[codec]}", attempt)


def _cache(inputs: SmallInputs, kv_type: KVType, ring: int = 0) -> KVCache:
    """A cache of one layer that is full of numbers, its blocks in no order or in rings of so many positions."""
    blocks = list(range(SLOTS * _TABLE_WIDTH))
    Random(3).shuffle(blocks)
    values = numbers(len(blocks) * 2 * _KV_HEADS * KV_BLOCK * _HEAD_DIM, seed=4)
    layer = struct.pack(f"<{len(values)}{'e' if kv_type == 'f16' else 'f'}", *values)
    tables = inputs.trial.words(blocks, "block tables")
    return KVCache(kv_type, (inputs.trial.filled(layer, "kv"),), tables, _TABLE_WIDTH, (ring,))


def _heads(neox: bool) -> Heads:
    return Heads(_HEADS, _KV_HEADS, _HEAD_DIM, _ROPE_DIM, neox, _HEAD_DIM**-0.5)
