import pytest

from wgpu_engine.errors import ModelFileError
from wgpu_engine.platform.drive import drive
from wgpu_engine.platform.memory_source import MemorySource


def test_reads_within_its_bounds() -> None:
    source = MemorySource("made", b"abcdef")
    assert source.size == 6
    assert bytes(drive(source.read(2, 3))) == b"cde"
    assert bytes(drive(source.read(6, 0))) == b""
    for offset, length in ((-1, 2), (2, -1), (4, 3), (7, 0)):
        with pytest.raises(ModelFileError, match="made has 6 bytes"):
            drive(source.read(offset, length))
