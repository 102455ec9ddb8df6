"""Pyodide as `make web` fetched it, and a bundle without models that several tests look at."""

from pathlib import Path

import pytest

from wgpu_engine.bundle.folder import Built, build
from wgpu_engine.bundle.npm import pinned

CHECKOUT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="session")
def pyodide_dir() -> Path:
    folder = CHECKOUT / "build" / "pyodide"
    if not all(package.is_in(folder) for package in pinned("pyodide")):
        pytest.skip("Pyodide is not in build/pyodide: run `make web`")
    return folder


@pytest.fixture(scope="session")
def cache() -> Path:
    """Bytecode stays for the next run; nothing of it is used once a source has changed."""
    return CHECKOUT / "build" / "bundle-cache"


@pytest.fixture(scope="session")
def built(pyodide_dir: Path, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build(tmp_path_factory.mktemp("bundle") / "out", [], cache, title="A title", pyodide_dir=pyodide_dir)
