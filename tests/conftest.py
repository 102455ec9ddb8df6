"""Fixtures that every room's tests share."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def conformance() -> Path:
    """Folder of inputs and expected values from independent implementations; skips where it is absent."""
    folder = Path(os.environ.get("WGPU_ENGINE_CONFORMANCE", ROOT.parent / "shared" / "conformance"))
    if not folder.is_dir():
        pytest.skip("conformance data is absent: set WGPU_ENGINE_CONFORMANCE to its folder")
    return folder
