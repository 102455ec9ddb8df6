"""Takes the pictures of the page in docs/screenshots: a bundle with SmolLM2 in headless Chromium.

Usage: make screenshots. It takes a few minutes where there is no GPU.
"""

import sys
import tempfile
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, expect, sync_playwright

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from wgpu_engine.bundle.folder import build  # noqa: E402
from wgpu_engine.bundle.models import choose  # noqa: E402
from wgpu_engine.files.store import Store  # noqa: E402

OUT = ROOT / "docs" / "screenshots"
FLAGS = (
    "--no-sandbox",
    "--enable-unsafe-webgpu",
    "--use-webgpu-adapter=swiftshader",
    "--disable-background-networking",
)
DESKTOP: dict[str, Any] = {"viewport": {"width": 1280, "height": 800}}
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
LOOKS = {
    "desktop-light": DESKTOP | {"color_scheme": "light"},
    "desktop-dark": DESKTOP | {"color_scheme": "dark"},
    "phone-light": PHONE | {"color_scheme": "light"},
    "phone-dark": PHONE | {"color_scheme": "dark"},
}
FEW = ("desktop-light", "phone-dark")
WITHOUT_WEBGPU = "Object.defineProperty(Navigator.prototype, 'gpu', {get: () => undefined})"
QUESTION = "Write a Python function that tells whether a word is a palindrome."
SECOND = "Give me three tips for sleeping better."
SLOW_MS = 400_000


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


def shoot(page: Page, name: str) -> None:
    page.screenshot(path=OUT / f"{name}.png", animations="disabled")
    print(f"{name}.png: {(OUT / f'{name}.png').stat().st_size // 1000} kB", file=sys.stderr)


def in_looks(page: Page, name: str, *looks: str) -> None:
    """Pictures of what a page shows, which stays as it is."""
    for look in looks:
        options = LOOKS[look]
        page.emulate_media(color_scheme=options["color_scheme"])
        page.set_viewport_size(options["viewport"])
        if options["viewport"]["width"] < 860:
            page.evaluate("document.querySelector('.with-sidebar') && document.querySelector('.top button').click()")
        page.wait_for_timeout(400)
        shoot(page, f"{name}-{look}")


def visit(browser: Browser, url: str, script: str = "") -> Page:
    page = browser.new_context(**LOOKS["desktop-light"], reduced_motion="reduce").new_page()
    page.set_default_timeout(SLOW_MS)
    page.add_init_script(script)
    page.goto(url)
    return page


def take(browser: Browser, url: str) -> None:
    page = visit(browser, url, WITHOUT_WEBGPU)
    expect(page.locator(".error-card")).to_be_visible()
    in_looks(page, "error", *FEW)
    page = visit(browser, url)
    expect(page.locator(".card")).to_be_visible()
    in_looks(page, "start", *FEW)
    page.get_by_role("button", name="Settings").click()
    in_looks(page, "settings", *FEW)
    page.get_by_label("Temperature", exact=True).fill("0")
    page.keyboard.press("Escape")
    page.set_viewport_size(DESKTOP["viewport"])
    page.get_by_role("button", name="Load SmolLM2").click()
    expect(page.locator(".stages", has_text="Moving weights")).to_be_visible(timeout=SLOW_MS)
    in_looks(page, "loading", *FEW)
    page.set_viewport_size(DESKTOP["viewport"])
    field = page.get_by_role("textbox", name="Message", exact=True)
    expect(field).to_be_visible(timeout=SLOW_MS)
    for text in (SECOND, QUESTION):
        page.evaluate("document.querySelector('.with-sidebar') ?? document.querySelector('.top button').click()")
        page.get_by_role("button", name="New chat").click()
        field.fill(text)
        page.keyboard.press("Enter")
        expect(page.locator(".message.assistant .figures")).to_be_visible(timeout=SLOW_MS)
    page.mouse.move(5, DESKTOP["viewport"]["height"] - 10)
    in_looks(page, "chat", *LOOKS)


def main() -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        models = [choose("smollm2", Store())]
        build(Path(folder) / "site", models, ROOT / "build" / "bundle-cache", pyodide_dir=ROOT / "build" / "pyodide")
        handler = partial(_Quiet, directory=f"{folder}/site")
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=[*FLAGS])
            take(browser, f"http://localhost:{server.server_port}/")
            browser.close()
        server.shutdown()


if __name__ == "__main__":
    main()
