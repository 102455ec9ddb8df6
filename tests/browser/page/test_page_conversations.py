"""Conversations: what is kept of them, and several of them."""

import json
import re

from playwright.sync_api import expect

from tests.browser.page.conftest import Visit, answers, asked, delete, message_field, rename, send, texts


def test_conversations_outlast_the_page(visit: Visit) -> None:
    page = visit.chat(answers=["It is **bold**."])
    send(page, "What is bold?")
    page.get_by_role("button", name="New chat").click()
    send(page, "Another one")
    page.reload()
    names = page.locator(".conversation")
    expect(names).to_have_text(["Another one", "What is bold?"])
    names.nth(1).click()
    expect(answers(page).locator("strong")).to_have_text("bold")
    page.get_by_role("button", name="Load a model to go on").click()
    page.get_by_role("button", name="Load Fake 135M").click()
    send(page, "Go on")
    assert len(asked(page)[-1]["messages"]) == 3


def test_an_answer_cut_off_by_the_end_of_the_page_is_kept(visit: Visit) -> None:
    page = visit.chat(holdAfter=3)
    send(page, "One two three four", wait=False)
    expect(answers(page)).to_contain_text("You said: One")
    page.wait_for_timeout(1000)
    page.reload()
    page.locator(".conversation").click()
    expect(answers(page)).to_contain_text("You said: One")
    expect(answers(page).locator(".note")).to_have_text("Interrupted")


def test_a_browser_that_keeps_nothing(visit: Visit) -> None:
    visit.context.add_init_script(
        "for (const name of ['localStorage', 'sessionStorage', 'indexedDB'])"
        " Object.defineProperty(globalThis, name, {get() { throw new DOMException('no', 'SecurityError'); }})"
    )
    page = visit.chat()
    send(page, "Hello")
    assert texts(page)[-1] == "You said: Hello"
    expect(page.locator(".conversation")).to_have_text("Hello")
    expect(page.get_by_text("conversations go with the page")).to_be_visible()
    delete(page, "Hello")
    expect(page.locator(".conversations .hint")).to_have_text("Nothing yet.")
    page.get_by_role("button", name="Settings").click()
    page.get_by_label("Temperature", exact=True).fill("0")
    page.get_by_text("Dark", exact=True).click()
    page.keyboard.press("Escape")
    send(page, "Again")
    assert asked(page)[-1]["sampling"]["temperature"] == 0


def test_renaming_and_deleting(visit: Visit) -> None:
    page = visit.chat()
    for text in ("One", "Two", "Three"):
        page.get_by_role("button", name="New chat").click()
        send(page, text)
    rename(page, "Two", "A better name")
    expect(page.locator(".conversation")).to_have_text(["Three", "A better name", "One"], use_inner_text=True)
    page.get_by_role("button", name="More for “Three”").click()
    page.get_by_role("menuitem", name="Delete").click()
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(".conversation")).to_have_count(3)
    delete(page, "Three")
    expect(page.locator(".conversation")).to_have_count(2)
    expect(page.locator(".message")).to_have_count(0)
    page.get_by_role("button", name="All conversations").click()
    page.get_by_role("menuitem", name="Delete all").click()
    page.get_by_role("button", name="Delete all").click()
    expect(page.locator(".conversation")).to_have_count(0)
    page.reload()
    expect(page.locator(".conversation")).to_have_count(0)


def test_deleting_the_conversation_that_is_answered(visit: Visit) -> None:
    page = visit.chat(holdAfter=2)
    send(page, "One two three", wait=False)
    expect(answers(page)).to_contain_text("You said:")
    delete(page, "One two three")
    expect(page.locator(".conversation")).to_have_count(0)
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    page.reload()
    expect(page.locator(".sidebar .hint").first).to_be_visible()
    expect(page.locator(".conversation")).to_have_count(0)


def test_a_deleted_conversation_does_not_come_back_with_the_words_after_it(visit: Visit) -> None:
    page = visit.chat(pause=50)
    send(page, "word " * 500, wait=False)
    expect(answers(page)).to_contain_text("You said:")
    page.get_by_role("button", name="More for").click()
    page.get_by_role("menuitem", name="Delete").click()
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    page.wait_for_timeout(700)  # longer than the page takes to keep what is new in an answer
    expect(page.locator(".conversation")).to_have_count(0)


def test_renaming_the_conversation_that_is_answered_behind_another(visit: Visit) -> None:
    page = visit.chat(holdAfter=2)
    send(page, "One two three", wait=False)
    expect(answers(page)).to_contain_text("You said:")
    page.get_by_role("button", name="New chat").click()
    page.get_by_role("button", name="More for “One two three”").click()
    page.get_by_role("menuitem", name="Rename").click()
    page.get_by_label("Title").fill("Numbers")
    page.keyboard.press("Enter")
    page.evaluate("fake.holdAfter = Infinity")
    expect(page.get_by_text("written in another conversation")).to_be_hidden()
    expect(page.locator(".conversation")).to_have_text("Numbers")


def test_exports(visit: Visit) -> None:
    page = visit.chat(answers=["An **answer**", "Another"])
    send(page, "A question?")
    page.get_by_role("button", name="New chat").click()
    send(page, "Second")

    def exported(menu: str, entry: str) -> str:
        page.get_by_role("button", name=menu).click()
        with page.expect_download() as download:
            page.get_by_role("menuitem", name=entry).click()
        return download.value.path().read_text()

    one = exported("More for “A question?”", "Export as Markdown")
    assert one.startswith("# A question?\n") and "## You\n\nA question?\n\n## Fake 135M\n\nAn **answer**\n" in one
    assert "## You\n\nSecond" in exported("All conversations", "Export all as Markdown")
    found = json.loads(exported("More for “Second”", "Export as JSON"))
    assert [each["content"] for each in found["conversations"][0]["messages"]] == ["Second", "Another"]
    assert len(json.loads(exported("All conversations", "Export all as JSON"))["conversations"]) == 2


def test_an_answer_goes_on_behind_another_conversation(visit: Visit) -> None:
    page = visit.chat(holdAfter=2)
    send(page, "One two three", wait=False)
    expect(answers(page)).to_contain_text("You said:")
    page.get_by_role("button", name="New chat").click()
    expect(page.locator(".message")).to_have_count(0)
    expect(page.get_by_text("written in another conversation")).to_be_visible()
    message_field(page).fill("Waits")
    page.keyboard.press("Enter")
    expect(message_field(page)).to_have_value("Waits")
    page.evaluate("fake.holdAfter = Infinity")
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    page.locator(".conversation").first.click()
    expect(answers(page)).to_contain_text("You said: One two three")


def test_nothing_is_asked_anew_while_another_answer_is_written(visit: Visit) -> None:
    page = visit.chat()
    send(page, "One")
    page.get_by_role("button", name="New chat").click()
    page.evaluate("fake.holdAfter = 1")
    send(page, "Two", wait=False)
    expect(answers(page)).to_contain_text("You")
    page.get_by_role("button", name="One", exact=True).click()
    for name in ("Another answer", "Edit message"):
        expect(page.get_by_role("button", name=name)).to_be_disabled()
        expect(page.get_by_role("button", name=name)).to_have_attribute("title", re.compile("is being written"))
    page.evaluate("fake.holdAfter = Infinity")
    expect(page.get_by_role("button", name="Another answer")).to_be_enabled()


def test_texts_of_all_kinds_stay_texts(visit: Visit) -> None:
    """In messages, titles, their menus and their files."""
    text = "<img src=x onerror=fake.hacked=1> **b** 👩‍👩‍👧‍👦 שלום " + "w" * 3000
    page = visit.chat()
    send(page, text)
    title = page.locator(".conversation").inner_text()
    assert title.startswith("<img src=x onerror=fake.hacked=1> **b** 👩‍👩‍👧‍👦 שלום") and len(title) < 70
    assert texts(page)[0] == text
    page.get_by_role("button", name="More for").click()
    page.get_by_role("menuitem", name="Delete").click()
    expect(page.get_by_role("dialog")).to_contain_text("<img src=x onerror=fake.hacked=1>")
    assert page.locator("img[src=x]").count() == 0 and page.evaluate("fake.hacked") is None
    right_to_left = "getComputedStyle(document.querySelector('.own-words')).unicodeBidi"
    assert page.evaluate(right_to_left) == "plaintext"
