"""The web page at `/`: its static files, and the description that tells it to use this server's API."""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from wgpu_engine import __version__
from wgpu_engine.resources import resource_dir

_FOLDERS = ("page", "vendor", "icons")
# the last two clear away what a bundle left in the browser that was served from the same address before
_FILES = ("index.html", "manifest.webmanifest", "service-worker.js", "precache.js")
_SOURCES = "script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; worker-src 'self'"
HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": f"default-src 'none'; {_SOURCES}; manifest-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_TYPES = {".js": "text/javascript", ".webmanifest": "application/manifest+json", ".svg": "image/svg+xml"}
_NOT_BUILT = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>wgpu_engine</title><style>:root{color-scheme:light dark}"
    "body{font:16px/1.5 system-ui;max-width:40rem;margin:12vh auto;padding:0 1rem}</style>"
    "<h1>The page was not built</h1><p>Run <code>make web</code> in the checkout and load this page again: it fetches "
    "the JavaScript libraries that the page needs. The API works without; <a href=/docs>/docs</a> lists it.</p></html>"
)


def is_open(path: str) -> bool:
    """Whether a path is of the page, which needs no key: it has nothing of the model and asks for one itself."""
    return path in ("/", "/bundle.json", *(f"/{name}" for name in _FILES)) or path.startswith(
        tuple(f"/{name}/" for name in _FOLDERS)
    )


def routes() -> list[BaseRoute]:
    """Routes of the page's files and nothing beside them; of a page that wasn't built, a word on how to do that."""
    web = resource_dir("web")
    if not all((web / name).exists() for name in ("index.html", *_FOLDERS)):
        return [Route("/", _not_built)]
    root = _Folder(directory=web)

    def file(name: str) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            return await root.get_response(name, request.scope)

        return answer

    return [
        Route("/", file("index.html")),
        Route("/bundle.json", _bundle),
        *(Route(f"/{name}", file(name)) for name in _FILES if (web / name).is_file()),
        *(Mount(f"/{name}", _Folder(directory=web / name)) for name in _FOLDERS),
    ]


class _Folder(StaticFiles):
    """Files that are asked for anew each time, which costs little where nothing changed."""

    def file_response(
        self, full_path: str | os.PathLike[str], stat_result: os.stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers.update(HEADERS)
        kind = _TYPES.get(Path(full_path).suffix)
        if kind is not None and response.status_code != 304:
            response.headers["Content-Type"] = kind
        return response


async def _not_built(_request: Request) -> Response:
    return HTMLResponse(_NOT_BUILT, 503)


async def _bundle(_request: Request) -> Response:
    """`GET /bundle.json`: what this page is. Which model there is, the API tells those who may know."""
    return JSONResponse({"engine": "api", "version": __version__, "title": "wgpu_engine"}, headers=HEADERS)
