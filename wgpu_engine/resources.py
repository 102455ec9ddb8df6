"""Where the shaders and the web page are: in the installed package, else beside it in a checkout."""

from pathlib import Path

_PACKAGE = Path(__file__).parent


def resource_dir(name: str) -> Path:
    """Folder `name` ("shaders" or "web") as installed with the package, else of the checkout.

    Raises:
        FileNotFoundError: neither exists; the installation is incomplete.
    """
    for folder in (_PACKAGE / name, _PACKAGE.parent / name):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f"the folder {name}/ is missing: reinstall wgpu_engine")
