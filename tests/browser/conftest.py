"""A headless browser, and the folder that it is given."""

import mimetypes
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from wgpu_engine.bundle.folder import build
from wgpu_engine.bundle.models import choose
from wgpu_engine.files.store import Store

ROOT = Path(__file__).parents[2]
FLAGS = (
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
GPU = ("--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader")
BLANK = "blank.html"
"""a page of a site that does nothing by itself"""

MakeBundle = Callable[..., Path]
OpenPage = Callable[..., AbstractContextManager[Page]]


class PlainFiles(SimpleHTTPRequestHandler):
    """The plainest static server: no ranges, and everything whole, since it would tell what changed by the second."""

    extensions_map = {**mimetypes.types_map, ".mjs": "text/javascript", ".wasm": "application/wasm"}  # noqa: RUF012

    def send_head(self) -> Any:
        del self.headers["If-Modified-Since"]
        return super().send_head()

    def log_message(self, *_: Any) -> None:
        """Nothing."""


class StaticServer:
    """Serves a folder on this machine until it is closed."""

    def __init__(self, folder: Path, port: int = 0) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", port), partial(PlainFiles, directory=str(folder)))
        self.port = self._server.server_port
        self.url = f"http://localhost:{self.port}/"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture(scope="session")
def launch() -> Iterator[Callable[..., Browser]]:
    """Starts browsers beside the shared one, for tests that break theirs: `launch(flag, …, gpu=False)`."""
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("chromium is absent: install Debian's package of that name")
    with sync_playwright() as playwright:
        opened: list[Browser] = []

        def start(*more: str, gpu: bool = True) -> Browser:
            args = [*FLAGS, *(GPU if gpu else ()), *more]
            opened.append(playwright.chromium.launch(executable_path=path, args=args))
            return opened[-1]

        yield start
        for browser in opened:
            browser.close()


@pytest.fixture(scope="session")
def kill_gpu() -> Callable[[Browser], None]:
    """Ends the process of a browser that has the GPU, as a driver's crash does."""

    def kill(browser: Browser) -> None:
        session = browser.new_browser_cdp_session()
        processes = session.send("SystemInfo.getProcessInfo")["processInfo"]
        session.detach()
        (number,) = [process["id"] for process in processes if process["type"] == "GPU"]
        os.kill(number, signal.SIGKILL)

    return kill


@pytest.fixture(scope="session")
def browser(launch: Callable[..., Browser]) -> Browser:
    return launch()


@pytest.fixture(scope="session")
def static_server() -> Iterator[Callable[[Path], StaticServer]]:
    """Serves folders: `static_server(folder).url`."""
    servers: list[StaticServer] = []

    def serve(folder: Path) -> StaticServer:
        servers.append(StaticServer(folder))
        return servers[-1]

    yield serve
    for server in servers:
        server.close()


@pytest.fixture(scope="session")
def tiny_chat(tiny_llama: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model that chats, by the name tiny-chat."""
    path = tmp_path_factory.mktemp("models") / "tiny-chat.gguf"
    path.write_bytes(tiny_llama(vocabulary="gpt2", name="tiny chat").read_bytes())
    return path


@pytest.fixture(scope="session")
def make_bundle(tmp_path_factory: pytest.TempPathFactory) -> MakeBundle:
    """Builds a bundle of this checkout, with a blank page in it: `make_bundle(model, …, title=…)`."""

    def make(*models: Path, **options: Any) -> Path:
        folder = tmp_path_factory.mktemp("bundle") / "bundle"
        chosen = [choose(str(model), Store()) for model in models]
        build(folder, chosen, ROOT / "build" / "bundle-cache", pyodide_dir=ROOT / "build" / "pyodide", **options)
        (folder / BLANK).write_text('<!doctype html><title>blank</title><link rel="icon" href="data:,">')
        return folder

    return make


@pytest.fixture(scope="session")
def site(make_bundle: MakeBundle, tiny_chat: Path) -> Path:
    """A bundle with the model tiny-chat."""
    return make_bundle(tiny_chat)


@pytest.fixture(scope="session")
def site_url(site: Path, static_server: Callable[[Path], StaticServer]) -> str:
    """Where the site is served."""
    return static_server(site).url


@pytest.fixture(scope="session")
def open_page(browser: Browser) -> OpenPage:
    """The blank page of a site, with storage of its own; asking for anything beyond the site is an error.

    `with open_page(url) as page: …`, in another browser than the shared one as `open_page(url, browser)`.
    """

    @contextmanager
    def opened(url: str, within: Browser = browser) -> Iterator[Page]:
        context = within.new_context()
        asked: list[str] = []
        context.on("request", lambda request: asked.append(request.url))
        page = context.new_page()
        page.set_default_timeout(240_000)
        page.goto(url + BLANK)
        yield page
        context.close()
        assert [address for address in asked if not address.startswith((url, "data:", "blob:"))] == []

    return opened


@pytest.fixture
def page(open_page: OpenPage, site_url: str) -> Iterator[Page]:
    """The blank page of the site."""
    with open_page(site_url) as opened:
        yield opened
