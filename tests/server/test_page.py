"""The page's files: what is given to whom, and what isn't."""

from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from wgpu_engine.server import page
from wgpu_engine.server.auth import ApiKeys

_FILES = {
    "index.html": "<!doctype html>",
    "page/app.js": "start",
    "page/base.css": "a{}",
    "vendor/marked.js": "marked",
    "icons/icon.svg": "<svg/>",
    "manifest.webmanifest": "{}",
    "engine/engine.js": "not for this page",
    "secret.txt": "secret",
}
Serve = Callable[..., TestClient]


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Serve:
    """A server of the page alone: `serve(without="vendor/marked.js", keys=["key"])`."""

    def made(without: str | None = None, keys: tuple[str, ...] = ()) -> TestClient:
        for name, text in _FILES.items():
            if name != without:
                path = tmp_path / "web" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
        (tmp_path / "outside.js").write_text("outside")
        (tmp_path / "web" / "page" / "link.js").symlink_to(tmp_path / "outside.js")
        monkeypatch.setattr(page, "resource_dir", lambda name: tmp_path / name)
        app = Starlette(routes=page.routes())
        app.add_middleware(ApiKeys, keys=keys)
        return TestClient(app, raise_server_exceptions=True)

    return made


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "text/html"),
        ("/index.html", "text/html"),
        ("/page/app.js", "text/javascript"),
        ("/page/base.css", "text/css"),
        ("/vendor/marked.js", "text/javascript"),
        ("/icons/icon.svg", "image/svg+xml"),
        ("/manifest.webmanifest", "application/manifest+json"),
        ("/bundle.json", "application/json"),
    ],
)
def test_what_the_page_needs_comes_without_a_key(serve: Serve, path: str, kind: str) -> None:
    response = serve(keys=("key",)).get(path)
    assert response.status_code == 200 and response.headers["content-type"].partition(";")[0] == kind
    assert response.headers["cache-control"] == "no-cache" and response.headers["x-content-type-options"] == "nosniff"
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "connect-src 'self'" in policy and "unsafe" not in policy


def test_an_unchanged_file_is_not_sent_again(serve: Serve) -> None:
    client = serve()
    tag = client.get("/page/app.js").headers["etag"]
    again = client.get("/page/app.js", headers={"If-None-Match": tag})
    assert again.status_code == 304 and again.content == b"" and again.headers["cache-control"] == "no-cache"


@pytest.mark.parametrize(
    "path",
    [
        "/secret.txt",
        "/engine/engine.js",
        "/page/",
        "/page/absent.js",
        "/page/../secret.txt",
        "/page/%2e%2e/secret.txt",
        "/page/..%2fsecret.txt",
        "/page/%2e%2e%2f%2e%2e%2foutside.js",
        "/page/..%5c..%5csecret.txt",
        "/page//etc/passwd",
        "/page/%2fetc/passwd",
        "/page/link.js",
        "/page/app.js%00.css",
        "/page/" + "a" * 5000,
    ],
)
def test_nothing_else_is_given_out(serve: Serve, path: str) -> None:
    response = serve().get(path)
    assert response.status_code == 404
    assert "secret" not in response.text and "outside" not in response.text


def test_a_page_that_was_not_built_says_how_to(serve: Serve) -> None:
    client = serve(without="vendor/marked.js")
    response = client.get("/")
    assert response.status_code == 503 and "make web" in response.text


def test_files_are_not_written(serve: Serve) -> None:
    client = serve()
    assert client.post("/", content=b"x").status_code == 405
    assert client.put("/page/app.js", content=b"x").status_code == 405


def test_only_the_page_is_open() -> None:
    for path in ("/v1/models", "/props", "/docs", "/page", "/pages/x", "/metrics", "//", "/v1/../page/x"):
        assert not page.is_open(path), path
