"""Known answers: kernels on inputs whose results are known, from references in plain Python.

What a driver's compiler makes of a kernel is not to be relied on, and wrong numbers are worse than none: `doctor` tries
every kernel on small inputs, and an engine those of its model on the model's own weights.
"""

from collections.abc import Callable

from wgpu_engine.gpu.device import Device
from wgpu_engine.ops.known_answers.small import SmallChecks
from wgpu_engine.ops.known_answers.trial import KnownAnswer, Trial, answer

__all__ = ["KnownAnswer", "run_known_answers"]


async def run_known_answers(
    device: Device, progress: Callable[[str, int, int | None], None] | None = None
) -> list[KnownAnswer]:
    """Tries every kernel as the ops use it on this device, those that others build on first.

    A kernel that the device refuses counts as failed. `progress` is called with "kernels", the kernels tried and their
    number. Types of weights without a reference are passed over.

    Raises:
        DeviceLostError: the device went away.
        OutOfMemoryError: there is no room for a few MB.
    """
    trial = Trial(device)
    small = SmallChecks(trial)
    try:
        checks = list(small.checks())
        answers = []
        for number, check in enumerate(checks):
            answers.append(await answer(check.kernel, check.attempt))
            if progress is not None:
                progress("kernels", number + 1, len(checks))
        return answers
    finally:
        small.free()
        trial.free()
