"""Pages on a server of models, with storage of their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from .servers import ModelServer, Served
from .sources import DATA

WEB = Path(__file__).parents[3] / "web"


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(WEB) as made:
        made.files["m.gguf"] = Served(DATA)
        yield made


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """With storage of its own, and a twentieth of the time to wait for servers."""
    made = browser.new_context()
    made.add_init_script(
        "const wait = setTimeout; globalThis.setTimeout = (act, time) => wait(act, time < 400 ? time : time / 20);"
    )
    yield made
    made.close()


@pytest.fixture
def page(context: BrowserContext, server: ModelServer) -> Page:
    opened = context.new_page()
    opened.goto(server.url)
    return opened
