"""llama.cpp, beside which the engine is measured: its builds on npm, each run in a process of its own."""

import json
import os
import platform
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from wgpu_engine.cli.terminal import note

VERSION = "3.21.1"
PACKAGES = ("node-llama-cpp", "@node-llama-cpp/linux-x64", "@node-llama-cpp/linux-x64-vulkan")
_SCRIPT = Path(__file__).with_name("llama_cpp.mjs")
_NODE_MAJOR = 20
_INSTALL_LIMIT_S = 900
_RUN_LIMIT_S = 1800
_MOST_DEVICES = 8

Backend = Literal["vulkan", "cpu"]


class PeerError(Exception):
    """llama.cpp can't be measured here; one sentence."""


@dataclass(frozen=True)
class Speeds:
    """Tokens/s of one round."""

    prefill: float
    decode: float


@dataclass(frozen=True)
class LlamaCpp:
    """An installed llama.cpp."""

    node: str
    folder: Path
    """holds `node_modules`"""

    def vulkan_index(self, adapter: str) -> int:
        """The number by which llama.cpp knows the Vulkan device of this name.

        Raises:
            PeerError: it sees no such device.
        """
        seen: list[str] = []
        for index in range(_MOST_DEVICES):
            try:
                devices = self._run({"backend": "vulkan"}, index)["devices"]
            except PeerError as error:
                if not seen:
                    raise
                raise PeerError(f"llama.cpp sees no Vulkan device {adapter!r}, only {', '.join(seen)}") from error
            if adapter in devices:
                return index
            seen += devices
        raise PeerError(f"llama.cpp has no Vulkan device {adapter!r} among its first {_MOST_DEVICES}")

    def measure(
        self,
        backend: Backend,
        model: Path,
        prompts: Sequence[Sequence[int]],
        new_tokens: int,
        *,
        threads: int = 0,
        vulkan_index: int = 0,
    ) -> Speeds:
        """Speeds with the last of `prompts`, after the others to warm up.

        Args:
            prompts: token ids; decoding starts after the first of them, as `wgpu-engine bench` does.
            new_tokens: how many are made; the first of them isn't timed as decoding.
            threads: of the CPU backend.

        Raises:
            PeerError: llama.cpp failed.
        """
        request = {"backend": backend, "model": str(model), "prompts": prompts, "newTokens": new_tokens}
        answer = self._run({**request, "threads": threads}, vulkan_index)
        return Speeds(answer["prefill_per_s"], answer["decode_per_s"])

    def _run(self, request: dict[str, Any], vulkan_index: int) -> dict[str, Any]:
        command = [self.node, str(_SCRIPT), str(self.folder), json.dumps(request)]
        # named explicitly, llama.cpp takes a software device too
        output = _output(command, _RUN_LIMIT_S, {"GGML_VK_VISIBLE_DEVICES": str(vulkan_index)})
        try:
            answer = json.loads(output.splitlines()[-1])
        except (IndexError, ValueError) as error:
            raise PeerError(f"llama.cpp gave no figures but {output[-200:]!r}") from error
        assert isinstance(answer, dict)
        return answer


def install(folder: Path) -> LlamaCpp:
    """llama.cpp in `folder`, fetched from npm where it isn't there yet; no script of a package runs.

    Raises:
        PeerError: Node.js or npm is missing or too old, there is no build for this machine, or npm failed.
    """
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise PeerError(f"there is no Vulkan build of llama.cpp on npm for {platform.system()} {platform.machine()}")
    node = shutil.which("node")
    if node is None:
        raise PeerError(f"Node.js is missing: install version {_NODE_MAJOR} or newer to compare with llama.cpp")
    version = _output([node, "--version"], 60).strip()
    if int(version.lstrip("v").partition(".")[0]) < _NODE_MAJOR:
        raise PeerError(
            f"Node.js {version} is too old: install version {_NODE_MAJOR} or newer to compare with llama.cpp"
        )
    if not (folder / "node_modules" / PACKAGES[0]).is_dir():
        _fetch(folder)
    return LlamaCpp(node, folder)


def _fetch(folder: Path) -> None:
    """Install the packages beside `folder` and rename, so that an interruption leaves nothing half there."""
    npm = shutil.which("npm")
    if npm is None:
        raise PeerError("npm is missing: install it to fetch llama.cpp for the comparison")
    note(f"installing llama.cpp into {folder} ...")
    part = folder.with_name(folder.name + ".part")
    # optional packages are builds for other machines; ours are named
    options = ["--ignore-scripts", "--omit=optional", "--no-audit", "--no-fund", "--loglevel=error"]
    names = [f"{name}@{VERSION}" for name in PACKAGES]
    try:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        _output([npm, "install", "--prefix", str(part), *options, *names], _INSTALL_LIMIT_S)
        part.rename(folder)
    except OSError as error:
        raise PeerError(f"llama.cpp can't be put into {folder} ({error.strerror}): choose another folder") from error


def _output(command: list[str], limit_s: float, environment: dict[str, str] | None = None) -> str:
    """What a command prints; raises PeerError with the end of its complaints where it fails."""
    name = Path(command[0]).name
    try:
        done = subprocess.run(
            command,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit_s,
        )
    except subprocess.TimeoutExpired as error:
        raise PeerError(f"{name} took longer than {limit_s:.0f} s") from error
    except OSError as error:
        raise PeerError(f"{name} can't be started ({error.strerror})") from error
    if done.returncode:
        raise PeerError(f"{name} ended with code {done.returncode}: {' '.join(done.stderr.split())[-300:]}")
    return done.stdout
