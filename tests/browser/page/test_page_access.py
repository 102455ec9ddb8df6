"""For everybody: keyboards, screen readers, small screens, light and dark."""

from typing import Any, Literal

import pytest
from playwright.sync_api import Page, expect

from tests.browser.page.conftest import Visit, VisitFactory, answers, eventually, message_field, send, violations

LONG = (
    "# A heading\n\nText with `code`, a [link](https://example.com) and\n\n```python\nprint('"
    + "x" * 200
    + "')\n```\n\n"
    "| a | b |\n|---|---|\n| " + "wide " * 30 + "| 2 |\n\n- [x] done\n- item\n\n" + "unbroken" * 40
)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_violations(make_visit: VisitFactory, scheme: Literal["light", "dark"]) -> None:
    visit = make_visit(color_scheme=scheme)
    page = visit.open(loadHeld=True, answers=[LONG], warnings=["the file has no chat template"])
    expect(page.locator(".card")).to_be_visible()
    assert violations(page) == []
    page.get_by_role("button", name="Load Fake 135M").click()
    expect(page.locator(".stages")).to_be_visible()
    assert violations(page) == []
    page.evaluate("fake.loadHeld = false")
    expect(message_field(page)).to_be_visible()
    assert violations(page) == []
    send(page, "Hello")
    assert violations(page) == []
    page.get_by_role("button", name="Settings").click()
    assert violations(page) == []
    page.keyboard.press("Escape")
    page.get_by_role("button", name="All conversations").click()
    assert violations(page) == []
    page.keyboard.press("Escape")
    page.evaluate("fake.lose('gone')")
    expect(page.locator(".error-card")).to_be_visible()
    assert violations(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_violations_of_a_kiosk(make_visit: VisitFactory, scheme: Literal["light", "dark"]) -> None:
    page = make_visit(bundle={"kiosk": {"title": "Kiosk", "idle_reset_s": 11}}, color_scheme=scheme).open()
    expect(message_field(page)).to_be_visible()
    send(page, "Hello")
    expect(page.locator(".countdown")).to_be_visible()
    assert violations(page) == []


CONTRAST = """(button) => {
  const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const luminance = (colour) => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = context.getImageData(0, 0, 1, 1).data;
    const linear = (part) => (part <= 10 ? part / 3294 : ((part / 255 + 0.055) / 1.055) ** 2.4);
    return alpha < 255 ? null : 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
  };
  const { color, backgroundColor } = getComputedStyle(button);
  const [ink, ground] = [luminance(color), luminance(backgroundColor)];
  // on a ground that shines through, the colour is that of text elsewhere
  return ground === null ? null : (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05);
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_buttons_can_be_read_with_the_mouse_over_them(
    make_visit: VisitFactory, scheme: Literal["light", "dark"]
) -> None:
    """As WCAG 2.2 computes contrast (1.4.3, 1.4.11), which axe checks at rest only."""
    page = make_visit(color_scheme=scheme, reduced_motion="reduce").open()
    measured = 0

    def check() -> None:
        nonlocal measured
        for button in page.locator("button:visible:enabled").all():
            button.hover()
            contrast = button.evaluate(CONTRAST)
            if contrast is not None:
                measured += 1
                assert contrast >= 4.5, button.evaluate("(button) => button.outerHTML")

    expect(page.locator(".card")).to_be_visible()
    check()
    page.get_by_role("button", name="Load Fake 135M").click()
    send(page, "Hello")
    message_field(page).fill("Again")
    check()
    assert measured > 4


def too_wide(page: Page) -> Any:
    return page.evaluate(
        "[document.documentElement, document.body, ...document.querySelectorAll('.log, .screen, .dialog, .column')]"
        ".filter((each) => each.scrollWidth > each.clientWidth + 1).map((each) => each.className || each.localName)"
    )


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_nothing_is_wider_than_the_screen(make_visit: VisitFactory, width: int) -> None:
    visit = make_visit(viewport={"width": width, "height": 640}, has_touch=width < 500)
    page = visit.open(loadHeld=True, answers=[LONG])
    expect(page.locator(".card")).to_be_visible()
    assert too_wide(page) == []
    page.get_by_role("button", name="Load Fake 135M").click()
    expect(page.locator(".stages")).to_be_visible()
    assert too_wide(page) == []
    page.evaluate("fake.loadHeld = false")
    expect(message_field(page)).to_be_visible()
    send(page, "y" * 300)
    assert too_wide(page) == []
    page.get_by_role("button", name="Settings").click()
    assert too_wide(page) == []
    page.keyboard.press("Escape")
    page.evaluate("fake.lose('gone')")
    expect(page.locator(".error-card")).to_be_visible()
    assert too_wide(page) == []


def test_conversations_on_a_phone(make_visit: VisitFactory) -> None:
    page = make_visit(viewport={"width": 390, "height": 844}, has_touch=True).chat()
    expect(page.get_by_role("navigation")).to_be_hidden()
    send(page, "Hello")
    page.get_by_role("button", name="Conversations", exact=True).click()
    expect(page.locator(".conversation")).to_be_visible()
    page.get_by_role("button", name="New chat").click()
    expect(page.get_by_role("navigation")).to_be_hidden()
    expect(page.locator(".message")).to_have_count(0)


def test_a_window_that_becomes_narrow_shows_the_chat(visit: Visit) -> None:
    page = visit.chat()
    expect(page.get_by_role("navigation")).to_be_visible()
    page.set_viewport_size({"width": 390, "height": 844})
    expect(page.get_by_role("navigation")).to_be_hidden()
    expect(page.locator(".scrim")).to_be_hidden()
    page.set_viewport_size({"width": 1280, "height": 800})
    expect(page.get_by_role("navigation")).to_be_visible()


def focused(page: Page) -> str:
    name: str = page.evaluate("document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent")
    return name


def tab_to(page: Page, label: str) -> None:
    for _ in range(40):
        page.keyboard.press("Tab")
        if focused(page) == label:
            return
    raise AssertionError(f"Tab never came to {label}")


def test_everything_by_keyboard(visit: Visit) -> None:
    page = visit.open(answers=["One", "Two", "Three four five"])
    expect(page.locator(".card")).to_be_visible()
    tab_to(page, "Load Fake 135M")
    page.keyboard.press("Enter")
    expect(message_field(page)).to_be_focused()
    page.keyboard.type("First line")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("second line")
    page.keyboard.press("Enter")
    expect(answers(page)).to_contain_text("One")
    assert page.evaluate("fake.requests[0].messages[0].content") == "First line\nsecond line"
    expect(message_field(page)).to_be_focused()
    page.keyboard.press("Shift+Tab")
    assert focused(page) == "Another answer"
    page.keyboard.press("Enter")
    expect(answers(page)).to_contain_text("Two")
    page.keyboard.press("Alt+n")
    expect(page.locator(".message")).to_have_count(0)
    expect(message_field(page)).to_be_focused()
    page.evaluate("fake.holdAfter = 1")
    page.keyboard.type("Stop me")
    page.keyboard.press("Enter")
    expect(answers(page)).to_contain_text("Three")
    page.keyboard.press("Escape")
    expect(answers(page).locator(".note")).to_have_text("Stopped")
    page.keyboard.press("Alt+s")
    expect(page.get_by_role("dialog", name="Settings")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_role("button", name="All conversations").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowUp")
    assert page.evaluate("document.activeElement.textContent") == "Delete all"
    page.keyboard.press("Escape")
    assert focused(page) == "All conversations"
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_contain_text("Stop the answer")
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    expect(message_field(page)).to_be_focused()


def test_the_focus_is_not_lost(visit: Visit) -> None:
    page = visit.chat(answers=["One", "Two"])
    send(page, "Hello")
    page.get_by_role("button", name="Another answer").focus()
    page.keyboard.press("Enter")
    expect(answers(page)).to_contain_text("Two")
    expect(page.locator(".message.running")).to_have_count(0)
    assert page.evaluate("document.activeElement.className") == "log"
    page.get_by_role("button", name="Copy message").focus()
    page.evaluate("fake.holdAfter = 0")
    page.keyboard.press("Alt+n")
    page.locator(".conversation").click()
    page.get_by_role("button", name="Earlier version").focus()
    page.keyboard.press("Enter")
    expect(answers(page)).to_contain_text("One")
    assert page.evaluate("document.querySelector('.log').contains(document.activeElement)")


def test_screen_readers_hear_answers_once(visit: Visit) -> None:
    page = visit.chat(holdAfter=2)
    spoken = page.get_by_role("status")
    send(page, "One two three four", wait=False)
    expect(spoken).to_have_text("The model is answering")
    expect(page.locator(".messages")).to_have_attribute("aria-busy", "true")
    page.evaluate("fake.holdAfter = Infinity")
    expect(spoken).to_have_text("Answer: You said: One two three four")
    expect(page.locator(".messages")).to_have_attribute("aria-busy", "false")


def test_light_and_dark(make_visit: VisitFactory) -> None:
    page = make_visit(color_scheme="dark").open()

    def ground() -> Any:
        return page.evaluate("getComputedStyle(document.documentElement).backgroundColor")

    dark = ground()
    page.get_by_role("button", name="Settings").click()
    page.get_by_text("Light", exact=True).click()
    light = ground()
    assert light != dark
    page.reload()
    assert ground() == light
    page.get_by_role("button", name="Settings").click()
    page.get_by_text("As the system").click()
    assert ground() == dark


def test_colours_that_the_system_chooses(visit: Visit) -> None:
    """What a ground alone tells otherwise is told by lines."""
    page = visit.chat()
    send(page, "Hello")
    page.emulate_media(forced_colors="active")
    page.get_by_role("button", name="Settings").click()
    for what in (".conversations .current", ".meter", ".segments :checked + span"):
        expect(page.locator(what)).to_have_css("outline-style", "solid")


def test_the_log_follows_until_the_reader_scrolls_up(make_visit: VisitFactory) -> None:
    text = "\n\n".join(f"Paragraph {i}" for i in range(80))
    page = make_visit(viewport={"width": 800, "height": 500}).chat(answers=[text], holdAfter=100)
    send(page, "Much", wait=False)
    expect(answers(page)).to_contain_text("Paragraph 48")
    page.evaluate("globalThis.log = document.querySelector('.log')")
    at_end = "log.scrollHeight - log.scrollTop - log.clientHeight < 5"
    eventually(page, at_end)
    page.evaluate("document.querySelector('.log').scrollTop = 100")
    expect(page.get_by_role("button", name="To the latest message")).to_be_visible()
    page.evaluate("fake.holdAfter = Infinity")
    expect(page.locator(".message.running")).to_have_count(0)
    assert page.evaluate("document.querySelector('.log').scrollTop") == 100
    page.get_by_role("button", name="To the latest message").click()
    eventually(page, at_end)
