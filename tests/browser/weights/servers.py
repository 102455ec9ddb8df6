"""A server of models that misbehaves as a test wants."""

import gzip
import re
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Self

_TYPES = {
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".html": "text/html",
    ".json": "application/json",
    ".wasm": "application/wasm",
}
_CHUNK = 1 << 18


@dataclass
class Served:
    """A file and how it is given out."""

    data: bytes
    ranges: bool = True
    """whether Range is heeded"""
    etag: str | None = '"one"'
    status: list[int] = field(default_factory=list)
    """statuses to answer with before it goes well"""
    fails_after: int | None = None
    """answers after which there are no more but status 503"""
    cuts: list[int] = field(default_factory=list)
    """bytes after which the connection is cut: of the first answer with a body, of the second, …"""
    cors: bool = False
    """whether other sites may read it"""
    exposed: bool = True
    """whether other sites see Content-Range"""
    gzipped: bool = False
    """whether it is compressed for those who can take it"""
    content_type: str = "application/octet-stream"
    shift: int = 0
    """bytes that the ranges given out are off by"""
    stated: int | None = None
    """bytes that it says it has, in place of what it has"""
    stated_length: int | None = None
    """Content-Length in place of the true one"""
    stalls: list[float] = field(default_factory=list)
    """seconds before the body of the first answer, of the second, …"""
    delay: float = 0.0
    """seconds before each chunk"""
    redirect: str | None = None
    """where it is instead"""


class ModelServer:
    """Serves a folder, and files in memory under their names: `server.files["m.gguf"] = Served(data)`.

    A context manager; `asked` has the path and the Range header of each request for one of the files.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.files: dict[str, Served] = {}
        self.asked: list[tuple[str, str | None]] = []
        self.down = False
        """whether requests get no answer"""
        self._folder = folder
        handler = type("Handler", (_Handler,), {"owner": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        self.port = self._server.server_address[1]
        self.url = f"http://localhost:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Takes no more connections."""
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def page(self, name: str) -> tuple[bytes, str] | None:
        """Contents and type of a file of the folder."""
        if self._folder is None:
            return None
        path = (self._folder / name).resolve()
        if not path.is_file() or not path.is_relative_to(self._folder.resolve()):
            return None
        return path.read_bytes(), _TYPES.get(path.suffix, "application/octet-stream")


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Browsers leave when they like."""


class _Handler(BaseHTTPRequestHandler):
    owner: ModelServer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_OPTIONS(self) -> None:
        name = self.path.lstrip("/").partition("?")[0]
        served = self.owner.files.get(name)
        self.send_response(204 if served and served.cors else 403)
        if served and served.cors:
            self.send_header("Access-Control-Allow-Origin", "*")
            self.send_header("Access-Control-Allow-Headers", "Range")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        name = self.path.lstrip("/").partition("?")[0]
        served = self.owner.files.get(name)
        if served is None:
            found = (b"<!doctype html><title>test</title>", "text/html") if not name else self.owner.page(name)
            self._send(200 if found else 404, found[0] if found else b"", {"Content-Type": found[1]} if found else {})
            return
        self.owner.asked.append((name, self.headers.get("Range")))
        if self.owner.down:
            self.close_connection = True
            return
        if served.status:
            self._send(served.status.pop(0), b"", {})
        elif served.fails_after == 0:
            self._send(503, b"", {})
        elif served.redirect:
            self._send(302, b"", {"Location": served.redirect})
        else:
            self._give(served)

    def _give(self, served: Served) -> None:
        if served.fails_after is not None:
            served.fails_after -= 1
        headers = {"Content-Type": served.content_type, "Accept-Ranges": "bytes"}
        if served.etag:
            headers["ETag"] = served.etag
        if served.cors:
            headers["Access-Control-Allow-Origin"] = "*"
            if served.exposed:
                headers["Access-Control-Expose-Headers"] = "Content-Range, ETag"
        data, status = served.data, 200
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range") or "")
        if match and served.ranges:
            start, end = int(match[1]) + served.shift, min(int(match[2]) + 1, len(data)) + served.shift
            total = len(data) if served.stated is None else served.stated
            if start >= len(data):
                self._send(416, b"", {"Content-Range": f"bytes */{total}"})
                return
            data, status = data[start:end], 206
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{total}"
        if served.gzipped and "gzip" in self.headers.get("Accept-Encoding", ""):
            data = gzip.compress(data, 1)
            headers["Content-Encoding"] = "gzip"
        self._send(status, data, headers, served)

    def _send(self, status: int, data: bytes, headers: dict[str, str], served: Served | None = None) -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        length = len(data) if served is None or served.stated_length is None else served.stated_length
        self.send_header("Content-Length", str(length))
        self.end_headers()
        if served and served.stalls:
            self.wfile.flush()
            time.sleep(served.stalls.pop(0))
        cut = served.cuts.pop(0) if served and served.cuts and len(data) > 4 else None
        try:
            for start in range(0, len(data) if cut is None else min(cut, len(data)), _CHUNK):
                if served and served.delay:
                    time.sleep(served.delay)
                self.wfile.write(data[start : min(start + _CHUNK, len(data) if cut is None else cut)])
            if cut is not None:
                self.wfile.flush()
                self.close_connection = True
                self.connection.shutdown(2)
        except OSError:
            self.close_connection = True
