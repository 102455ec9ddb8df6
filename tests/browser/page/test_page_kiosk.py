"""The kiosk: one model, nothing to set, and nothing kept."""

from typing import Any

from playwright.sync_api import Page, expect

from tests.browser.page.conftest import Visit, VisitFactory, answers, eventually, message_field, send

KIOSK = {"title": "Ask the museum", "system_prompt": "You know the museum.", "idle_reset_s": 12}


def opened(make_visit: VisitFactory, **fake: Any) -> tuple[Visit, Page]:
    visit = make_visit(bundle={"kiosk": KIOSK})
    page = visit.open(**fake)
    return visit, page


def test_it_loads_by_itself_and_has_nothing_to_set(make_visit: VisitFactory) -> None:
    _, page = opened(make_visit, answers=["See [the plan](https://example.com)."])
    expect(message_field(page)).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_have_text("Ask the museum")
    assert page.title() == "Ask the museum"
    send(page, "Hello")
    assert page.evaluate("fake.requests[0].messages[0]") == {"role": "system", "content": "You know the museum."}
    expect(answers(page)).to_contain_text("See the plan.")
    for nothing in ("Settings", "Conversations", "Edit message", "Another answer", "Choose a file"):
        expect(page.get_by_role("button", name=nothing)).to_have_count(0)
    expect(page.locator("a, nav")).to_have_count(0)


def test_it_clears_the_conversation_when_nobody_is_there(make_visit: VisitFactory) -> None:
    visit, page = opened(make_visit)
    send(page, "My secret")
    expect(page.locator(".countdown")).to_contain_text("Touch the screen to go on")
    page.mouse.click(300, 300)
    expect(page.locator(".countdown")).to_be_hidden()
    expect(answers(page)).to_have_count(1)
    expect(page.locator(".message")).to_have_count(0, timeout=30_000)
    expect(page.locator(".countdown")).to_be_hidden()
    assert "My secret" not in page.content()
    page.reload()
    expect(message_field(page)).to_be_visible()
    assert "My secret" not in page.content()
    again = visit.open()
    assert again.evaluate("indexedDB.databases().then((all) => all.length)") == 0


def test_it_restarts_after_a_lost_device(make_visit: VisitFactory) -> None:
    _, page = opened(make_visit, holdAfter=1)
    send(page, "One two three", wait=False)
    expect(answers(page)).to_contain_text("You")
    page.evaluate("fake.holdAfter = Infinity; fake.lose('gone')")
    expect(page.get_by_role("heading", name="One moment, please")).to_be_visible()
    expect(message_field(page)).to_be_visible()
    assert page.evaluate("fake.loads.length") == 2
    send(page, "Still there?")
    expect(answers(page).last).to_contain_text("Still there?")


def test_it_loads_the_page_anew_where_the_engine_does_not_come_back(make_visit: VisitFactory) -> None:
    _, page = opened(make_visit, loadError={"kind": "internal", "message": "stuck"})
    expect(page.locator(".screen .lead")).to_contain_text("Starting again in")
    page.evaluate("globalThis.marker = 1")
    eventually(page, "globalThis.marker === undefined", patience_s=60)
    assert page.evaluate("Number(sessionStorage.getItem('wgpu_engine kiosk tries'))") >= 3
