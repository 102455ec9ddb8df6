"""Loading a model: how far it is, and what ends it."""

import pytest
from playwright.sync_api import expect

from tests.browser.page.conftest import Visit, answers, error_card, message_field, send, texts


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
                         ["weights", 6, 20], ["download", 20, 20], ["kernels", 1, 10], ["weights", 20, 20],
                         ["kernels", 1, 10]];
          for (const [stage, done, total] of steps) {
            view.note({ stage, done, total });
            seen.push([Math.round(100 * view.bar.value), rows().join(" ")]);
          }
          return seen;
        }"""
    )
    assert found == [
        [0, "now"],
        [20, "past now"],
        [26, "past now now"],
        [36, "past now now"],
        [39, "past now now"],
        [59, "past past now"],
        [59, "past past now"],
        [80, "past past past"],
        [82, "past past past now"],
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


def test_a_second_click_loads_nothing_more(visit: Visit) -> None:
    page = visit.open()
    expect(page.locator(".card")).to_be_visible()
    page.evaluate("for (const _ of [1, 2]) document.querySelector('.card .primary').click()")
    expect(message_field(page)).to_be_visible()
    page.wait_for_timeout(1000)
    expect(message_field(page)).to_be_visible()
    assert page.evaluate("fake.loads.length") == 1


@pytest.mark.parametrize("stage", ["startHeld", "loadHeld"])
def test_a_cancelled_load_ends_at_once(visit: Visit, stage: str) -> None:
    """Whatever it waits for, be it Pyodide or a kernel."""
    page = visit.open(**{stage: True})
    load = page.get_by_role("button", name="Load Fake 135M")
    load.click()
    page.get_by_role("button", name="Cancel").click()
    expect(load).to_be_enabled()
    load.click()
    page.evaluate("(stage) => { fake[stage] = false; }", stage)
    send(page, "Hello")
    assert page.evaluate("fake.closed") == 1
    expect(page.locator(".error-card")).to_have_count(0)


def test_a_device_that_is_lost_while_a_model_is_loaded(visit: Visit) -> None:
    page = visit.open(loadHeld=True)
    page.get_by_role("button", name="Load Fake 135M").click()
    expect(page.locator(".stages")).to_contain_text("Fetching the model")
    page.evaluate("fake.lose('the driver was reset'); fake.loadHeld = false")
    error_card(page, "lost")
    page.locator(".error-card").get_by_role("button", name="Load the model").click()
    send(page, "Hello")
    expect(answers(page)).to_contain_text("You said: Hello")


def test_a_list_of_models_that_comes_late_hides_nothing(visit: Visit) -> None:
    page = visit.chat()
    page.evaluate("fake.listHeld = true")
    page.locator(".model-chip").click()
    page.keyboard.press("Alt+n")
    page.evaluate("fake.listHeld = false")
    page.wait_for_timeout(300)
    expect(message_field(page)).to_be_visible()


def test_another_model_in_mid_answer(visit: Visit) -> None:
    page = visit.chat(holdAfter=2)
    send(page, "One two three", wait=False)
    expect(answers(page)).to_contain_text("You said:")
    page.locator(".model-chip").click()
    page.evaluate("fake.holdAfter = Infinity")
    page.get_by_role("button", name="Load Fake 135M").click()
    expect(message_field(page)).to_be_visible()
    send(page, "Go on")
    expect(answers(page).last).to_contain_text("You said: Go on")
    assert page.evaluate("[fake.loads.length, fake.unloaded, fake.closed]") == [2, 1, 0]


def test_a_load_that_was_cancelled_leaves_the_next_one_alone(visit: Visit) -> None:
    page = visit.open()
    load = page.get_by_role("button", name="Load Fake 135M")
    expect(load).to_be_enabled()
    page.evaluate("""() => {
      const { gpu } = navigator;
      const real = gpu.requestAdapter.bind(gpu);
      let held = new Promise((go) => { fake.goOn = go; });
      gpu.requestAdapter = async () => {
        const mine = held;
        held = null;
        await mine;
        return real();
      };
    }""")
    load.click()
    page.get_by_role("button", name="Cancel").click()
    load.click()
    expect(message_field(page)).to_be_visible()
    page.evaluate("fake.goOn()")
    page.wait_for_timeout(300)
    assert page.evaluate("[fake.unloaded, fake.closed]") == [0, 0]
    send(page, "Hello")
    assert texts(page)[-1] == "You said: Hello"
