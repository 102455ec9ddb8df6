"""Conversations: sending, stopping, asking anew, editing, copying, and what is kept of them."""

import json
import re
from typing import Any

from playwright.sync_api import Page, expect

from tests.browser.page.conftest import Visit, answers, message_field, send


def asked(page: Page) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = page.evaluate("fake.requests")
    return found


def texts(page: Page) -> list[str]:
    return page.locator(".message .message-body").all_inner_texts()


def test_a_message_is_answered(visit: Visit) -> None:
    page = visit.chat()
    send(page, "Hello there")
    assert texts(page) == ["Hello there", "You said: Hello there"]
    figures = answers(page).locator(".figures")
    expect(figures).to_contain_text("12.5 tokens/s")
    expect(figures).to_contain_text("4 tokens")
    expect(page.get_by_role("meter", name="Context used")).to_have_attribute("aria-valuenow", "10")
    send(page, "Once more")
    assert [each["role"] for each in asked(page)[-1]["messages"]] == ["user", "assistant", "user"]
    assert asked(page)[-1]["messages"][1]["content"] == "You said: Hello there"


def test_settings_go_with_every_request(visit: Visit) -> None:
    page = visit.chat()
    page.get_by_role("button", name="Settings").click()
    page.get_by_label("System prompt").fill("Answer in rhymes.")
    for label, value in (("Temperature", "0.2"), ("Top-p", "0.5"), ("Top-k", "7"), ("Min-p", "0.01")):
        page.get_by_label(label, exact=True).fill(value)
    for label, value in (("Repeat penalty", "1.1"), ("Longest answer", "99"), ("Seed", "123")):
        page.get_by_label(label, exact=True).fill(value)
    page.keyboard.press("Escape")
    send(page, "Hi")
    expected = {"temperature": 0.2, "top_p": 0.5, "top_k": 7, "min_p": 0.01}
    request = asked(page)[0]
    assert request["sampling"] == expected | {"repetition_penalty": 1.1, "max_tokens": 99, "seed": 123}
    assert request["messages"] == [
        {"role": "system", "content": "Answer in rhymes."},
        {"role": "user", "content": "Hi"},
    ]
    page.reload()
    page.get_by_role("button", name="Settings").click()
    expect(page.get_by_label("Seed", exact=True)).to_have_value("123")
    page.get_by_role("button", name="Reset to defaults").click()
    expect(page.get_by_label("Temperature", exact=True)).to_have_value("0.8")
    expect(page.get_by_label("Seed", exact=True)).to_have_value("")
    expect(page.get_by_label("System prompt")).to_have_value("")


def test_settings_that_cannot_be_are_not_taken(visit: Visit) -> None:
    page = visit.chat()
    page.get_by_role("button", name="Settings").click()
    for label, value in (("Temperature", "-1"), ("Top-k", "1.5"), ("Top-p", ""), ("Seed", "-3")):
        field = page.get_by_label(label, exact=True)
        field.fill(value)
        expect(field).to_have_attribute("aria-invalid", "true")
    expect(page.locator(".field-error:visible")).to_have_count(4)
    # the first Esc shows what became of the last one, the second leaves
    page.keyboard.press("Escape")
    expect(page.get_by_label("Seed", exact=True)).to_have_value("0")
    expect(page.locator(".field-error:visible").last).to_contain_text("It is 0 now.")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    send(page, "Hi")
    sampling = asked(page)[0]["sampling"]
    assert [sampling[name] for name in ("temperature", "top_k", "top_p", "seed")] == [0, 2, 0.95, 0]


def test_stopping_keeps_what_has_come(visit: Visit) -> None:
    page = visit.chat(holdAfter=2)
    send(page, "One two three", wait=False)
    expect(answers(page)).to_contain_text("You said:")
    expect(page.get_by_role("button", name="Send")).to_be_hidden()
    page.get_by_role("button", name="Stop").click()
    expect(answers(page).locator(".note")).to_have_text("Stopped")
    assert texts(page)[-1] == "You said:"
    page.evaluate("fake.holdAfter = Infinity")
    send(page, "Go on")
    assert asked(page)[-1]["messages"][1]["content"].strip() == "You said:"


def test_stopping_before_the_first_word(visit: Visit) -> None:
    page = visit.chat(holdAfter=0)
    send(page, "Hello", wait=False)
    expect(page.locator(".message.running")).to_be_visible()
    page.keyboard.press("Escape")
    expect(answers(page)).to_have_count(0)
    page.evaluate("fake.holdAfter = Infinity")
    page.get_by_role("button", name="Answer this").click()
    expect(answers(page)).to_contain_text("You said: Hello")


def test_another_answer_stands_beside_the_first(visit: Visit) -> None:
    page = visit.chat(answers=["First answer", "Second answer"])
    send(page, "Hello")
    page.get_by_role("button", name="Another answer").click()
    expect(answers(page)).to_contain_text("Second answer")
    assert [each["messages"] for each in asked(page)] == [[{"role": "user", "content": "Hello"}]] * 2
    expect(page.get_by_role("group", name="Versions")).to_contain_text("2/2")
    page.get_by_role("button", name="Earlier version").click()
    expect(answers(page)).to_contain_text("First answer")
    send(page, "And then?")
    assert asked(page)[-1]["messages"][1]["content"] == "First answer"


def test_an_edited_message_goes_on_from_there(visit: Visit) -> None:
    page = visit.chat()
    send(page, "First question")
    send(page, "Second question")
    page.locator(".message.user").first.hover()
    page.get_by_role("button", name="Edit message").first.click()
    field = page.locator(".edit-field")
    expect(field).to_have_value("First question")
    field.fill("Better question")
    field.press("Enter")
    expect(answers(page)).to_have_count(1)
    expect(answers(page)).to_contain_text("You said: Better question")
    assert asked(page)[-1]["messages"] == [{"role": "user", "content": "Better question"}]
    page.get_by_role("button", name="Earlier version").click()
    assert texts(page)[::2] == ["First question", "Second question"]


def test_leaving_the_editing_changes_nothing(visit: Visit) -> None:
    page = visit.chat()
    send(page, "Question")
    page.locator(".message.user").hover()
    page.get_by_role("button", name="Edit message").click()
    page.locator(".edit-field").fill("Something else")
    page.keyboard.press("Escape")
    assert texts(page)[0] == "Question" and len(asked(page)) == 1


def test_answers_and_code_are_copied(visit: Visit) -> None:
    page = visit.chat(answers=["Run this:\n\n```python\nprint('a < b')\n```\n"])
    send(page, "Code please")
    page.get_by_role("button", name="Copy code").click()
    assert page.evaluate("navigator.clipboard.readText()") == "print('a < b')"
    page.get_by_role("button", name="Copy answer").click()
    assert page.evaluate("navigator.clipboard.readText()").startswith("Run this:\n\n```python\n")
    expect(page.get_by_role("status")).to_have_text("Copied")


def test_conversations_outlast_the_page(visit: Visit) -> None:
    page = visit.chat(answers=["It is **bold**."])
    send(page, "What is bold?")
    page.get_by_role("button", name="New chat").click()
    send(page, "Another one")
    page.reload()
    names = page.locator(".conversation")
    assert names.all_inner_texts() == ["Another one", "What is bold?"]
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


def test_renaming_and_deleting(visit: Visit) -> None:
    page = visit.chat()
    for text in ("One", "Two", "Three"):
        page.get_by_role("button", name="New chat").click()
        send(page, text)
    page.get_by_role("button", name="More for “Two”").click()
    page.get_by_role("menuitem", name="Rename").click()
    page.get_by_label("Title").fill("A better name")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".conversation")).to_have_text(["Three", "A better name", "One"], use_inner_text=True)
    page.get_by_role("button", name="More for “Three”").click()
    page.get_by_role("menuitem", name="Delete").click()
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(".conversation")).to_have_count(3)
    page.get_by_role("button", name="More for “Three”").click()
    page.get_by_role("menuitem", name="Delete").click()
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.locator(".conversation")).to_have_count(2)
    expect(page.locator(".message")).to_have_count(0)
    page.get_by_role("button", name="All conversations").click()
    page.get_by_role("menuitem", name="Delete all").click()
    page.get_by_role("button", name="Delete all").click()
    expect(page.locator(".conversation")).to_have_count(0)
    page.reload()
    expect(page.locator(".conversation")).to_have_count(0)


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


def test_deleting_the_conversation_that_is_answered(visit: Visit) -> None:
    page = visit.chat(holdAfter=2)
    send(page, "One two three", wait=False)
    expect(answers(page)).to_contain_text("You said:")
    page.get_by_role("button", name="More for “One two three”").click()
    page.get_by_role("menuitem", name="Delete").click()
    page.get_by_role("button", name="Delete", exact=True).click()
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


def test_an_edit_that_cannot_be_sent_stays(visit: Visit) -> None:
    page = visit.chat()
    send(page, "One")
    page.get_by_role("button", name="Edit message").click()
    field = page.locator(".edit-field")
    field.fill("A better one")
    page.evaluate("fake.holdAfter = 1")
    send(page, "Two", wait=False)
    expect(answers(page)).to_have_count(2)
    field.press("Enter")
    expect(field).to_have_value("A better one")
    expect(page.locator(".edit [role=alert]")).to_contain_text("Another answer is being written")
    page.evaluate("fake.holdAfter = Infinity")
    expect(page.locator(".message.running")).to_have_count(0)
    page.evaluate("fake.lose('gone')")
    field.press("Enter")
    expect(page.locator(".edit [role=alert]")).to_contain_text("No model is loaded")
    page.get_by_role("button", name="Load the model").click()
    expect(message_field(page)).to_be_visible()
    field.press("Enter")
    expect(answers(page)).to_contain_text("You said: A better one")


def test_thoughts_are_set_apart_and_not_sent_again(visit: Visit) -> None:
    page = visit.chat(answers=["<think>\nLet me see.\n</think>\n\nIt is 4."])
    send(page, "2 + 2?")
    expect(page.locator("details.thoughts")).not_to_have_attribute("open", "")
    assert texts(page)[-1].split("\n")[-1] == "It is 4."
    send(page, "Sure?")
    assert asked(page)[-1]["messages"][1]["content"] == "It is 4."


def test_a_model_that_only_continues_texts(visit: Visit) -> None:
    page = visit.chat(chat=False, answers=[" there was a cat."])
    expect(page.get_by_role("heading", name="Begin a text")).to_be_visible()
    send(page, "Once upon a time")
    assert asked(page)[-1]["messages"] == [{"role": "prompt", "content": "Once upon a time"}]


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
    page.get_by_role("button", name="More for “Hello”").click()
    page.get_by_role("menuitem", name="Delete").click()
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.locator(".conversations .hint")).to_have_text("Nothing yet.")
    page.get_by_role("button", name="Settings").click()
    page.get_by_label("Temperature", exact=True).fill("0")
    page.get_by_text("Dark", exact=True).click()
    page.keyboard.press("Escape")
    send(page, "Again")
    assert asked(page)[-1]["sampling"]["temperature"] == 0


def test_copying_without_the_clipboard_of_secure_pages(visit: Visit) -> None:
    visit.context.add_init_script("Object.defineProperty(Navigator.prototype, 'clipboard', {get: () => undefined})")
    page = visit.chat(answers=["The answer"])
    send(page, "Hello")
    page.get_by_role("button", name="Copy answer").click()
    expect(page.get_by_role("status")).to_have_text("Copied")
    message_field(page).focus()
    page.keyboard.press("Control+v")
    expect(message_field(page)).to_have_value("The answer")
