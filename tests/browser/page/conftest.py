"""The page over a stand-in for the engine, in a browser with nothing in its storage."""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Error, Locator, Page, expect

from tests.browser.conftest import ROOT, StaticServer

WEB = ROOT / "web"
AXE = ROOT / "build" / "web-tests" / "axe.min.js"
MODEL = {
    "id": "fake",
    "title": "Fake 135M",
    "bytes": 98_000_000,
    "memory_bytes": 210_000_000,
    "license": "Apache-2.0",
    "files": [{"path": "models/fake/fake.gguf", "bytes": 98_000_000, "sha256": "ab" * 32, "parts": []}],
}
BUNDLE = {"engine": "browser", "version": "0.1.0", "title": "Test page", "kiosk": None, "models": [MODEL]}

expect.set_options(timeout=30_000)


@pytest.fixture(scope="session")
def fake_site(tmp_path_factory: pytest.TempPathFactory, static_server: Callable[[Path], StaticServer]) -> str:
    """The address of the page as in a bundle, with a stand-in for the engine."""
    if not (WEB / "vendor" / "marked.js").is_file():
        pytest.fail("web/vendor is missing: run `make web`")
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(WEB, folder, dirs_exist_ok=True)
    stand_in = Path(__file__).with_name("fake_engine.js").read_text()
    (folder / "engine").mkdir(exist_ok=True)
    (folder / "engine" / "engine.js").write_text(stand_in)
    exports = ", ".join(("listCached", "removeCached", "storageEstimate", "askToPersist"))
    (folder / "engine" / "cache.js").write_text(f'export {{ {exports} }} from "./engine.js";\n')
    (folder / "bundle.json").write_text(json.dumps(BUNDLE))
    return static_server(folder).url


@dataclass
class Visit:
    """One visitor's browser: opens pages, and knows what they complained of."""

    context: BrowserContext
    url: str
    complaints: list[str] = field(default_factory=list)
    bundle: dict[str, Any] = field(default_factory=dict)
    tolerates: tuple[str, ...] = ()
    """parts of complaints that a test provokes"""

    def open(self, path: str = "", **fake: Any) -> Page:
        """A page whose stand-in for the engine has these settings."""
        page = self.context.new_page()
        page.set_default_timeout(30_000)
        page.on("console", lambda message: self._note(message.type, message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.add_init_script(f"globalThis.fakeSettings = {json.dumps(fake)}")
        if self.bundle:
            page.route("**/bundle.json", lambda route: route.fulfill(json=BUNDLE | self.bundle))
        page.goto(self.url + path)
        return page

    def chat(self, **fake: Any) -> Page:
        """A page with its model loaded."""
        page = self.open(**fake)
        page.get_by_role("button", name="Load Fake 135M").click()
        expect(message_field(page)).to_be_visible()
        return page

    def _note(self, kind: str, text: str) -> None:
        if kind in ("error", "warning") and "blocked by Playwright" not in text:
            self.complaints.append(text)


VisitFactory = Callable[..., Visit]


@pytest.fixture
def make_visit(browser: Browser, fake_site: str) -> Iterator[VisitFactory]:
    """`make_visit(viewport={"width": 390, "height": 844})`: a visitor; any complaint of the browser fails the test."""
    made: list[Visit] = []

    def make(url: str = fake_site, bundle: dict[str, Any] | None = None, **options: Any) -> Visit:
        context = browser.new_context(service_workers="block", **({"reduced_motion": "reduce"} | options))
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        origin = url.rstrip("/").partition("://")[2]
        outside: list[str] = []
        context.on("request", lambda request: origin in request.url or outside.append(request.url))
        visit = Visit(context, url, outside, bundle or {})
        made.append(visit)
        return visit

    yield make
    for visit in made:
        visit.context.close()
        harmless = ("blob:", "data:", *visit.tolerates)
        found = [text for text in visit.complaints if not any(part in text for part in harmless)]
        assert not found, found


@pytest.fixture
def visit(make_visit: VisitFactory) -> Visit:
    return make_visit()


def message_field(page: Page) -> Locator:
    return page.get_by_role("textbox", name="Message", exact=True)


def answers(page: Page) -> Locator:
    return page.locator(".message.assistant")


def delete(page: Page, title: str) -> None:
    """Deletes a conversation, as the sidebar lets one."""
    page.get_by_role("button", name=f"More for “{title}”").click()
    page.get_by_role("menuitem", name="Delete").click()
    page.get_by_role("button", name="Delete", exact=True).click()


def rename(page: Page, title: str, name: str) -> None:
    """Gives a conversation another name, as the sidebar lets one."""
    page.get_by_role("button", name=f"More for “{title}”").click()
    page.get_by_role("menuitem", name="Rename").click()
    page.get_by_label("Title").fill(name)
    page.get_by_role("button", name="Save").click()


def send(page: Page, text: str, *, wait: bool = True) -> None:
    """Sends a message and waits for the end of its answer."""
    message_field(page).fill(text)
    page.keyboard.press("Enter")
    if wait:
        expect(page.locator(".message.assistant").last).to_be_visible()
        expect(page.locator(".message.running")).to_have_count(0)


def eventually(page: Page, expression: str, patience_s: float = 30) -> None:
    """Waits until an expression is true; Playwright's own way evaluates text in the page, which its policy forbids."""
    end = time.monotonic() + patience_s
    while time.monotonic() < end:
        # a page that is being loaded has nothing to evaluate in
        with suppress(Error):
            if page.evaluate(expression):
                return
        page.wait_for_timeout(50)
    raise AssertionError(expression)


def violations(page: Page) -> list[str]:
    """What axe-core finds wrong for people who use assistive technology."""
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run({resultTypes: ['violations']})")
    return [f"{each['id']}: {node['html'][:200]}" for each in found["violations"] for node in each["nodes"]]


def asked(page: Page) -> list[dict[str, Any]]:
    """What the engine was asked."""
    found: list[dict[str, Any]] = page.evaluate("fake.requests")
    return found


def texts(page: Page) -> list[str]:
    """What the messages say."""
    return page.locator(".message .message-body").all_inner_texts()


def error_card(page: Page, kind: str) -> None:
    """Waits for an error of this kind."""
    expect(page.locator(f".error-card[data-kind={kind}]")).to_be_visible()
