"""The kiosk of examples/kiosk: the command lines of its units run here, without a screen."""

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserType, Page, expect

from tests.browser.conftest import ROOT
from wgpu_engine.bundle.folder import Kiosk

UNITS = ROOT / "examples" / "kiosk"
SITE, SCREEN = "wgpu-engine-site.service", "wgpu-engine-kiosk.service"
IDLE_RESET_S = 12
SLOW_MS = 240_000


def command(unit: str) -> list[str]:
    """The program that a unit starts, with its arguments."""
    text = (UNITS / unit).read_text().replace("\\\n", " ")
    (line,) = re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE)
    return shlex.split(line)


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


@contextmanager
def running(arguments: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A program, ended with all that it started."""
    program = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        yield program
    finally:
        os.killpg(program.pid, signal.SIGTERM)
        try:
            program.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(program.pid, signal.SIGKILL)
            program.wait(10)


@contextmanager
def site_unit(folder: Path, port: int) -> Iterator[None]:
    """What serves the files."""
    arguments = [word.replace("/srv/kiosk", str(folder)).replace("8642", str(port)) for word in command(SITE)]
    with running(arguments):
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield


@contextmanager
def screen_unit(profile: Path, port: int, chromium: BrowserType) -> Iterator[tuple[Browser, Page]]:
    """What shows them: the unit's browser with its flags, but for the screen and the sandbox, which root can't have."""
    words = command(SCREEN)
    assert words[:3] == ["/usr/bin/cage", "-s", "--"]
    flags = [
        word.replace("/var/lib/wgpu-engine-kiosk", str(profile)).replace("8642", str(port))
        for word in words[3:]
        if word != "--ozone-platform=wayland"
    ]
    (profile / "DevToolsActivePort").unlink(missing_ok=True)
    here = ["--headless=new", "--no-sandbox", "--use-webgpu-adapter=swiftshader", "--remote-debugging-port=0"]
    with running([flags[0], *here, *flags[1:]]):
        for _ in range(900):
            if (profile / "DevToolsActivePort").exists():
                break
            time.sleep(0.1)
        debugging = (profile / "DevToolsActivePort").read_text().split()[0]
        browser = chromium.connect_over_cdp(f"http://127.0.0.1:{debugging}")
        (page,) = browser.contexts[0].pages
        page.set_default_timeout(SLOW_MS)
        yield browser, page
        browser.close()


def ask(page: Page, text: str, to_the_end: bool = True) -> None:
    field = page.get_by_role("textbox", name="Message", exact=True)
    expect(field).to_be_visible(timeout=SLOW_MS)
    field.fill(text)
    page.keyboard.press("Enter")
    expect(page.locator(".message.assistant").last).to_be_visible(timeout=SLOW_MS)
    if to_the_end:
        expect(page.locator(".message.running")).to_have_count(0, timeout=SLOW_MS)


@pytest.mark.timeout(600)
def test_a_kiosk_by_its_units(
    make_bundle: Callable[..., Path],
    tiny_chat: Path,
    browser: Browser,
    kill_gpu: Callable[[Browser], None],
    tmp_path: Path,
) -> None:
    """It loads by itself, forgets who was there, survives its GPU's driver, and starts without network."""
    kiosk = Kiosk("Museum guide", "You are the guide of a museum.", IDLE_RESET_S)
    folder, profile, port = make_bundle(tiny_chat, kiosk=kiosk), tmp_path / "profile", free_port()
    profile.mkdir()
    with site_unit(folder, port), screen_unit(profile, port, browser.browser_type) as (kiosk_browser, page):
        assert page.url == f"http://localhost:{port}/"
        ask(page, "Hello", to_the_end=False)
        expect(page.get_by_role("heading", name="Museum guide")).to_be_visible()
        assert page.get_by_role("button", name="Settings").count() == 0
        assert page.locator("a[href]:visible").count() == 0
        # nobody is there any more, perhaps not even for a slow answer's end
        expect(page.get_by_text("Clearing the conversation in")).to_be_visible(timeout=SLOW_MS)
        expect(page.locator(".message")).to_have_count(0, timeout=SLOW_MS)
        kill_gpu(kiosk_browser)
        expect(page.get_by_text("One moment, please")).to_be_visible(timeout=SLOW_MS)
        ask(page, "Are you there?")
        page.evaluate("() => navigator.serviceWorker.ready.then(() => true)")
    # power comes back, but the server of the files doesn't
    with screen_unit(profile, port, browser.browser_type) as (_, page):
        ask(page, "And now?")
        assert page.title() == "Museum guide"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    """With a stand-in for the compositor, which need not be installed here."""
    for name in (SITE, SCREEN):
        text = (UNITS / name).read_text()
        (tmp_path / name).write_text(text.replace("/usr/bin/cage", "/bin/sh").replace("/usr/bin/chromium", "/bin/sh"))
    run = subprocess.run(
        ["systemd-analyze", "verify", *(str(tmp_path / name) for name in (SITE, SCREEN))],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (run.returncode, run.stderr) == (0, "")


def test_the_readme_names_what_the_units_need() -> None:
    readme = (UNITS / "README.md").read_text()
    for needed in ("/srv/kiosk", "useradd", "cage", "chromium", SITE, SCREEN):
        assert needed in readme
