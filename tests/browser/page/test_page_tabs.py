"""One tab has the model; others say so and may have it."""

from playwright.sync_api import expect

from tests.browser.page.conftest import Visit, answers, delete, error_card, message_field, rename, send


def test_a_second_tab_asks_before_it_takes_the_model(visit: Visit) -> None:
    first = visit.chat()
    send(first, "Hello")
    second = visit.open()
    second.get_by_role("button", name="Load Fake 135M").click()
    expect(second.get_by_role("heading", name="The model runs in another tab")).to_be_visible()
    expect(second.locator(".elsewhere")).to_contain_text("fake is loaded there")
    assert second.evaluate("fake.loads.length") == 0
    second.get_by_role("button", name="Use it here").click()
    expect(message_field(second)).to_be_visible()
    expect(first.locator(".error-card[data-kind=moved]")).to_be_visible()
    assert first.evaluate("fake.closed") == 1
    send(second, "And here")
    first.get_by_role("button", name="Load the model").click()
    first.get_by_role("button", name="Use it here").click()
    expect(message_field(first)).to_be_visible()
    expect(second.locator(".error-card[data-kind=moved]")).to_be_visible()


def test_an_answer_that_the_takeover_breaks_off_is_kept(visit: Visit) -> None:
    first = visit.chat(holdAfter=2)
    send(first, "One two three", wait=False)
    expect(answers(first)).to_contain_text("You said:")
    second = visit.open()
    second.get_by_role("button", name="Load Fake 135M").click()
    expect(second.locator(".elsewhere")).to_contain_text("would be interrupted")
    second.get_by_role("button", name="Use it here").click()
    expect(message_field(second)).to_be_visible()
    expect(answers(first).locator(".note")).to_have_text("Interrupted")
    second.locator(".conversation").click()
    expect(answers(second)).to_contain_text("You said:")


def test_a_tab_that_waits_goes_on_when_the_other_is_closed(visit: Visit) -> None:
    first = visit.chat(holdAfter=2)
    send(first, "One two three", wait=False)
    expect(answers(first)).to_contain_text("You said:")
    second = visit.open()
    second.get_by_role("button", name="Load Fake 135M").click()
    expect(second.get_by_role("button", name="Use it here")).to_be_visible()
    first.close()
    expect(message_field(second)).to_be_visible()
    assert second.evaluate("fake.loads.length") == 1


def test_conversations_of_one_tab_appear_in_the_other(visit: Visit) -> None:
    second = visit.open()
    first = visit.chat()
    send(first, "Hello")
    expect(second.locator(".conversation")).to_have_text("Hello")


def test_what_one_tab_adds_to_a_conversation_the_other_shows(visit: Visit) -> None:
    first = visit.chat()
    send(first, "Hello")
    second = visit.open()
    second.locator(".conversation").click()
    expect(answers(second)).to_have_count(1)
    send(first, "More")
    expect(answers(second)).to_have_count(2)
    expect(answers(second).last).to_contain_text("You said: More")
    delete(first, "Hello")
    expect(second.locator(".conversation")).to_have_count(0)


def test_a_load_that_the_takeover_breaks_off(visit: Visit) -> None:
    first = visit.open(startHeld=True)
    first.get_by_role("button", name="Load Fake 135M").click()
    expect(first.locator(".stages")).to_be_visible()
    second = visit.open()
    second.get_by_role("button", name="Load Fake 135M").click()
    second.get_by_role("button", name="Use it here").click()
    expect(message_field(second)).to_be_visible()
    first.evaluate("fake.startHeld = false")
    error_card(first, "moved")
    first.wait_for_timeout(300)
    assert first.evaluate("[fake.loads.length, fake.closed]") == [0, 1]


def test_deleting_a_conversation_that_another_tab_answers(visit: Visit) -> None:
    first = visit.chat(holdAfter=2)
    send(first, "One two three", wait=False)
    expect(answers(first)).to_contain_text("You said:")
    second = visit.open()
    delete(second, "One two three")
    expect(first.locator(".message.running")).to_have_count(0)
    expect(first.locator(".conversation")).to_have_count(0)
    second.reload()
    expect(second.locator(".sidebar .hint").first).to_be_visible()
    expect(second.locator(".conversation")).to_have_count(0)


def test_a_name_that_another_tab_gave_stays(visit: Visit) -> None:
    first = visit.chat()
    send(first, "Hello")
    second = visit.open()
    rename(second, "Hello", "A better name")
    expect(first.locator(".conversation")).to_have_text("A better name")
    send(first, "More")
    expect(second.locator(".conversation")).to_have_text("A better name")
    expect(first.locator(".conversation")).to_have_text("A better name")


def test_a_name_that_another_tab_gives_while_an_answer_is_written(visit: Visit) -> None:
    first = visit.chat(holdAfter=2)
    send(first, "One two three", wait=False)
    expect(answers(first)).to_contain_text("You said:")
    second = visit.open()
    rename(second, "One two three", "A better name")
    expect(first.locator(".conversation")).to_have_text("A better name")
    first.evaluate("fake.holdAfter = Infinity")
    expect(first.locator(".message.running")).to_have_count(0)
    first.wait_for_timeout(300)
    expect(first.locator(".conversation")).to_have_text("A better name")
    expect(second.locator(".conversation")).to_have_text("A better name")
    second.locator(".conversation").click()
    expect(answers(second)).to_contain_text("three")
