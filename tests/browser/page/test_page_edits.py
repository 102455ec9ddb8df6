"""Messages that are edited."""

from playwright.sync_api import Page, expect

from tests.browser.page.conftest import Visit, answers, asked, delete, message_field, send, texts


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


def edit(page: Page, text: str) -> None:
    page.get_by_role("button", name="Edit message").click()
    page.locator(".edit-field").fill(text)


def test_an_edit_outlasts_other_conversations_and_the_page(visit: Visit) -> None:
    page = visit.chat()
    send(page, "One")
    edit(page, "A better one")
    page.get_by_role("button", name="New chat").click()
    expect(page.locator(".edit-field")).to_have_count(0)
    page.locator(".conversation").click()
    expect(page.locator(".edit-field")).to_have_value("A better one")
    page.reload()
    page.locator(".conversation").click()
    expect(page.locator(".edit-field")).to_have_value("A better one")
    page.get_by_role("button", name="Load a model to go on").click()
    page.get_by_role("button", name="Load Fake 135M").click()
    page.locator(".edit-field").press("Enter")
    expect(answers(page)).to_contain_text("You said: A better one")
    page.get_by_role("button", name="New chat").click()
    page.locator(".conversation").click()
    expect(answers(page)).to_contain_text("You said: A better one")
    expect(page.locator(".edit-field")).to_have_count(0)


def test_an_edit_goes_with_its_conversation(visit: Visit) -> None:
    page = visit.chat()
    send(page, "One")
    edit(page, "My secret")
    delete(page, "One")
    expect(page.locator(".conversation")).to_have_count(0)
    assert "My secret" not in page.evaluate("JSON.stringify({ ...sessionStorage })")


def test_enter_on_a_button_of_the_editing_is_the_buttons(visit: Visit) -> None:
    page = visit.chat()
    send(page, "One")
    edit(page, "Another")
    page.get_by_role("button", name="Cancel").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".edit-field")).to_have_count(0)
    assert texts(page)[0] == "One" and len(asked(page)) == 1
