"""Bytecode for the Python that Pyodide has: the standard library comes as sources, and compiling what the engine loads
of it takes half of the time until the page is ready.

Only that Python itself writes bytecode that it can read, so Pyodide is started under Node.js, which comes with npm.
"""

import hashlib
import io
import json
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from wgpu_engine.bundle import nodejs
from wgpu_engine.bundle.lock import lock_file
from wgpu_engine.bundle.npm import write_whole
from wgpu_engine.bundle.wheels import Wheel, packed
from wgpu_engine.errors import BundleError

_SCRIPT = Path(__file__).with_name("compile.mjs")
_TIMEOUT_S = 300
STDLIB = "python_stdlib.zip"
LOCK = "pyodide-lock.json"


def compiled(core: Mapping[str, bytes], wheels: Sequence[Wheel], cache: Path) -> tuple[dict[str, bytes], list[Wheel]]:
    """Pyodide's files and the wheels, with bytecode of what loading the first wheel's package loads.

    In the standard library it stands in place of sources, in wheels beside them, for the sake of tracebacks.

    Args:
        cache: a folder that keeps the bytecode for the next time.

    Raises:
        BundleError: there is no Node.js, or it can't run Pyodide.
    """
    bytecode = _cached(core, wheels, cache)
    tag = "cpython-" + "".join(json.loads(core[LOCK])["info"]["python"].split(".")[:2])
    return (
        {**core, STDLIB: _sourceless(core[STDLIB], bytecode)},
        [_with_bytecode(wheel, bytecode, tag) for wheel in wheels],
    )


def _cached(core: Mapping[str, bytes], wheels: Sequence[Wheel], cache: Path) -> dict[str, bytes]:
    """Bytecode by path, under stdlib/ and site/; out of the cache if nothing has changed."""
    key = hashlib.sha256(_SCRIPT.read_bytes())
    for data in (*core.values(), *(wheel.data for wheel in wheels)):
        key.update(hashlib.sha256(data).digest())
    kept = cache / f"bytecode-{key.hexdigest()[:16]}.zip"
    if not kept.exists():
        made = _compile(core, wheels)
        cache.mkdir(parents=True, exist_ok=True)
        for old in cache.glob("bytecode-*.zip"):
            old.unlink(missing_ok=True)
        write_whole(kept, made)
    with zipfile.ZipFile(kept) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _compile(core: Mapping[str, bytes], wheels: Sequence[Wheel]) -> bytes:
    with tempfile.TemporaryDirectory(prefix="wgpu-engine-bytecode-") as name:
        folder, made = Path(name), Path(name) / "bytecode.zip"
        for file, data in core.items():
            (folder / file).write_bytes(data)
        for wheel in wheels:
            (folder / wheel.file_name).write_bytes(wheel.data)
        (folder / LOCK).write_bytes(lock_file(core[LOCK], wheels))
        arguments = [str(_SCRIPT), str(folder), str(made), wheels[0].name]
        run = nodejs.run("node", arguments, folder, _TIMEOUT_S)
        if run.returncode or not made.exists():
            said = " ".join(run.stderr.split())[-300:]
            raise BundleError(f"Node.js can't run Pyodide ({said}): install Node.js 20 or newer")
        return made.read_bytes()


def _sourceless(stdlib: bytes, bytecode: Mapping[str, bytes]) -> bytes:
    """The library's archive, with `name.pyc` for `name.py` where there is bytecode."""
    files = {}
    with zipfile.ZipFile(io.BytesIO(stdlib)) as archive:
        for name in archive.namelist():
            if not name.endswith("/"):
                code = bytecode.get(f"stdlib/{name}")
                files[f"{name}c" if code else name] = code or archive.read(name)
    return packed(files)


def _with_bytecode(wheel: Wheel, bytecode: Mapping[str, bytes], tag: str) -> Wheel:
    files = dict(wheel.files)
    for name in wheel.files:
        code = bytecode.get(f"site/{name}")
        if code:
            package, _, module = name.rpartition("/")
            files[f"{package}/__pycache__/{module.removesuffix('.py')}.{tag}.pyc"] = code
    return replace(wheel, files=files)
