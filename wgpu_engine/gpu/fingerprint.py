"""What measurements and verdicts on kernels depend on."""

import hashlib

from wgpu_engine import __version__
from wgpu_engine.gpu.device import Device
from wgpu_engine.resources import resource_dir


def fingerprint(device: Device, *facts: object) -> str:
    """A hash of the adapter, its driver, the library that drives it, all shaders, and whatever else is given."""
    adapter = device.adapter
    known = (
        __version__,
        device.library,
        (adapter.name, adapter.driver, adapter.backend),
        (device.dialect, device.subgroup_size, device.limits),
        facts,
    )
    digest = hashlib.sha256(repr(known).encode())
    for path in sorted(resource_dir("shaders").rglob("*.wgsl")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
