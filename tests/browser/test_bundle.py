"""A bundle as visitors have it: from a plain static server, with nothing else in reach, and then without any server."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import FLAGS, ROOT, StaticServer

NO_OTHER_HOST = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost"
SLOW_MS = 240_000


@pytest.fixture(scope="module")
def alone(launch: Callable[..., Browser]) -> Browser:
    """A browser that reaches nothing but this machine."""
    return launch(*FLAGS, NO_OTHER_HOST)


@contextmanager
def visit(browser: Browser, url: str) -> Iterator[Page]:
    """A page of a new visitor; other hosts that are asked for, and what the browser complains of, are errors."""
    context = browser.new_context()
    asked: list[str] = []
    complaints: list[str] = []
    context.on("request", lambda request: asked.append(request.url))
    context.on("console", lambda message: message.type == "error" and complaints.append(message.text))
    context.on("weberror", lambda error: complaints.append(str(error.error)))
    page = context.new_page()
    page.set_default_timeout(SLOW_MS)
    yield page
    context.close()
    assert [address for address in asked if not address.startswith((url, "data:", "blob:"))] == []
    assert complaints == []


def load(page: Page, title: str) -> None:
    page.get_by_role("button", name=f"Load {title}").click()
    expect(page.get_by_role("textbox", name="Message", exact=True)).to_be_visible(timeout=SLOW_MS)


def ask(page: Page, text: str) -> str:
    page.get_by_role("textbox", name="Message", exact=True).fill(text)
    page.keyboard.press("Enter")
    return answered(page)


def answered(page: Page) -> str:
    """The last answer, once it is there."""
    expect(page.locator(".message.assistant .figures").last).to_be_visible(timeout=SLOW_MS)
    expect(page.locator(".message.running")).to_have_count(0, timeout=SLOW_MS)
    return page.locator(".message.assistant .message-body").last.inner_text()


def set_up(page: Page, longest: int) -> None:
    page.get_by_role("button", name="Settings").click()
    page.get_by_label("Longest answer", exact=True).fill(str(longest))
    page.get_by_label("Temperature", exact=True).fill("0")
    page.keyboard.press("Escape")


def go_through(browser: Browser, folder: Path, title: str, longest: int) -> None:
    """Loads, chats, stops, asks again, loads the page again, and does it all once more without the server."""
    server = StaticServer(folder)
    with visit(browser, server.url) as page:
        page.goto(server.url)
        set_up(page, longest)
        load(page, title)
        first = ask(page, "Hello there")
        assert first.strip()
        page.get_by_role("button", name="Another answer").click()
        expect(page.get_by_role("group", name="Versions")).to_contain_text("2/2", timeout=SLOW_MS)
        assert answered(page) == first

        set_up(page, 1000)
        page.get_by_role("textbox", name="Message", exact=True).fill("Tell me everything")
        page.keyboard.press("Enter")
        expect(page.locator(".message.assistant").nth(1)).to_be_visible(timeout=SLOW_MS)
        page.get_by_role("button", name="Stop").click()
        expect(page.locator(".message.running")).to_have_count(0, timeout=SLOW_MS)
        set_up(page, longest)

        page.evaluate("() => navigator.serviceWorker.ready.then(() => true)")
        page.reload()
        expect(page.get_by_text("kept in this browser").first).to_be_visible()
        load(page, title)
        assert ask(page, "Hello there") == first

        server.close()
        page.reload()
        load(page, title)
        assert ask(page, "Hello there") == first


@pytest.mark.timeout(600)
def test_the_page_with_and_without_a_server(alone: Browser, site: Path) -> None:
    go_through(alone, site, "tiny chat", 12)


def test_the_page_offers_its_new_version(alone: Browser, make_bundle: Callable[..., Path], tmp_path: Path) -> None:
    folder = tmp_path / "served"
    shutil.copytree(make_bundle(title="Old"), folder)
    server = StaticServer(folder)
    with visit(alone, server.url) as page:
        page.goto(server.url)
        expect(page).to_have_title("Old")
        page.wait_for_function("() => navigator.serviceWorker.controller")
        shutil.rmtree(folder)
        shutil.copytree(make_bundle(title="New"), folder)
        offer = page.get_by_role("button", name="Update")
        expect(offer).to_be_hidden()
        page.evaluate("() => navigator.serviceWorker.ready.then((registration) => { registration.update(); })")
        offer.click()
        expect(page).to_have_title("New", timeout=SLOW_MS)
        expect(page.get_by_role("heading", name="Choose a model")).to_be_visible()
    server.close()


def test_the_page_can_be_installed(alone: Browser, site: Path) -> None:
    server = StaticServer(site)
    with visit(alone, server.url) as page:
        page.goto(server.url)
        chromium = page.context.new_cdp_session(page)
        manifest = chromium.send("Page.getAppManifest")
        assert manifest["url"] == server.url + "manifest.webmanifest" and not manifest["errors"]
        errors = {error["errorId"] for error in chromium.send("Page.getInstallabilityErrors")["installabilityErrors"]}
        assert errors <= {"in-incognito"}
        for icon in json.loads(manifest["data"])["icons"]:
            size = page.evaluate(
                """async (src) => {
                  const image = Object.assign(new Image(), { src });
                  await image.decode();
                  return `${image.naturalWidth}x${image.naturalHeight}`;
                }""",
                icon["src"],
            )
            assert icon["sizes"] in (size, "any")
    server.close()


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.timeout(1200)
def test_the_page_with_the_default_model(alone: Browser, make_bundle: Callable[..., Path], smollm2: Path) -> None:
    go_through(alone, make_bundle(smollm2), "SmolLM2", 8)


@pytest.mark.slow
def test_a_model_that_changed_on_the_host_is_told_apart(
    alone: Browser, make_bundle: Callable[..., Path], tiny_chat: Path, tiny_llama: Any, tmp_path: Path
) -> None:
    """The new version of a bundle loads its own model, not what the browser kept of the old one."""
    folder = tmp_path / "served"
    shutil.copytree(make_bundle(tiny_chat, title="Old"), folder)
    server = StaticServer(folder)
    with visit(alone, server.url) as page:
        page.goto(server.url)
        set_up(page, 8)
        load(page, "tiny chat")
        first = ask(page, "Hello there")
        page.evaluate("() => navigator.serviceWorker.ready.then(() => true)")
        changed = tmp_path / "tiny-chat.gguf"
        changed.write_bytes(tiny_llama(vocabulary="gpt2", name="tiny chat", seed=7).read_bytes())
        new = make_bundle(changed, title="New")
        shutil.rmtree(folder)
        shutil.copytree(new, folder)
        page.evaluate(
            """async () => {
              const registration = await navigator.serviceWorker.ready;
              await registration.update();
              while (!registration.waiting) await new Promise((go) => setTimeout(go, 100));
            }"""
        )
        page.goto("about:blank")
        page.goto(server.url)
        expect(page).to_have_title("New")
        load(page, "tiny chat")
        assert ask(page, "Hello there") != first
    server.close()


def test_the_smallest_page(alone: Browser, make_bundle: Callable[..., Path], tiny_llama: Any, tmp_path: Path) -> None:
    """With a model in several files."""
    example = ROOT / "examples" / "browser" / "hello.html"
    assert len(example.read_text().splitlines()) < 40
    site = make_bundle(tiny_llama(vocabulary="gpt2", name="Split", tensors_per_part=8))
    assert len(list((site / "models").rglob("*.gguf"))) > 1
    shutil.copy(example, tmp_path)
    (tmp_path / "site").symlink_to(site, target_is_directory=True)
    server = StaticServer(tmp_path)
    with visit(alone, server.url) as page:
        page.goto(server.url + "hello.html")
        expect(page.get_by_role("status")).to_contain_text("Split on ", timeout=SLOW_MS)
        button = page.get_by_role("button", name="Go on")
        button.click()
        expect(button).to_be_enabled(timeout=SLOW_MS)
        story = page.locator("#text").inner_text()
        assert story.startswith("Once upon a time") and len(story) > 30
    server.close()
