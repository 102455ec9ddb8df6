"""Finds out by trying whether subgroups can be used: drivers' own words on them are not to be relied on."""

import struct

from wgpu_engine.errors import DeviceError
from wgpu_engine.gpu.device import Device, Dispatch
from wgpu_engine.gpu.wgsl import assemble

_THREADS = 64


async def probe_subgroup_size(device: Device) -> int:
    """Lanes that shuffle with each other, 0 where they don't or where lanes aren't in order of the local index."""
    found = device.buffer(12 * _THREADS, "probe")
    try:
        shader = assemble("probe/subgroup.wgsl", dialect=device.dialect)
        plan = await device.plan([Dispatch(shader, (found,), (1, 1, 1))], "probe")
        data = await device.receive(device.run_and_read(plan, found, 0, 12 * _THREADS))
    except DeviceError:
        return 0
    finally:
        device.free(found)
    words = struct.unpack(f"<{3 * _THREADS}I", data)
    size = words[0]
    if size < 4:
        return 0
    lanes = range(_THREADS)
    in_order = all(words[3 * i : 3 * i + 3] == (size, i % size, i ^ 3) for i in lanes)
    return size if in_order else 0
