"""`pyodide-lock.json`: which wheels Pyodide finds beside itself, and what they have to hold.

The format is that of Pyodide's own file, reduced to what is in the bundle: Pyodide looks up the names given to
`loadPyodide({packages})` there, checks each wheel's SHA-256, and asks no other host.
"""

import json
from collections.abc import Iterable
from typing import Any

from wgpu_engine.bundle.npm import pinned, sha256_of
from wgpu_engine.bundle.wheels import Wheel


def lock_file(core: bytes, wheels: Iterable[Wheel]) -> bytes:
    """The lock file for `wheels`.

    Args:
        core: Pyodide's own lock file, which says which Python and which ABI it has.
    """
    # the version is missing from Pyodide's own file, but other readers of the format want it
    info = {"version": pinned("pyodide")[0].version, **json.loads(core)["info"]}
    return json.dumps({"info": info, "packages": {wheel.name: _entry(wheel) for wheel in wheels}}, indent=1).encode()


def _entry(wheel: Wheel) -> dict[str, Any]:
    return {
        "name": wheel.name,
        "version": wheel.version,
        "file_name": wheel.file_name,
        "install_dir": "site",
        "sha256": sha256_of(wheel.data),
        "package_type": "package",
        "imports": list(wheel.imports),
        "depends": list(wheel.depends),
        "unvendored_tests": False,
    }
