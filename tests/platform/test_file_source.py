import os
import sys
from pathlib import Path

import pytest

from wgpu_engine.errors import ModelFileError, ModelNotFoundError
from wgpu_engine.platform.drive import drive
from wgpu_engine.platform.file_source import FileSource


def test_reads_any_range(tmp_path: Path) -> None:
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(256)))
    with FileSource(path) as source:
        assert source.size == 256
        assert source.name == str(path)
        assert drive(source.read(10, 3)) == b"\x0a\x0b\x0c"
        assert drive(source.read(256, 0)) == b""
        assert drive(source.read(0, 256)) == path.read_bytes()


def test_reads_an_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "empty"
    path.touch()
    with FileSource(path) as source:
        assert source.size == 0
        assert drive(source.read(0, 0)) == b""


@pytest.mark.parametrize(("offset", "length"), [(0, 257), (256, 1), (-1, 1), (0, -1), (1 << 70, 1), (1, 1 << 70)])
def test_refuses_ranges_outside(tmp_path: Path, offset: int, length: int) -> None:
    path = tmp_path / "bytes"
    path.write_bytes(bytes(256))
    with FileSource(path) as source, pytest.raises(ModelFileError, match="download it again"):
        drive(source.read(offset, length))


def test_is_closed_but_its_views_live(tmp_path: Path) -> None:
    path = tmp_path / "bytes"
    path.write_bytes(b"abc")
    source = FileSource(path)
    view = drive(source.read(0, 3))
    source.close()
    source.close()
    assert view == b"abc"
    with pytest.raises(ModelFileError, match="open it again"):
        drive(source.read(0, 1))


def test_refuses_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match="there is no file"):
        FileSource(tmp_path / "absent")
    with pytest.raises(ModelFileError, match="is a folder"):
        FileSource(tmp_path)
    with pytest.raises(ModelFileError, match="can't be read"):
        FileSource("a\0b")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_does_not_wait_for_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelFileError, match="not a regular file"):
        FileSource(tmp_path / "pipe")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_holds_no_copy(tmp_path: Path) -> None:
    def anonymous() -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))

    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(64 << 20)
    with FileSource(path) as source:
        before = anonymous()
        view = drive(source.read(0, source.size))
        assert sum(view[::4096]) == 0
        assert anonymous() - before < 8 << 10
