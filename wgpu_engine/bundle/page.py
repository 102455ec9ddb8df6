"""The page's own files, as they lie in web/, with what is particular to one bundle."""

import json
import mimetypes
from collections.abc import Mapping
from typing import Any

from wgpu_engine.bundle.npm import pinned, sha256_of
from wgpu_engine.errors import BundleError
from wgpu_engine.resources import resource_dir

MANIFEST = "manifest.webmanifest"
PRECACHE = "precache.js"
_UNCACHED = frozenset({"service-worker.js", PRECACHE})
"""what the browser itself looks after"""
_TYPES = {
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".json": "application/json",
    ".wasm": "application/wasm",
    ".webmanifest": "application/manifest+json",
    ".whl": "application/zip",
    ".zip": "application/zip",
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
    ".svg": "image/svg+xml",
}


def page_files() -> dict[str, bytes]:
    """Everything of web/, by path with slashes.

    Raises:
        BundleError: the JavaScript libraries that belong there are missing or not those that were pinned.
    """
    web = resource_dir("web")
    if not all(package.is_in(web / "vendor") for package in pinned("web")):
        raise BundleError(
            f"the page's JavaScript libraries are not all in {web / 'vendor'}: run `make web` in a checkout, else "
            "install wgpu_engine again."
        )
    return {
        path.relative_to(web).as_posix(): path.read_bytes()
        for path in sorted(web.rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    }


def manifest(default: bytes, title: str, kiosk: bool) -> bytes:
    """The manifest of web/, for a page called `title`; a kiosk's fills the screen."""
    fields: dict[str, Any] = json.loads(default)
    fields |= {"name": title, "short_name": title}
    if kiosk:
        fields["display"] = "fullscreen"
    return json.dumps(fields, indent=1, ensure_ascii=False).encode()


def precache(files: Mapping[str, bytes]) -> bytes:
    """`precache.js` for the service worker: what it keeps, with hashes, and a version that stands for all of it."""
    kept = [
        {"path": path, "sha256": sha256_of(data), "type": content_type(path)}
        for path, data in sorted(files.items())
        if path not in _UNCACHED
    ]
    version = sha256_of(json.dumps(kept).encode())[:16]
    return f"self.PRECACHE = {json.dumps({'version': version, 'files': kept}, indent=1)};\n".encode()


def content_type(path: str) -> str:
    """What a server should say that a file is."""
    suffix = "." + path.rpartition(".")[2]
    return _TYPES.get(suffix) or mimetypes.guess_type(path)[0] or "application/octet-stream"
