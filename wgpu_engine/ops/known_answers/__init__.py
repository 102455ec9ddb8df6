"""Known answers: every kernel on tiny inputs, compared with references in plain Python.

What a driver's compiler makes of a kernel is not to be relied on, and wrong numbers are worse than none. All kernels take
a few seconds on a CPU, those of one model a part of one.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

from wgpu_engine.files.quants import QUANT_TYPES
from wgpu_engine.gpu.device import Device
from wgpu_engine.ops.builder import Codec
from wgpu_engine.ops.known_answers.attention import Attention
from wgpu_engine.ops.known_answers.blocks import FORMATS
from wgpu_engine.ops.known_answers.products import Products
from wgpu_engine.ops.known_answers.sampling import Sampling
from wgpu_engine.ops.known_answers.trial import Check, KnownAnswer, Trial
from wgpu_engine.ops.kv import KVType

__all__ = ["EVERYTHING", "KnownAnswer", "Scope", "run_known_answers"]


@dataclass(frozen=True)
class Scope:
    """Which kernels to try."""

    quants: tuple[str, ...]
    """types of weights"""
    codecs: tuple[Codec, ...]
    kv_types: tuple[KVType, ...]


EVERYTHING = Scope(tuple(QUANT_TYPES), ("f32", "q8"), ("f16", "f32"))


async def run_known_answers(
    device: Device, progress: Callable[[str, int, int | None], None] | None = None, scope: Scope = EVERYTHING
) -> list[KnownAnswer]:
    """Tries the kernels as the ops use them on this device, those that others build on first.

    A kernel that the device refuses counts as failed. `progress` is called with "kernels", the kernels tried and their
    number. Types of weights without a reference are passed over.

    Raises:
        DeviceLostError: the device went away.
        OutOfMemoryError: there is no room for a few MB.
    """
    trial = Trial(device)
    products = Products(trial)
    try:
        checks = list(_checks(trial, products, scope))
        answers = []
        for number, check in enumerate(checks):
            answers.append(await check.answer())
            if progress is not None:
                progress("kernels", number + 1, len(checks))
        return answers
    finally:
        products.free()
        trial.free()


def _checks(trial: Trial, products: Products, scope: Scope) -> Iterator[Check]:
    quants = [name for name in scope.quants if name in FORMATS and name != "F32"]
    if "F32" in scope.quants:
        quants.insert(0, "F32")
    others = [name for name in quants if name != "F32"]
    for name in ("F32", *others):
        yield products.repack(name)
    for codec in scope.codecs:
        yield products.embed("F32", codec)
    for name in others:
        yield products.embed(name, scope.codecs[0])
    readers = {
        codec: [name for name in quants if codec == "f32" or not QUANT_TYPES[name].is_float] for codec in scope.codecs
    }
    for codec, names in readers.items():
        for name, rows in product(names, (1, 8)):
            yield products.matmul(name, codec, rows)
    for codec, names in readers.items():
        for rows in (1, 8) if names else ():
            yield products.gated(names[0], codec, rows)
            yield products.residual(names[0], codec, rows)
        if names and scope is EVERYTHING:
            yield products.gate(names[0], codec)
    attention = Attention(trial)
    for neox, kv_type in product((False, True), scope.kv_types):
        yield attention.rope(neox, kv_type)
    for split, kv_type in product((False, True), scope.kv_types):
        for codec in scope.codecs:
            yield attention.attend(kv_type, split, codec)
    sampling = Sampling(trial)
    yield sampling.greedy()
    yield sampling.seeded()
    yield sampling.penalised()
