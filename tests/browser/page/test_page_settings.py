"""Settings of how answers are made."""

from playwright.sync_api import expect

from tests.browser.page.conftest import Visit, asked, send


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
