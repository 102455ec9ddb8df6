"""Choosing and loading a model, and what can go wrong with it."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.page.conftest import MODEL, Visit, answers, message_field, send

FULL = {
    "kind": "context",
    "message": "the prompt has 3000 tokens and the context holds 256: shorten it or raise --ctx-size",
}


def error_card(page: Page, kind: str) -> None:
    expect(page.locator(f".error-card[data-kind={kind}]")).to_be_visible()


def test_models_show_what_they_take(visit: Visit) -> None:
    page = visit.open()
    card = page.locator(".card")
    expect(card).to_contain_text("Fake 135M")
    expect(card).to_contain_text("98.0 MB to fetch · takes 210 MB of memory · Apache-2.0")


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


def test_loading_shows_how_far_it_is_and_can_be_cancelled(visit: Visit) -> None:
    page = visit.open(loadHeld=True)
    page.get_by_role("button", name="Load Fake 135M").click()
    stages = page.locator(".stages")
    expect(stages).to_contain_text("Fetching the model")
    expect(stages).to_contain_text("10.0 MB of 20.0 MB")
    expect(stages.locator("li").first).to_have_text("Starting the engine")
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("button", name="Load Fake 135M")).to_be_enabled()
    expect(page.locator(".error-card")).to_have_count(0)
    page.evaluate("fake.loadHeld = false")
    page.get_by_role("button", name="Load Fake 135M").click()
    send(page, "Hello")
    expect(answers(page)).to_contain_text("You said: Hello")


def test_weights_that_move_on_while_others_are_fetched(visit: Visit) -> None:
    page = visit.open()
    found = page.evaluate(
        """async () => {
          const { LoadView } = await import("/page/load_view.js");
          const view = new LoadView("Fake");
          const rows = () => [...view.list.children].map((row) => row.className);
          const seen = [];
          const steps = [["kernels", 5, 5], ["download", 5, 20], ["weights", 4, 20], ["download", 10, 20],
                         ["weights", 6, 20], ["download", 20, 20], ["kernels", 1, 10], ["weights", 20, 20]];
          for (const [stage, done, total] of steps) {
            view.note({ stage, done, total });
            seen.push([Math.round(100 * view.bar.value), rows().join(" ")]);
          }
          return seen;
        }"""
    )
    assert found == [
        [10, "past now"],
        [20, "past now now"],
        [26, "past now now now"],
        [36, "past now now now"],
        [39, "past now now now"],
        [59, "past now past now"],
        [59, "past now past now"],
        [82, "past now past past"],
    ]


def test_speed_and_time_left(visit: Visit) -> None:
    page = visit.open()
    figures = page.evaluate(
        """async () => {
          const { Rate, bytes, duration } = await import("/page/format.js");
          const rate = new Rate();
          rate.note(0, 0);
          const before = rate.perSecond();
          rate.note(4e6, 1000);
          const sizes = [999, 98_040_000, 1.5e9].map(bytes);
          return [before, rate.perSecond(), ...sizes, ...[0.42, 75, 4800].map(duration)];
        }"""
    )
    assert figures == [None, 4e6, "999 bytes", "98.0 MB", "1.5 GB", "0.42 s", "1 min 15 s", "1 h 20 min"]


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


@pytest.mark.parametrize("kind", ["address", "network"])
def test_an_address_that_leads_nowhere_can_be_mended(visit: Visit, kind: str) -> None:
    url = "https://models.example/tniy.gguf"
    refusal = "tniy.gguf isn't on models.example (404): check the address"
    page = visit.open(loadError={"kind": kind, "message": refusal})
    page.get_by_label("Or the address of one").fill(url)
    page.get_by_role("button", name="Load from there").click()
    error_card(page, "address")
    expect(page.locator(".error-card")).to_contain_text("Tniy.gguf isn't on models.example (404): check the address.")
    expect(page.locator(".error-card button")).to_have_count(0)
    expect(page.get_by_label("Or the address of one")).to_have_value(url)


def test_a_model_of_embeddings_is_refused_in_words_for_visitors(visit: Visit) -> None:
    refusal = "x.gguf makes embeddings and can't write: use wgpu_engine.Embedder or `wgpu-engine embed`"
    page = visit.open(loadError={"kind": "file", "message": refusal})
    page.get_by_role("button", name="Load Fake 135M").click()
    error_card(page, "embeddings")
    expect(page.locator(".error-card")).to_contain_text("Choose a language model")
    expect(page.locator(".error-card")).not_to_contain_text("wgpu")


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


FAILURES = {
    "file": ("blk.0 is missing: fetch the file again", "Choose another model"),
    "network": ("The connection broke", "Try again"),
    "quota": ("storage is full", "Remove kept models"),
    "no_adapter": ("No graphics chip was found", "Try again"),
    "internal": ("Something went wrong", "Try again"),
    "lost": ("was reset", "Load the model"),
    "memory": ("Too little memory", "Load with a shorter context"),
}


def test_a_load_that_fails_says_what_to_do(visit: Visit) -> None:
    page = visit.open(cached=[{"id": "x", "name": "x", "size": 1, "bytes": 1}])
    expect(page.locator(".card")).to_have_count(2)
    card = page.locator(".error-card")
    for kind, (words, button) in FAILURES.items():
        page.evaluate("kind => { fake.loadError = {kind, message: 'blk.0 is missing: fetch the file again'}; }", kind)
        page.get_by_role("button", name="Load Fake 135M").click()
        error_card(page, kind)
        expect(card).to_contain_text(words)
        page.evaluate("fake.loadError = null; fake.loads.length = 0")
        if kind == "file":  # whose models are listed below
            continue
        card.get_by_role("button", name=button).click()
        if kind == "quota":
            expect(card).to_have_count(0)
            assert page.evaluate("fake.cached") == []
            continue
        expect(message_field(page)).to_be_visible()
        assert page.evaluate("fake.loads.map((load) => load.options)") == [
            {"ctx_size": 2048} if kind == "memory" else {}
        ]
        page.locator(".model-chip").click()


def test_a_runtime_that_does_not_start(visit: Visit) -> None:
    page = visit.open(startError={"kind": "network", "message": "pyodide.mjs: status 404"})
    page.get_by_role("button", name="Load Fake 135M").click()
    error_card(page, "network")
    expect(page.locator(".error-card")).to_contain_text("pyodide.mjs: status 404")


@pytest.mark.parametrize(
    ("kind", "script", "words"),
    [
        (
            "no_webgpu",
            "Object.defineProperty(Navigator.prototype, 'gpu', {get: () => undefined})",
            "Firefox has it from",
        ),
        ("no_adapter", "GPU.prototype.requestAdapter = async () => null", "hardware acceleration"),
        ("insecure", "Object.defineProperty(globalThis, 'isSecureContext', {get: () => false})", "https"),
    ],
)
def test_a_browser_that_cannot_is_told_at_once(visit: Visit, kind: str, script: str, words: str) -> None:
    visit.context.add_init_script(script)
    page = visit.open()
    error_card(page, kind)
    expect(page.locator(".error-card")).to_contain_text(words)
    expect(page.get_by_role("button", name="Load Fake 135M")).to_be_disabled()
    if kind != "insecure":
        page.get_by_role("button", name="Copy the address of the switch").click()
        assert page.evaluate("navigator.clipboard.readText()").startswith("chrome://flags/")


def test_a_page_without_secure_address_opens(visit: Visit) -> None:
    """Locks and the GPU are missing there; conversations are there all the same."""
    visit.context.add_init_script(
        "Object.defineProperty(globalThis, 'isSecureContext', {get: () => false});"
        "Object.defineProperty(Navigator.prototype, 'locks', {get: () => undefined});"
        "Object.defineProperty(Navigator.prototype, 'gpu', {get: () => undefined})"
    )
    page = visit.open()
    error_card(page, "insecure")
    expect(page.get_by_role("navigation", name="Conversations")).to_be_visible()


def test_a_device_lost_in_mid_answer(visit: Visit) -> None:
    page = visit.chat(holdAfter=3)
    send(page, "One two three", wait=False)
    expect(answers(page)).to_contain_text("You said: One")
    page.evaluate("fake.lose('the driver was reset')")
    error_card(page, "lost")
    expect(answers(page).locator(".note")).to_have_text("Interrupted")
    expect(answers(page)).to_contain_text("You said: One")
    assert page.evaluate("fake.closed") == 1
    page.evaluate("fake.holdAfter = Infinity")
    page.get_by_role("button", name="Load the model").click()
    expect(message_field(page)).to_be_visible()
    expect(page.locator(".error-card")).to_have_count(0)
    send(page, "Go on")
    sent = page.evaluate("fake.requests.at(-1).messages.map((m) => m.content.trim())")
    assert sent == ["One two three", "You said: One", "Go on"]


def test_a_device_lost_between_answers(visit: Visit) -> None:
    page = visit.chat()
    send(page, "One")
    page.evaluate("fake.lose('gone')")
    error_card(page, "lost")
    page.get_by_role("button", name="Load the model").click()
    send(page, "Two")
    assert page.locator(".message").count() == 4


def test_a_context_that_is_full(visit: Visit) -> None:
    page = visit.chat()
    for text in ("One", "Two", "Three"):
        send(page, text)
    page.evaluate("(error) => { fake.chatError = error; }", FULL)
    send(page, "Four", wait=False)
    error_card(page, "context")
    expect(page.locator(".error-card")).to_contain_text("It would take 3,000 tokens, and 256 are the most.")
    expect(page.locator(".error-card")).not_to_contain_text("--ctx-size")
    page.evaluate("fake.chatError = null")
    page.get_by_role("button", name="Leave out the oldest messages").click()
    expect(answers(page).last).to_contain_text("You said: Four")
    expect(page.locator(".divider")).to_be_visible()
    assert page.evaluate("fake.requests.at(-1).messages[0].content") == "Three"


def test_a_message_that_alone_is_too_long(visit: Visit) -> None:
    page = visit.chat()
    page.evaluate("(error) => { fake.chatError = error; }", FULL)
    send(page, "Much too long", wait=False)
    error_card(page, "too_long")
    expect(page.get_by_role("button", name="Leave out the oldest messages")).to_have_count(0)
    page.locator(".error-card").get_by_role("button", name="Edit the message").click()
    expect(page.locator(".edit-field")).to_have_value("Much too long")
    page.locator(".edit-field").press("Escape")
    page.evaluate("fake.chatError = null")
    send(page, "Short")
    expect(answers(page)).to_contain_text("You said: Short")
    assert page.evaluate("fake.requests.at(-1).messages.map((each) => each.content)") == ["Short"]


def test_a_refused_request_can_be_tried_again(visit: Visit) -> None:
    page = visit.chat(chatError={"kind": "request", "message": "This model takes no system prompt."})
    send(page, "Hello", wait=False)
    error_card(page, "request")
    expect(page.locator(".error-card")).to_contain_text("This model takes no system prompt.")
    page.evaluate("fake.chatError = null")
    page.get_by_role("button", name="Try again").click()
    expect(answers(page)).to_contain_text("You said: Hello")
    expect(page.locator(".error-card")).to_have_count(0)


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


def test_bundle_json_that_is_missing(visit: Visit) -> None:
    visit.tolerates = ("404",)
    visit.context.route("**/bundle.json", lambda route: route.fulfill(status=404))
    page = visit.open()
    error_card(page, "network")


def test_the_default_model_is_the_bundles(visit: Visit) -> None:
    page = visit.chat()
    source = page.evaluate("fake.loads")[0]["source"]
    assert source["kind"] == "bundled" and source["files"] == [MODEL["files"][0]["path"]]  # type: ignore[index]
    assert source["base"] == visit.url
