"""The Python halves of what browsers do in JavaScript, over stand-ins for its objects."""

import sys
from types import ModuleType
from typing import Any

import pytest

from wgpu_engine.errors import (
    AddressError,
    DownloadError,
    EngineError,
    ModelFileError,
    RequestError,
    StorageFullError,
    UnsupportedModelError,
)
from wgpu_engine.platform.browser_encoder import BrowserEncoder
from wgpu_engine.platform.browser_source import BrowserSource
from wgpu_engine.platform.drive import drive


class JSError(Exception):
    """As Pyodide brings an Error over."""

    def __init__(self, message: str, kind: str | None = None) -> None:
        super().__init__(f"SourceError: {message}")
        self.message = message
        if kind is not None:
            self.kind = kind


class Bytes:
    def __init__(self, data: bytes) -> None:
        self.data = data

    def to_bytes(self) -> bytes:
        return self.data


class JSSource:
    name, size, warnings = "m.gguf", 10.0, ("full",)

    def __init__(self, error: Exception | None = None) -> None:
        self.error, self.given, self.calls = error, Bytes(b"abc"), []

    async def read(self, offset: int, length: int) -> Bytes:
        self.calls.append((offset, length))
        if self.error:
            raise self.error
        return self.given

    async def download(self) -> None:
        self.calls.append("download")
        if self.error:
            raise self.error

    def close(self) -> None:
        self.calls.append("close")


def test_reads_by_javascript() -> None:
    js = JSSource()
    with BrowserSource(js) as source:
        assert (source.name, source.size, source.warnings, source.js) == ("m.gguf", 10, ["full"], js)
        assert drive(source.read(2, 3)) == b"abc"
        drive(source.fetch())
    assert js.calls == [(2, 3), "download", "close"]


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("file", ModelFileError),
        ("network", DownloadError),
        ("address", AddressError),
        ("quota", StorageFullError),
        ("request", RequestError),
    ],
)
def test_errors_become_ours(kind: str, error: type[EngineError]) -> None:
    source = BrowserSource(JSSource(JSError("one sentence", kind)))
    for call in (source.read(0, 1), source.fetch()):
        with pytest.raises(error) as raised:
            drive(call)
        assert type(raised.value) is error and str(raised.value) == "one sentence"


def test_other_errors_stay_what_they_are() -> None:
    for error in (JSError("stopped"), JSError("odd", "odd"), ZeroDivisionError()):
        with pytest.raises(type(error)) as raised:
            drive(BrowserSource(JSSource(error)).read(0, 1))
        assert raised.value is error


def test_encodes_by_javascript(monkeypatch: pytest.MonkeyPatch) -> None:
    class Ids(Bytes):
        def to_py(self) -> memoryview:
            return memoryview(self.data).cast("I")

    class Encoder:
        given = Ids((258).to_bytes(4, "little"))

        def encode(self, text: str) -> Ids:
            assert text == "the text"
            return self.given

    def make(text: str) -> Any:
        if text == "wrong":
            raise JSError("a sentence on its kind", "unsupported")
        if text == "damaged":
            raise JSError("no vocab")
        return Encoder()

    host = ModuleType("wgpu_engine_host")
    host.makeEncoder = make  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wgpu_engine_host", host)
    assert BrowserEncoder("{}").encode("the text") == [258]
    with pytest.raises(UnsupportedModelError, match=r"^a sentence on its kind$"):
        BrowserEncoder("wrong")
    with pytest.raises(ModelFileError, match=r"can't be used .no vocab."):
        BrowserEncoder("damaged")
