"""What a model takes on an adapter, and whether that is there."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from wgpu_engine.engine.states import state_bytes
from wgpu_engine.errors import OutOfMemoryError, RequestError
from wgpu_engine.files.gguf import TensorInfo
from wgpu_engine.gpu.device import AdapterInfo
from wgpu_engine.models.model import Description
from wgpu_engine.ops.builder import ceil_div
from wgpu_engine.ops.kv import KV_BLOCK, KVType

DEFAULT_CONTEXT = 4096
"""positions, where neither the user nor the model asks for fewer"""
LONGEST_TEXT = 8192
"""tokens of a text that an encoder embeds, since its rows are in one plan"""
_WORKSPACE = 64 << 20
"""bytes for activations, logits and staging"""


@dataclass(frozen=True)
class Footprint:
    """Bytes on the adapter."""

    weights: int
    kv: int
    """for what layers keep of a sequence"""

    @property
    def total(self) -> int:
        return self.weights + self.kv + _WORKSPACE


def context_size(description: Description, wanted: int | None) -> int:
    """Positions of the context: what was asked for, else the model's own, up to DEFAULT_CONTEXT.

    Of an encoder: the tokens of the longest text that it takes.

    Raises:
        RequestError: more than the model has embeddings for, or any number for an encoder.
    """
    if description.encodes:
        longest = min(description.context, LONGEST_TEXT)
        if wanted:
            raise RequestError(f"the model embeds texts of up to {longest} tokens and has no context: drop --ctx-size")
        return longest
    most = description.most_positions
    if wanted and most is not None and wanted > most:
        raise RequestError(
            f"a context of {wanted} is more than the {most} positions that the model has embeddings for: give a "
            f"--ctx-size of at most {most}"
        )
    return wanted or min(description.context, DEFAULT_CONTEXT)


def kv_blocks(ctx_size: int, slots: int, kv_positions: int | None) -> int:
    """Blocks that the slots share: by default as many as all of them can fill, at least one context."""
    whole = ceil_div(ctx_size, KV_BLOCK)
    return slots * whole if kv_positions is None else max(whole, ceil_div(kv_positions, KV_BLOCK))


def weight_bytes(tensors: Iterable[TensorInfo], precision: Literal["exact", "fast"]) -> int:
    """What tensors take on a device, where `fast` keeps matrices of F32 as F16."""
    return sum(
        tensor.nbytes // (2 if precision == "fast" and tensor.type.name == "F32" and len(tensor.shape) > 1 else 1)
        for tensor in tensors
    )


def footprint(
    description: Description,
    weights: int,
    ctx_size: int,
    kv_type: KVType,
    slots: int = 1,
    kv_positions: int | None = None,
) -> Footprint:
    """What a model takes with so many bytes of `weights`, and with room for `slots` sequences of up to `ctx_size`
    positions, `kv_positions` together.
    """
    blocks = kv_blocks(ctx_size, slots, kv_positions)
    kv = sum(state_bytes(state, ctx_size, slots, blocks, kv_type) for state in description.states)
    return Footprint(weights, kv)


def memory_budget(adapter: AdapterInfo) -> int | None:
    """Bytes that a model may take; None where only a failing allocation would tell (WebGPU reports no memory size)."""
    if adapter.kind not in ("cpu", "integrated"):
        return None
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") + _reclaimable()
    except (AttributeError, ValueError, OSError):
        return None


def _reclaimable() -> int:
    """Bytes that Linux holds as a cache and would give back."""
    try:
        with Path("/proc/meminfo").open(encoding="ascii") as lines:
            fields = dict(line.split(":") for line in lines)
        return max(0, (int(fields["MemAvailable"].split()[0]) - int(fields["MemFree"].split()[0])) * 1024)
    except (OSError, KeyError, ValueError):
        return 0


def check_budget(need: Footprint, budget: int | None, ctx_size: int) -> None:
    """Raises OutOfMemoryError if the model doesn't fit, with what it takes and what there is."""
    if budget is not None and need.total > budget:
        raise OutOfMemoryError(
            f"the model takes {need.total >> 20} MiB ({need.weights >> 20} for weights, {need.kv >> 20} for a context "
            f"of {ctx_size}, {_WORKSPACE >> 20} to work in) and {budget >> 20} MiB are free: use a smaller model, a "
            "smaller --ctx-size or raise --memory-budget"
        )
