"""Tests of models."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def compared(no_kernel_check: None) -> None:
    """Models are compared with the reference itself here, so no kernel needs a check."""
