"""Asking, stopping, asking anew and copying."""

from playwright.sync_api import expect

from tests.browser.page.conftest import Visit, answers, asked, message_field, send, texts


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


def test_an_answer_goes_on_while_the_page_is_hidden(visit: Visit) -> None:
    page = visit.chat(holdAfter=1)
    send(page, "One two three", wait=False)
    expect(answers(page)).to_contain_text("You")
    page.evaluate(
        "Object.defineProperty(document, 'hidden', {get: () => true, configurable: true});"
        "globalThis.requestAnimationFrame = () => {}; document.dispatchEvent(new Event('visibilitychange'));"
        "fake.holdAfter = Infinity"
    )
    expect(answers(page)).to_contain_text("You said: One two three")


def test_answers_and_code_are_copied(visit: Visit) -> None:
    page = visit.chat(answers=["Run this:\n\n```python\nprint('a < b')\n```\n"])
    send(page, "Code please")
    page.get_by_role("button", name="Copy code").click()
    assert page.evaluate("navigator.clipboard.readText()") == "print('a < b')"
    page.get_by_role("button", name="Copy answer").click()
    assert page.evaluate("navigator.clipboard.readText()").startswith("Run this:\n\n```python\n")
    expect(page.get_by_role("status")).to_have_text("Copied")


def test_copying_without_the_clipboard_of_secure_pages(visit: Visit) -> None:
    visit.context.add_init_script("Object.defineProperty(Navigator.prototype, 'clipboard', {get: () => undefined})")
    page = visit.chat(answers=["The answer"])
    send(page, "Hello")
    page.get_by_role("button", name="Copy answer").click()
    expect(page.get_by_role("status")).to_have_text("Copied")
    message_field(page).focus()
    page.keyboard.press("Control+v")
    expect(message_field(page)).to_have_value("The answer")


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
