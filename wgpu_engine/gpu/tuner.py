"""Finds the fastest of several ways to do the same, by trying them on the adapter."""

import time
from collections.abc import Mapping, Sequence
from typing import TypeVar

from wgpu_engine.errors import DeviceError, DeviceLostError
from wgpu_engine.gpu.device import Device, Dispatch, Plan

_ROUNDS = 3
_ENOUGH_S = 0.004
"""a measurement shorter than this is repeated with more replays"""
_MOST_REPLAYS = 64

T = TypeVar("T")


async def fastest(device: Device, candidates: Mapping[T, Sequence[Dispatch]]) -> T | None:
    """The candidate whose dispatches take the least time; None where the device refuses all of them.

    Rounds are interleaved, since the speed of a machine drifts, and the best of each candidate counts.
    """
    plans: dict[T, Plan] = {}
    for candidate, dispatches in candidates.items():
        try:
            plans[candidate] = await device.plan(dispatches, "trial")
            await _seconds(device, plans[candidate], 1)
        except DeviceLostError:
            raise
        except DeviceError:
            plans.pop(candidate, None)
    best = dict.fromkeys(plans, float("inf"))
    for _ in range(_ROUNDS):
        for candidate, plan in plans.items():
            best[candidate] = min(best[candidate], await _seconds_a_replay(device, plan))
    return min(best, key=best.__getitem__, default=None)


async def _seconds_a_replay(device: Device, plan: Plan) -> float:
    replays = 1
    while True:
        seconds = await _seconds(device, plan, replays)
        if seconds >= _ENOUGH_S or replays >= _MOST_REPLAYS:
            return seconds / replays
        replays *= 4


async def _seconds(device: Device, plan: Plan, replays: int) -> float:
    start = time.perf_counter()
    for _ in range(replays):
        device.run(plan)
    await device.flush()
    return time.perf_counter() - start
