"""Markdown of models: what is hostile does nothing, and what is half written looks like what it becomes."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.page.conftest import Visit, VisitFactory, answers, send

HOSTILE = [
    "<script>window.hurt = 1</script>",
    "<img src=x onerror='window.hurt = 1'>",
    "<svg onload='window.hurt = 1'><script>window.hurt = 1</script></svg>",
    "<iframe srcdoc='<script>parent.hurt = 1</script>'></iframe>",
    "<a href='javascript:window.hurt = 1'>click</a>",
    "[click](javascript:window.hurt=1)",
    "[click](JaVaScRiPt:window.hurt=1)",
    "[click](&#106;avascript:window.hurt=1)",
    "[click](java\u0000script:window.hurt=1)",
    "[click](data:text/html,<script>window.hurt=1</script>)",
    "[click](vbscript:x)",
    "<javascript:window.hurt=1>",
    "![pixel](https://example.com/track.png)",
    '![x](x"onerror="window.hurt=1)',
    '[x](https://example.com/"onclick="window.hurt=1)',
    "[a][b]\n\n[b]: javascript:window.hurt=1",
    "```html\n<script>window.hurt = 1</script>\n```",
    '```"><img src=x onerror=window.hurt=1>\ncode\n```',
    "<style>body { display: none }</style>",
    "<form action='https://example.com'><input name=q></form>",
    "<math><mtext><table><mglyph><style><img src=x onerror=window.hurt=1>",
    "<noscript><p title='</noscript><img src=x onerror=window.hurt=1>'>",
    "| <img src=x onerror=window.hurt=1> |\n|---|\n| `</td><script>window.hurt=1</script>` |",
]

DOCUMENTS = {
    "code with marks": "Here `code with ** in it` and ``a ` tick`` **end**",
    "emphasis": "Some **bold words** and *one more*, ~~gone~~, `code` and ***both***.\n\nEnd of **it**.",
    "lists": "Tips:\n\n- **First** thing\n- Second *thing*\n  - nested `a`\n\n"
    "1. One\n2. Two\n\n- [ ] to do\n- [x] done\n",
    "headings": "# Title\n\nText\n\n## Second\nText with - dash\n\n### Third\n\n---\n\nLast",
    "code": "Look:\n\n"
    "```python\ndef f(x):\n    return x ** 2  # **no**\n\n\nprint(f(3))\n```\n\nAnd `x ** 2`.\n\n~~~\nplain\n~~~",
    "table": "Numbers:\n\n| a | b |\n|---|--:|\n| **1** | 2 |\n| 3 | 4 |\n\nDone.",
    "links": "See [the page](https://example.com/a_b_c) and <https://example.com>, "
    "https://example.com/x.\n\n> A quote\n> of two lines",
    "references": "A [link][1] here.\n\nMore text.\n\n[1]: https://example.com\n",
    "snake": "Call snake_case_name(a*b*c) with 2 * 3 * 4 and __init__, or * alone, \\*escaped\\*.\n\nfoo_bar_baz",
    "windows": "One\r\n\r\n- a\r\n- b\r\n\r\nTwo\r\n",
    "unicode": "Emoji 👩‍👩‍👧 and **strong 東京** text\n\n- ünïcode *ok*\n",
}

SHOW = """async ([text, pieces]) => {
  const { MarkdownView } = await import("/page/markdown.js");
  const whole = new MarkdownView();
  whole.show(text, false);
  const grown = new MarkdownView();
  const seen = [];
  for (let end = 1; end <= text.length; end += pieces) {
    grown.show(text.slice(0, end), true);
    seen.push(grown.element.innerText ?? grown.element.textContent);
  }
  grown.show(text, false);
  return { whole: whole.element.innerHTML, grown: grown.element.innerHTML, seen };
}"""


@pytest.fixture(scope="module")
def show(browser: Any, fake_site: str) -> Callable[..., dict[str, Any]]:
    page: Page = browser.new_page()
    page.goto(fake_site + "page/format.js")
    page.goto(fake_site)

    def shown(text: str, pieces: int = 1) -> dict[str, Any]:
        found: dict[str, Any] = page.evaluate(SHOW, [text, pieces])
        return found

    return shown


@pytest.mark.parametrize("name", DOCUMENTS)
@pytest.mark.parametrize("pieces", [1, 5])
def test_a_text_that_grew_is_as_one_that_came_whole(show: Callable[..., Any], name: str, pieces: int) -> None:
    found = show(DOCUMENTS[name], pieces)
    assert found["grown"] == found["whole"]


@pytest.mark.parametrize("name", ["emphasis", "lists", "headings", "table", "links", "unicode"])
def test_marks_are_not_seen_while_a_text_grows(show: Callable[..., Any], name: str) -> None:
    for seen in show(DOCUMENTS[name])["seen"]:
        for mark in ("**", "~~", "](", "```", "|", "# ", "[t", "- ["):
            assert mark not in seen, seen


def test_what_is_finished_stays_on_the_page(show: Callable[..., Any], visit: Visit) -> None:
    page = visit.open()
    kept = page.evaluate(
        """async (text) => {
          const { MarkdownView } = await import("/page/markdown.js");
          const view = new MarkdownView();
          const firsts = new Set();
          const codes = new Set();
          for (let end = 1; end <= text.length; end += 1) {
            view.show(text.slice(0, end), true);
            if (end > 40) firsts.add(view.element.firstChild);
            const code = view.element.querySelector(".code code");
            if (code) codes.add(code);
          }
          view.show(text, false);
          return [firsts.size, codes.size, view.element.querySelector(".code code").textContent];
        }""",
        "First paragraph.\n\nSecond one.\n\nThird.\n\n```js\n" + "let a = 1;\n" * 20 + "```\n\nLast.",
    )
    assert kept == [1, 1, "\n".join(["let a = 1;"] * 20)]


def test_code_is_coloured_and_stays_the_same(visit: Visit) -> None:
    page = visit.open()
    codes = {
        "python": '# note\ndef f(x):\n    return x + 1.5, \'it\'\'s\', """a\nb"""  # <b>\n',
        "rust": '/* a */ fn main() { let x = 0xff; println!("{}", x); } // <script>\n',
        "sql": "SELECT a FROM b -- 'why\n",
        "html": "<!-- x --><a href='y'>z</a>\n",
        "brainfuck": "+++[>--]\n",
    }
    found = page.evaluate(
        """async (codes) => {
          const { highlighted } = await import("/page/highlight.js");
          return Object.entries(codes).map(([language, code]) => {
            const box = document.createElement("code");
            box.append(...highlighted(code, language));
            const pieces = [...box.querySelectorAll("span")].map((e) => `${e.className.slice(5)}:${e.textContent}`);
            return [box.textContent === code, pieces];
          });
        }""",
        codes,
    )
    assert all(same for same, _ in found)
    kinds = [set(each) for _, each in found]
    assert {"comment:# note", "keyword:def", "call:f", "keyword:return", "number:1.5", "comment:# <b>"} <= kinds[0]
    assert {"comment:/* a */", "keyword:fn", "call:main", "number:0xff", "comment:// <script>"} <= kinds[1]
    assert {"keyword:SELECT", "comment:-- 'why"} <= kinds[2] and "comment:<!-- x -->" in kinds[3] and not kinds[4]


@pytest.mark.parametrize("links", [True, False])
def test_hostile_markdown_does_nothing(make_visit: VisitFactory, links: bool) -> None:
    visit = make_visit()
    page = visit.open()
    page.evaluate(
        """async ([texts, links]) => {
          const { MarkdownView } = await import("/page/markdown.js");
          for (const text of [...texts, texts.join("\\n\\n")]) {
            const view = new MarkdownView({ links });
            document.body.append(view.element);
            for (let end = 1; end < text.length; end += 3) view.show(text.slice(0, end), true);
            view.show(text, false);
          }
        }""",
        [HOSTILE, links],
    )
    page.wait_for_timeout(200)
    assert page.evaluate("window.hurt") is None
    found = page.evaluate(
        """() => {
          const all = [...document.querySelectorAll(".markdown *:not(.code-head *)")];
          const tags = new Set(all.map((each) => each.localName));
          const events = all.flatMap((each) => each.getAttributeNames().filter((name) => name.startsWith("on")));
          const anchors = all.filter((each) => each.localName === "a");
          const links = anchors.map((each) => [each.protocol, each.target, each.rel]);
          return [[...tags], events, links];
        }"""
    )
    tags, events, anchors = found
    assert not {"script", "img", "svg", "iframe", "style", "form", "math", "noscript"} & set(tags)
    assert events == []
    assert all(each == ["https:", "_blank", "noopener noreferrer"] for each in anchors)
    assert bool(anchors) == links
    expect(page.locator(".markdown", has_text="window.hurt").first).to_be_visible()


def test_a_huge_answer_is_shown_in_time(visit: Visit) -> None:
    page = visit.open()
    took = page.evaluate(
        """async () => {
          const { MarkdownView } = await import("/page/markdown.js");
          const view = new MarkdownView();
          document.body.append(view.element);
          let text = "";
          const began = performance.now();
          for (let i = 0; i < 400; i += 1) {
            text += `Paragraph ${i} with **bold** and \\`code\\`.\\n\\n- a\\n- b\\n\\n`;
            view.show(text, true);
          }
          view.show(text, false);
          return (performance.now() - began) / 400;
        }"""
    )
    assert took < 25, f"{took} ms a piece"
    deep = page.evaluate(
        """async () => {
          const { MarkdownView } = await import("/page/markdown.js");
          const began = performance.now();
          const lengths = { ">": 3000, "*": 20000, "[": 5000, "`": 9999, a: 300000, "- ": 2000, "**a ": 3000,
                            "![": 3000, "|": 5000, "<": 9999 };
          for (const [part, count] of Object.entries(lengths)) {
            const text = part.repeat(count);
            const view = new MarkdownView();
            view.show(text, true);
            view.show(text, false);
          }
          return performance.now() - began;
        }"""
    )
    assert deep < 15_000, deep


def test_answers_are_markdown_and_questions_are_not(visit: Visit) -> None:
    page = visit.chat(answers=["# Title\n\n**bold** [link](https://example.com)"])
    send(page, "**mine** <b>b</b>")
    expect(page.locator(".message.user .own-words")).to_have_text("**mine** <b>b</b>")
    expect(answers(page).locator("h4.h1")).to_have_text("Title")
    expect(answers(page).locator("a")).to_have_attribute("rel", "noopener noreferrer")


def test_texts_from_the_right(visit: Visit) -> None:
    """Lists have their marks there too; code goes from the left wherever it stands."""
    page = visit.chat(answers=["שלום, x\n\n- פריט\n\n  ```\n  code\n  ```\n\nEnglish\n\n> ציטוט"])
    send(page, "Hello")
    parts = answers(page).locator(".block, .code")
    assert parts.evaluate_all("(all) => all.map((each) => getComputedStyle(each).direction)") == [
        "rtl",
        "rtl",
        "ltr",
        "ltr",
        "rtl",
    ]
