"""The service worker: everything offline, one version at a time, and nothing left behind."""

import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Error, Page

from tests.browser.conftest import PlainFiles
from wgpu_engine.bundle.page import precache
from wgpu_engine.resources import resource_dir

INDEX = """<!doctype html><title>{}</title><link rel="icon" href="data:,">
<script type="module" src="first.js"></script>"""
REGISTER = """
window.ready = navigator.serviceWorker.register("service-worker.js", { updateViaCache: "none" })
  .then(() => navigator.serviceWorker.ready);
"""
LOOK_OUT = """
import { keepOffline } from "./offline.js";
keepOffline().then((apply) => { window.apply = apply; });
const serviceWorkers = navigator.serviceWorker;
const register = serviceWorkers.register.bind(serviceWorkers);
window.registered = new Promise((done) => {
  serviceWorkers.register = (...all) => register(...all).then((found) => (done(true), found));
});
"""
STUB = resource_dir("web") / "precache.js"


@dataclass
class Site:
    """A folder like a bundle, of small files, and the server of it."""

    folder: Path
    port: int = 0
    asked: list[str] = field(default_factory=list)
    """paths, in the order in which they were asked for"""

    def write(self, version: str, registers: bool = True, **others: str) -> None:
        """Puts a version there, as `wgpu-engine bundle` would.

        Args:
            registers: whether the page starts the service worker at once; else as ours does, by and by.
            others: replaces files once hashes are taken.
        """
        files = {
            "index.html": INDEX.format(version),
            "first.js": (REGISTER if registers else LOOK_OUT) + f'window.first = "{version}";',
            "offline.js": (resource_dir("web") / "page" / "offline.js").read_text(),
            "second.js": f'export const second = "{version}";',
            "same.js": "export const same = true;",
            "pyodide/x.wasm": "\0asm",
        }
        contents = {path: text.encode() for path, text in files.items()}
        contents["service-worker.js"] = (resource_dir("web") / "service-worker.js").read_bytes()
        contents["precache.js"] = precache(contents)
        contents |= {f"{name}.js": text.encode() for name, text in others.items()}
        contents["models/m.gguf"] = version.encode()
        for path, data in contents.items():
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / path).write_bytes(data)

    def serve(self) -> None:
        asked = self.asked

        class Handler(PlainFiles):
            def do_GET(self) -> None:
                asked.append(self.path)
                super().do_GET()

        root = self.folder.parent
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), partial(Handler, directory=str(root)))
        self.port = self._server.server_port
        Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://localhost:{self.port}/{self.folder.name}/"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path / "root" / "app")
    made.write("one")
    made.serve()
    yield made
    made.stop()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    made = browser.new_context()
    made.set_default_timeout(120_000)
    yield made
    made.close()


def visit(context: BrowserContext, site: Site) -> Page:
    """A page whose service worker has everything."""
    page = context.new_page()
    page.goto(site.url)
    page.evaluate("() => window.ready.then(() => true)")
    return page


def second(page: Page) -> Any:
    """The version of a module that is loaded late, as the engine's worker is."""
    return page.evaluate("() => import('./second.js?' + Math.random()).then((module) => module.second)")


def find_update(page: Page, sound: bool = True) -> None:
    """Lets the browser look for a new version until it is installed, or, where it isn't sound, has failed to be.

    Browsers also look by themselves about a second after a page was loaded. One look at a time is taken: who asks for
    another meanwhile gets what the first one finds, which may be the host as it was before.
    """
    page.evaluate(
        """async (sound) => {
          const registration = await navigator.serviceWorker.ready;
          for (let tries = 0; tries < 100; tries += 1) {
            await registration.update().catch(() => {});
            const coming = registration.installing;
            if (coming) {
              await new Promise((done) => {
                const look = () => coming.state !== "installing" && done();
                coming.addEventListener("statechange", look);
                look();
              });
            }
            if (sound ? registration.waiting : coming?.state === "redundant") return;
            await new Promise((go) => setTimeout(go, 100));
          }
          throw new Error("no other version was found");
        }""",
        sound,
    )


def versions(page: Page) -> tuple[str, str, Any]:
    page.wait_for_function("() => window.first")
    return page.title(), page.evaluate("() => window.first"), second(page)


def arrive(page: Page, version: str) -> None:
    """Waits for a page that may load itself again meanwhile."""
    for _ in range(600):
        with suppress(Error):
            if page.evaluate("() => window.first") == version:
                return
        time.sleep(0.1)
    raise AssertionError(f"{version} didn't come: {page.content()}")


def caches_of(page: Page) -> list[str]:
    found: list[str] = page.evaluate("() => caches.keys()")
    return found


def test_comes_back_without_a_server(site: Site, context: BrowserContext) -> None:
    page = visit(context, site)
    listed = json.loads((site.folder / "precache.js").read_text().removeprefix("self.PRECACHE = ").rstrip(";\n"))
    (cache,) = caches_of(page)
    assert cache == f"wgpu-engine /app/ {listed['version']}"
    kept = page.evaluate(f"() => caches.open({cache!r}).then((cache) => cache.keys()).then((keys) => keys.length)")
    assert kept == len(listed["files"]) == 6
    site.stop()
    try:
        page.reload()
        assert versions(page) == ("one", "one", "one")
        page.goto(site.url + "index.html?model=m")
        assert versions(page) == ("one", "one", "one")
        types = page.evaluate(
            "() => Promise.all(['pyodide/x.wasm', 'first.js', './'].map((path) => "
            "fetch(path).then((response) => response.headers.get('Content-Type'))))"
        )
        assert types == ["application/wasm", "text/javascript", "text/html; charset=utf-8"]
        assert page.evaluate("() => fetch('models/m.gguf').catch(() => 'gone')") == "gone"
    finally:
        site.serve()


def test_models_are_left_to_the_engine(site: Site, context: BrowserContext) -> None:
    page = visit(context, site)
    page.reload()
    site.asked.clear()
    assert page.evaluate("() => fetch('models/m.gguf').then((response) => response.text())") == "one"
    assert site.asked == ["/app/models/m.gguf"]
    page.evaluate("() => fetch('first.js')")
    assert site.asked == ["/app/models/m.gguf"]


def test_a_new_version_comes_whole_with_the_next_load(site: Site, context: BrowserContext) -> None:
    page = visit(context, site)
    page.reload()
    site.write("two")
    site.asked.clear()
    find_update(page)
    # it is there, but the page that runs goes on with its own version
    assert page.evaluate("() => navigator.serviceWorker.ready.then((found) => Boolean(found.waiting))")
    assert second(page) == "one"
    assert "/app/first.js" in site.asked and "/app/same.js" not in site.asked
    page.reload()
    arrive(page, "two")
    assert versions(page) == ("two", "two", "two")
    (cache,) = caches_of(page)
    assert json.dumps(cache.split()[-1]) in (site.folder / "precache.js").read_text()


def test_the_page_offers_the_new_version_for_all_tabs(site: Site, context: BrowserContext) -> None:
    site.write("one", registers=False)
    pages = [context.new_page(), context.new_page()]
    for page in pages:
        page.goto(site.url)
        page.evaluate("() => window.registered")
        page.wait_for_function("() => navigator.serviceWorker.controller")
    site.write("two", registers=False)
    find_update(pages[0])
    pages[0].wait_for_function("() => window.apply")
    # the other tab still needs the old one
    pages[1].reload()
    assert versions(pages[1]) == ("one", "one", "one")
    pages[0].evaluate("() => window.apply()")
    for page in pages:
        arrive(page, "two")
        assert versions(page) == ("two", "two", "two")


@pytest.mark.parametrize("server_stays", [True, False])
def test_a_half_changed_host_changes_nothing(site: Site, context: BrowserContext, server_stays: bool) -> None:
    page = visit(context, site)
    page.reload()
    site.write("two", second='export const second = "three";')
    find_update(page, sound=False)
    if not server_stays:
        site.stop()
    page.reload()
    assert versions(page) == ("one", "one", "one")
    if not server_stays:
        site.serve()
    # once the host is whole again, so is the update
    site.write("two")
    find_update(page)
    page.reload()
    arrive(page, "two")
    assert versions(page) == ("two", "two", "two")


def test_a_host_that_is_half_changed_at_the_first_visit(site: Site, context: BrowserContext) -> None:
    site.write("one", second='export const second = "three";')
    page = context.new_page()
    page.goto(site.url)
    failed = page.evaluate(
        """async () => {
          const registration = await navigator.serviceWorker.getRegistration();
          const coming = registration?.installing;
          if (coming) await new Promise((done) => coming.addEventListener("statechange", done));
          return coming?.state ?? "redundant";
        }"""
    )
    assert failed == "redundant"
    site.write("one")
    page.reload()
    page.evaluate("() => window.ready.then(() => true)")
    site.stop()
    try:
        page.reload()
        assert versions(page) == ("one", "one", "one")
    finally:
        site.serve()


def test_a_file_that_the_browser_dropped_is_fetched_again(site: Site, context: BrowserContext) -> None:
    page = visit(context, site)
    page.reload()
    digest = hashlib.sha256((site.folder / "second.js").read_bytes()).hexdigest()
    drop = f"async () => (await caches.open((await caches.keys())[0])).delete('precached/{digest}')"
    assert page.evaluate(drop)
    assert second(page) == "one"
    assert page.evaluate(drop)  # it was kept again
    (site.folder / "second.js").write_text('export const second = "two";')
    assert page.evaluate("() => import('./second.js?x').catch(() => 'refused')") == "refused"


def test_leaves_for_good_where_there_is_no_bundle_any_more(site: Site, context: BrowserContext) -> None:
    page = visit(context, site)
    page.reload()
    (site.folder / "precache.js").write_bytes(STUB.read_bytes())
    (site.folder / "first.js").write_text('window.first = "served";')
    with page.expect_navigation():
        find_update_and_forget(page)
    arrive(page, "served")
    assert caches_of(page) == []
    assert page.evaluate("() => navigator.serviceWorker.getRegistrations().then((found) => found.length)") == 0


def find_update_and_forget(page: Page) -> None:
    look = "navigator.serviceWorker.ready.then((registration) => registration.update()).catch(() => {})"
    page.evaluate(f"() => {{ setInterval(() => {look}, 300); }}")


def test_other_pages_of_the_same_host_keep_theirs(site: Site, context: BrowserContext) -> None:
    other = Site(site.folder.parent / "app2", site.port)
    other.write("other")
    visit(context, other)
    page = visit(context, site)
    page.reload()
    site.write("two")
    find_update(page)
    page.reload()
    arrive(page, "two")
    names = {name.rpartition(" ")[0] for name in caches_of(page)}
    assert names == {"wgpu-engine /app/", "wgpu-engine /app2/"}
