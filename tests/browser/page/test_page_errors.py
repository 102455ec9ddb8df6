"""What can go wrong, and what people can do about it."""

import pytest
from playwright.sync_api import expect

from tests.browser.page.conftest import Visit, answers, error_card, message_field, send

FULL = {
    "kind": "context",
    "message": "the prompt has 3000 tokens and the context holds 256: shorten it or raise --ctx-size",
}


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


def test_an_address_that_leads_nowhere_can_be_mended(visit: Visit) -> None:
    url = "https://models.example/tniy.gguf"
    refusal = "tniy.gguf isn't on models.example (404): check the address"
    page = visit.open(loadError={"kind": "address", "message": refusal})
    page.get_by_label("Or the address of one").fill(url)
    page.get_by_role("button", name="Load from there").click()
    error_card(page, "address")
    expect(page.locator(".error-card")).to_contain_text("Tniy.gguf isn't on models.example (404): check the address.")
    expect(page.locator(".error-card button")).to_have_count(0)
    expect(page.get_by_label("Or the address of one")).to_have_value(url)


def test_a_model_of_embeddings_is_refused_in_words_for_visitors(visit: Visit) -> None:
    refusal = "x.gguf makes embeddings and can't write: use wgpu_engine.Embedder or `wgpu-engine embed`"
    page = visit.open(loadError={"kind": "embeddings", "message": refusal})
    page.get_by_role("button", name="Load Fake 135M").click()
    error_card(page, "embeddings")
    expect(page.locator(".error-card")).to_contain_text("Choose a language model")
    expect(page.locator(".error-card")).not_to_contain_text("wgpu")


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


def test_bundle_json_that_is_missing(visit: Visit) -> None:
    visit.tolerates = ("404",)
    visit.context.route("**/bundle.json", lambda route: route.fulfill(status=404))
    page = visit.open()
    error_card(page, "network")


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


def test_a_system_prompt_that_is_too_long(visit: Visit) -> None:
    page = visit.chat()
    page.get_by_role("button", name="Settings").click()
    page.get_by_label("System prompt").fill("Be brief. " * 5000)
    page.keyboard.press("Escape")
    page.evaluate("(error) => { fake.chatError = error; }", FULL)
    send(page, "Hello", wait=False)
    error_card(page, "long_system")
    page.get_by_role("button", name="Open the settings").click()
    page.get_by_label("System prompt").fill("Be brief.")
    page.keyboard.press("Escape")
    page.evaluate("fake.chatError = null")
    page.get_by_role("button", name="Try again").click()
    expect(answers(page)).to_contain_text("You said: Hello")
