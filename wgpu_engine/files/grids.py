"""The look-up tables of the IQ types, out of `iq_grids/`."""

from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent / "iq_grids"


@cache
def grid(name: str) -> bytes:
    """The table of this name, as `iq_grids/README.md` says; a multiple of 16 bytes."""
    return (_FOLDER / f"{name}.bin").read_bytes()
