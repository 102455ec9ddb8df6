"""Choosing a model, and what the browser keeps of models."""

from pathlib import Path

from playwright.sync_api import expect

from tests.browser.page.conftest import MODEL, Visit, error_card, message_field, send


def test_models_show_what_they_take(visit: Visit) -> None:
    page = visit.open()
    card = page.locator(".card")
    expect(card).to_contain_text("Fake 135M")
    expect(card).to_contain_text("98.0 MB to fetch · takes 210 MB of memory · Apache-2.0")


def test_the_default_model_is_the_bundles(visit: Visit) -> None:
    page = visit.chat()
    source = page.evaluate("fake.loads")[0]["source"]
    assert source["kind"] == "bundled" and source["files"] == [MODEL["files"][0]["path"]]  # type: ignore[index]
    assert source["base"] == visit.url


def test_a_kept_model_says_so_and_can_be_removed(visit: Visit) -> None:
    entry = {"id": "ab" * 32, "name": "fake.gguf", "size": 98_000_000, "bytes": 98_000_000, "complete": True}
    other = entry | {"id": "url-x", "name": "other.gguf"}
    page = visit.open(cached=[entry, other])
    cards = page.locator(".card")
    expect(cards.first).to_contain_text("98.0 MB, kept in this browser")
    expect(cards.nth(1)).to_contain_text("other.gguf")
    cards.first.get_by_role("button", name="Remove").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove", exact=True).click()
    expect(cards.first).to_contain_text("98.0 MB to fetch")
    expect(cards).to_have_count(2)


def test_a_file_of_the_user(visit: Visit, tmp_path: Path) -> None:
    files = [tmp_path / f"mine-0000{i}-of-00002.gguf" for i in (2, 1)]
    for file in files:
        file.write_bytes(b"GGUF")
    page = visit.open()
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Choose a file").click()
    chooser.value.set_files(files)
    expect(message_field(page)).to_be_visible()
    names = ["mine-00001-of-00002.gguf", "mine-00002-of-00002.gguf"]
    assert page.evaluate("fake.loads")[0]["source"] == {"kind": "file", "files": names}
    expect(page.locator(".model-name")).to_have_text("mine-00001-of-00002")


def test_a_file_that_is_dropped(visit: Visit) -> None:
    page = visit.open()
    expect(page.locator(".card")).to_be_visible()
    transfer = page.evaluate_handle(
        "() => { const t = new DataTransfer(); t.items.add(new File(['GGUF'], 'dropped.gguf')); return t; }"
    )
    page.dispatch_event("body", "dragover", {"dataTransfer": transfer})
    expect(page.locator("body.dragging")).to_have_count(1)
    page.dispatch_event("body", "drop", {"dataTransfer": transfer})
    expect(message_field(page)).to_be_visible()
    assert page.evaluate("fake.loads")[0]["source"]["files"] == ["dropped.gguf"]


def test_other_files_are_refused_however_they_come(visit: Visit, tmp_path: Path) -> None:
    page = visit.chat()
    transfer = page.evaluate_handle(
        "() => { const t = new DataTransfer(); t.items.add(new File(['x'], 'notes.txt')); return t; }"
    )
    page.dispatch_event("body", "drop", {"dataTransfer": transfer})
    error_card(page, "file")
    expect(page.locator(".error-card")).to_contain_text("notes.txt isn't a GGUF file")
    dropped = page.locator(".error-card").inner_text()
    (tmp_path / "notes.txt").write_text("x")
    page.get_by_role("button", name="Back to the chat").click()
    page.locator(".model-chip").click()
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Choose a file").click()
    chooser.value.set_files(tmp_path / "notes.txt")
    expect(page.locator(".error-card")).to_have_text(dropped, use_inner_text=True)
    # the model stays
    page.get_by_role("button", name="Back to the chat").click()
    send(page, "Hello")
    assert page.evaluate("fake.loads.length") == 1


def test_a_model_from_an_address(visit: Visit) -> None:
    page = visit.open()
    page.get_by_label("Or the address of one").fill("https://models.example/m/tiny.gguf#x")
    page.get_by_role("button", name="Load from there").click()
    expect(message_field(page)).to_be_visible()
    url = "https://models.example/m/tiny.gguf"
    assert page.evaluate("fake.loads")[0]["source"]["urls"] == [url]
    [digest] = page.evaluate("(url) => import('/engine/model_address.js').then((a) => a.cacheIds(url))", url)
    again = visit.open(cached=[{"id": digest, "name": "tiny.gguf", "size": 5_000_000, "bytes": 5_000_000}])
    expect(again.get_by_role("button", name="Load tiny")).to_be_visible()


def test_a_model_that_is_in_use_stays_and_says_so(visit: Visit) -> None:
    entry = {"id": "x", "name": "other.gguf", "size": 1000, "bytes": 1000}
    refusal = {"kind": "in_use", "message": "this model is being loaded, here or in another tab: wait for that"}
    page = visit.open(cached=[entry], removeError=refusal)
    page.get_by_role("button", name="Remove other.gguf").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove", exact=True).click()
    error_card(page, "in_use")
    expect(page.locator(".error-card")).to_contain_text("This model is being loaded")
    expect(page.locator(".card")).to_have_count(2)
