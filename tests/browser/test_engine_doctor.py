"""Known answers of all kernels, asked for in a page."""

import pytest
from playwright.sync_api import Page


def test_doctor_says_how_far_it_is(page: Page) -> None:
    """As long as it is let: on Tint, the tests of kernels on Dawn go through the same answers."""
    seen, failure = page.evaluate("""async () => {
      const { Engine } = await import("/engine/engine.js");
      const engine = await Engine.start();
      const seen = [];
      const onProgress = ({ stage, done, total }) => {
        seen.push([stage, done, total]);
        if (done === 5) engine.close();
      };
      return [seen, await engine.doctor({ onProgress }).then(() => null, ({ kind }) => kind)];
    }""")
    (total,) = {total for _, _, total in seen}
    assert total > 200
    assert seen == [["kernels", number, total] for number in range(1, 6)]
    assert failure == "cancelled"


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_every_kernel_gives_the_known_answers(page: Page) -> None:
    """`doctor` in the page, on Tint and without shader-f16."""
    answers = page.evaluate("""async () => {
      const { Engine } = await import("/engine/engine.js");
      const engine = await Engine.start();
      return engine.doctor();
    }""")
    assert len(answers) > 200
    assert [answer for answer in answers if not answer["passed"]] == []
