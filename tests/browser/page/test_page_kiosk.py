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
    _, page = opened(
        make_visit,
        answers=["<think>[a](https://a.example) https://b.example</think>See [the plan](https://example.com)."],
    )
    expect(message_field(page)).to_be_visible()
    expect(page.locator("#announcer")).to_have_text("Ready for your questions")
    expect(page.get_by_role("heading", level=1)).to_have_text("Ask the museum")
    assert page.title() == "Ask the museum"
    send(page, "Hello")
    assert page.evaluate("fake.requests[0].messages[0]") == {"role": "system", "content": "You know the museum."}
    expect(answers(page)).to_contain_text("See the plan.")
    for nothing in ("Settings", "Conversations", "Edit message", "Another answer", "Choose a file"):
        expect(page.get_by_role("button", name=nothing)).to_have_count(0)
    expect(page.locator("a, nav")).to_have_count(0)


def test_a_kiosk_without_a_system_prompt(make_visit: VisitFactory) -> None:
    """As `wgpu-engine bundle --kiosk` writes one."""
    page = make_visit(bundle={"kiosk": KIOSK | {"system_prompt": None}}).open()
    send(page, "Hello")
    expect(answers(page)).to_contain_text("You said: Hello")
    assert page.evaluate("fake.requests[0].messages") == [{"role": "user", "content": "Hello"}]


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
    # the question is answered again, and once only
    expect(answers(page)).to_have_count(1)
    expect(answers(page)).to_contain_text("You said: One two three")
    asked = "fake.requests.map((each) => each.messages.at(-1).content)"
    assert page.evaluate(asked) == ["One two three"] * 2
    send(page, "Still there?")
    expect(answers(page).last).to_contain_text("Still there?")


def test_it_loads_the_page_anew_where_the_engine_does_not_come_back(make_visit: VisitFactory) -> None:
    _, page = opened(make_visit, loadError={"kind": "internal", "message": "stuck"})
    expect(page.locator(".screen .lead")).to_contain_text("Starting again in")
    page.evaluate("globalThis.marker = 1")
    eventually(page, "globalThis.marker === undefined", patience_s=60)
    assert page.evaluate("Number(sessionStorage.getItem('wgpu_engine kiosk tries'))") >= 3


def test_an_answer_that_breaks_off_twice_is_left_at_that(make_visit: VisitFactory) -> None:
    _, page = opened(make_visit, holdAfter=1)
    send(page, "One two three", wait=False)
    expect(answers(page)).to_contain_text("You")
    page.evaluate("fake.lose('gone')")
    eventually(page, "fake.requests.length === 2")
    expect(answers(page)).to_contain_text("You")
    page.evaluate("fake.lose('gone')")
    eventually(page, "fake.loads.length === 3")
    expect(message_field(page)).to_be_visible()
    expect(answers(page).locator(".note")).to_have_text("Interrupted")
    assert page.evaluate("fake.requests.length") == 2


def test_a_message_that_is_too_long_ends_nothing(make_visit: VisitFactory) -> None:
    _, page = opened(make_visit)
    expect(message_field(page)).to_be_visible()
    error = {"kind": "context", "message": "the prompt has 3000 tokens and the context holds 256: raise --ctx-size"}
    page.evaluate("(error) => { fake.chatError = error; }", error)
    send(page, "Much too long", wait=False)
    card = page.locator(".error-card")
    expect(card).to_contain_text("This message is too long")
    expect(card.get_by_role("button")).to_have_text(["Start over"])
    page.evaluate("fake.chatError = null")
    card.get_by_role("button").click()
    send(page, "Short")
    expect(answers(page)).to_contain_text("You said: Short")


def test_the_newest_tab_has_the_model(make_visit: VisitFactory) -> None:
    visit, first = opened(make_visit)
    send(first, "Hello")
    second = visit.open()
    expect(message_field(second)).to_be_visible()
    expect(first.get_by_role("heading", name="This page is open in another tab")).to_be_visible()
    expect(message_field(first)).to_be_hidden()
    first.get_by_role("button", name="Use it here").click()
    expect(message_field(first)).to_be_visible()
    expect(message_field(second)).to_be_hidden()
    expect(answers(first)).to_contain_text("You said: Hello")
    first.close()
    expect(message_field(second)).to_be_visible()
    send(second, "And here")
