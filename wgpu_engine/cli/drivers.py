"""How to come by a driver that WebGPU can use, on the system at hand."""

import os
import sys
from pathlib import Path

_RENDER_NODES = Path("/dev/dri")


def remedy() -> str:
    """What to do where no adapter is found, as the end of a sentence."""
    return _of_system() or _of_nvidia() or _install_command()


def gpu_remedy() -> str:
    """What to do where only the CPU is found and there should be a GPU, as the end of a sentence."""
    nodes = list(_RENDER_NODES.glob("renderD*"))
    if found := _of_system() or _of_nvidia():
        return found
    if nodes and not any(os.access(node, os.R_OK | os.W_OK) for node in nodes):
        return f"let this user open {nodes[0]}: `sudo usermod -aG render $USER`, then log in again"
    if not nodes and _in_container():
        return "pass it into the container: `--device /dev/dri` (AMD, Intel) or `--gpus all` (NVIDIA)"
    return "install the Vulkan driver of its maker"


def _of_system() -> str | None:
    """The remedy for systems that aren't plain Linux."""
    if sys.platform == "darwin":
        return "Metal needs macOS 11 or newer on the machine itself, not in a virtual machine without a graphics device"
    if sys.platform == "win32":
        return "install the graphics driver of NVIDIA, AMD or Intel from its maker, which brings DirectX 12 and Vulkan"
    if _is_wsl():
        return (
            "install `mesa-vulkan-drivers` in WSL and an up-to-date graphics driver in Windows (Windows shares its GPU "
            "with WSL through Mesa's driver `dzn`)"
        )
    return None


def _of_nvidia() -> str | None:
    """The remedy where NVIDIA's kernel driver runs, but its Vulkan part isn't there."""
    if Path("/proc/driver/nvidia").exists():
        return (
            "install the Vulkan part of NVIDIA's driver (Debian: `nvidia-driver-libs`; in a container it needs "
            "`--gpus all -e NVIDIA_DRIVER_CAPABILITIES=all`)"
        )
    return None


def _install_command() -> str:
    """The command that installs Mesa's Vulkan drivers (AMD, Intel, and the CPU as a last resort)."""
    family = _distribution()
    if family & {"debian", "ubuntu"}:
        return "run `sudo apt-get install libvulkan1 mesa-vulkan-drivers`"
    if family & {"fedora", "rhel", "centos"}:
        return "run `sudo dnf install vulkan-loader mesa-vulkan-drivers`"
    if "arch" in family:
        return "run `sudo pacman -S vulkan-icd-loader` and add `vulkan-radeon`, `vulkan-intel` or `vulkan-swrast`"
    if family & {"suse", "opensuse"}:
        return "run `sudo zypper install libvulkan1 libvulkan_lvp` or the Vulkan driver of your GPU"
    if "alpine" in family:
        return "use a distribution with glibc such as Debian, since wgpu has no library for musl"
    return "install the Vulkan loader and a Vulkan driver for your GPU (Mesa's for AMD, Intel and the CPU)"


def _distribution() -> set[str]:
    """Ids of this Linux distribution and of those that it derives from."""
    try:
        lines = Path("/etc/os-release").read_text().splitlines()
    except OSError:
        return set()
    fields = dict(line.split("=", 1) for line in lines if "=" in line)
    return set(f"{fields.get('ID', '')} {fields.get('ID_LIKE', '')}".replace('"', "").lower().split())


def _is_wsl() -> bool:
    return Path("/proc/sys/fs/binfmt_misc/WSLInterop").exists() or Path("/usr/lib/wsl").exists()


def _in_container() -> bool:
    return Path("/.dockerenv").exists() or Path("/run/.containerenv").exists()
