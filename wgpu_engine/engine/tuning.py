"""What the tuner found on an adapter, kept on disk."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from wgpu_engine.files.store import Store, read_record, write_record
from wgpu_engine.gpu.device import Device
from wgpu_engine.gpu.fingerprint import fingerprint
from wgpu_engine.ops.variants import Problem, Variant

_FILE = "tuning.json"
_KEPT = 16
"""adapters, drivers and shader versions; the oldest go first"""


def load_tuning(device: Device) -> dict[Problem, Variant]:
    """The fastest variants that were found on this adapter with these shaders; what can't be read is passed over."""
    found = read_record(Store().home / _FILE).get(fingerprint(device))
    tuning = {}
    with suppress(TypeError):
        for entry in found or ():
            tuning[Problem(**entry["problem"])] = Variant(**entry["variant"])
    return tuning


def save_tuning(device: Device, tuning: Mapping[Problem, Variant]) -> None:
    """Keeps what was found, together with what was known of other problems.

    Raises:
        OSError: the folder of the store can't be written to.
    """
    path = Store().home / _FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    entries: list[dict[str, Any]] = [
        {"problem": asdict(problem), "variant": asdict(variant)}
        for problem, variant in {**load_tuning(device), **tuning}.items()
    ]
    key = fingerprint(device)
    kept = {name: value for name, value in read_record(path).items() if name != key}
    write_record(path, {**dict(list(kept.items())[1 - _KEPT :]), key: entries})
