"""The page that a server gives out, over its API: a real server in a process of its own."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.page.conftest import Visit, VisitFactory, answers, message_field, send
from tests.server.conftest import Program, running

KEY = "geheimer Schlüssel"


@pytest.fixture(scope="module")
def server(conformance: Path, home: Path) -> Iterator[Program]:
    model = conformance / "logits" / "stories260K.gguf"
    options = ("--port", "0", "--slots", "2", "--ctx-size", "256", "--alias", "stories", "--precision", "exact")
    with running(str(model), *options, WGPU_ENGINE_API_KEY=KEY) as program:
        yield program


@pytest.fixture
def visit(server: Program, make_visit: VisitFactory) -> Visit:
    return make_visit(url=server.url.replace("127.0.0.1", "localhost") + "/")


def enter(visit: Visit) -> Page:
    """The page behind its key; the browser notes the 401 before it."""
    visit.tolerates += ("401",)
    page = visit.open()
    page.get_by_label("API key").fill(KEY)
    page.get_by_role("button", name="Use this key").click()
    expect(message_field(page)).to_be_visible()
    return page


def greedy(page: Page, longest: int) -> None:
    page.get_by_role("button", name="Settings").click()
    page.get_by_label("Temperature", exact=True).fill("0")
    page.get_by_label("Longest answer").fill(str(longest))
    page.keyboard.press("Escape")


def test_it_asks_for_the_key(visit: Visit) -> None:
    visit.tolerates = ("401",)
    page = visit.open()
    expect(page.locator(".error-card[data-kind=key]")).to_be_visible()
    page.get_by_label("API key").fill("wrong")
    page.get_by_role("button", name="Use this key").click()
    expect(page.locator(".error-card")).to_contain_text("was not accepted")
    page.get_by_label("API key").fill(KEY)
    page.get_by_role("button", name="Use this key").click()
    expect(message_field(page)).to_be_visible()
    page.reload()
    expect(message_field(page)).to_be_visible()


def test_a_text_is_continued(visit: Visit, conformance: Path) -> None:
    expected = json.loads((conformance / "logits" / "stories260K.llamacpp.json").read_text())
    page = enter(visit)
    expect(page.locator(".model-name")).to_have_text("stories")
    expect(page.get_by_role("heading", name="Begin a text")).to_be_visible()
    greedy(page, 24)
    send(page, "Once upon a time")
    told = answers(page).locator(".message-body").inner_text()
    assert len(told) > 40 and "Once upon a time" + told[:40] in str(expected).replace("\\n", "\n"), told
    expect(answers(page).locator(".figures")).to_contain_text("tokens/s")
    expect(answers(page).locator(".figures")).to_contain_text("24 tokens")
    expect(answers(page).locator(".note")).to_contain_text("Cut off")
    expect(page.locator(".room")).to_contain_text("/ 256")


def test_stopping_frees_the_server(visit: Visit, server: Program) -> None:
    page = enter(visit)
    greedy(page, 240)
    send(page, "Once", wait=False)
    page.keyboard.press("Escape")
    expect(page.locator(".message.running")).to_have_count(0)
    expect(page.locator(".figures", has_text="240 tokens")).to_have_count(0)
    page.wait_for_timeout(500)
    slots = page.evaluate(
        "key => fetch('/slots', {headers: {'x-api-key': key}}).then((answer) => answer.json())",
        "".join(map(chr, KEY.encode())),
    )
    assert not any(slot["is_processing"] for slot in slots)


def test_errors_are_the_servers_sentences(visit: Visit) -> None:
    page = enter(visit)
    visit.tolerates += ("400",)
    send(page, "word " * 400, wait=False)
    expect(page.locator(".error-card[data-kind=too_long]")).to_contain_text("256 are the most")


def sse(*events: object) -> str:
    return "".join(f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n" for event in events)


def answering(**answer: Any) -> Callable[[Route], None]:
    return lambda route: route.fulfill(**answer)


HALF = {"choices": [{"text": "Half", "finish_reason": None}]}
BROKEN_STREAMS = [
    (sse(HALF), "network", "broke off"),
    (sse(HALF, {"error": {"message": "the device was lost: try again", "code": "device"}}), "device", "try again."),
    (sse(HALF, "not JSON"), "network", "broke off"),
]


def test_streams_that_break_keep_their_text(visit: Visit) -> None:
    page = enter(visit)
    greedy(page, 5)
    for body, kind, words in BROKEN_STREAMS:
        page.route("**/v1/completions", answering(body=body, headers={"Content-Type": "text/event-stream"}))
        send(page, "Hello", wait=False)
        expect(page.locator(f".error-card[data-kind={kind}]")).to_contain_text(words)
        expect(answers(page)).to_contain_text("Half")
        expect(answers(page).locator(".note")).to_have_text("Interrupted")
        page.unroute("**/v1/completions")
        page.get_by_role("button", name="Try again").click()
        expect(answers(page).locator(".figures")).to_be_visible()
        expect(page.locator(".error-card")).to_have_count(0)
        page.get_by_role("button", name="New chat").click()


def test_statuses_have_words_of_their_own(visit: Visit) -> None:
    page = enter(visit)
    for status, kind in ((503, "busy"), (429, "busy"), (500, "server"), (502, "server"), (404, "request")):
        visit.tolerates += (str(status),)
        page.route("**/v1/completions", answering(status=status, body="<html>"))
        send(page, "Hello", wait=False)
        expect(page.locator(f".error-card[data-kind={kind}]")).to_be_visible()
        page.unroute("**/v1/completions")
        page.get_by_role("button", name="New chat").click()


def test_a_server_that_is_gone(visit: Visit) -> None:
    page = enter(visit)
    visit.tolerates += ("ERR_FAILED",)
    page.route("**/v1/completions", lambda route: route.abort())
    send(page, "Hello", wait=False)
    expect(page.locator(".error-card[data-kind=network]")).to_contain_text("check that it still runs")


def test_pieces_of_events(visit: Visit) -> None:
    visit.tolerates = ("401",)
    page = visit.open()
    found = page.evaluate(
        """async () => {
          const { events } = await import("/page/sse.js");
          const text = ": ping\\r\\n\\r\\ndata: {\\"a\\":\\r\\ndata: 1}\\r\\n\\r\\n" +
            "event: x\\ndata:no space\\n\\rdata: \\u{1F600}\\n\\ndata: cut";
          const bytes = new TextEncoder().encode(text);
          const results = [];
          for (const size of [1, 2, 3, 7, 1000]) {
            const stream = new ReadableStream({
              start(controller) {
                for (let at = 0; at < bytes.length; at += size) controller.enqueue(bytes.slice(at, at + size));
                controller.close();
              },
            });
            const found = [];
            for await (const data of events(stream)) found.push(data);
            results.push(found);
          }
          return results;
        }"""
    )
    assert found == [['{"a":\n1}', "no space", "\U0001f600"]] * 5
