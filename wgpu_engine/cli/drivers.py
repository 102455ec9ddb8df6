"""How to come by a driver that WebGPU can use, on the system at hand."""

import sys
from pathlib import Path


def remedy() -> str:
    """What to do where no adapter is found, as the end of a sentence."""
    if sys.platform == "darwin":
        return "Metal needs macOS 11 or newer on the machine itself, not in a virtual machine without a graphics device"
    if sys.platform == "win32":
        return "install the graphics driver of NVIDIA, AMD or Intel from its maker, which brings DirectX 12 and Vulkan"
    if _is_wsl():
        return (
            "install `mesa-vulkan-drivers` in WSL and an up-to-date graphics driver in Windows (Windows shares its GPU "
            "with WSL through Mesa's driver `dzn`)"
        )
    install = _install_command()
    if Path("/proc/driver/nvidia").exists():
        return f"reinstall NVIDIA's driver with its Vulkan part (Debian: `nvidia-driver-libs`); for the CPU {install}"
    if _in_container():
        return f"{install}; to reach a GPU from a container, start it with `--device /dev/dri` or `--gpus all`"
    return install


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
