/**
 * Markdown of models as elements, also while it is being written: what is finished stays as it is on the page, and only
 * the last blocks are made anew.
 */

import { Marked } from "../vendor/marked.js";
import DOMPurify from "../vendor/purify.js";
import { copyButton, el } from "./dom.js";
import { highlighted } from "./highlight.js";
import { healed } from "./partial.js";

const SAFE = {
  ALLOWED_TAGS: [
    "a", "blockquote", "br", "code", "del", "em", "h4", "hr", "input", "li", "ol", "p", "pre", "span", "strong", "table",
    "tbody", "td", "th", "thead", "tr", "ul",
  ],
  ALLOWED_ATTR: ["align", "checked", "class", "disabled", "href", "rel", "start", "target", "title", "type"],
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:)/i,
  // the rule on addresses is not for these
  ADD_URI_SAFE_ATTR: ["align", "rel", "start", "target", "type"],
  RETURN_DOM_FRAGMENT: true,
};

const escaped = (text) => text.replace(/[&<>"']/g, (letter) => `&#${letter.charCodeAt(0)};`);

/** @param {boolean} links whether addresses can be followed */
function makeMarked(links) {
  const anchor = (href, label) => {
    if (!links || !/^(?:https?:|mailto:)/i.test(href)) return label;
    return `<a href="${escaped(href)}" target="_blank" rel="noopener noreferrer">${label}</a>`;
  };
  return new Marked({
    gfm: true,
    breaks: true,
    renderer: {
      // what looks like HTML is meant to be seen
      html: ({ text }) => escaped(text),
      // the page has headings of its own above: all of an answer's are below them
      heading({ tokens, depth }) {
        return `<h4 class="h${depth}">${this.parser.parseInline(tokens)}</h4>`;
      },
      link({ href, tokens }) {
        return anchor(href, this.parser.parseInline(tokens));
      },
      // nothing is fetched from elsewhere
      image: ({ href, text }) => anchor(href, escaped(text || href)),
    },
  });
}

const WITH_LINKS = makeMarked(true);
const WITHOUT_LINKS = makeMarked(false);

/** An element that shows markdown which may grow. */
export class MarkdownView {
  #blocks = [];
  #old = [];
  #text = "";
  #plain = false;
  #marked;

  /** @param {{links?: boolean}} [options] */
  constructor({ links = true } = {}) {
    this.element = el("div", { class: "markdown" });
    this.#marked = links ? WITH_LINKS : WITHOUT_LINKS;
  }

  /**
   * @param {string} text all of it
   * @param {boolean} growing whether more is to come
   */
  show(text, growing) {
    try {
      if (this.#plain) this.#forget();
      this.#update(text, growing);
    } catch {
      // nested deeper than the parser goes
      this.#forget();
      this.#plain = true;
      this.element.append(el("p", { class: "plain" }, text));
    }
  }

  #forget() {
    this.#blocks = [];
    this.#old = [];
    this.#plain = false;
    this.element.replaceChildren();
  }

  #update(text, growing) {
    text = text.replace(/\r\n?/g, "\n");
    if (!growing || !text.startsWith(this.#text)) this.#setAside(0);
    // links may be defined at a text's end
    if (!growing && /^ {0,3}\[[^\]]+\]:/m.test(text)) this.#trim();
    this.#text = text;
    // a block may still change while another follows it: a list goes on after an empty line
    this.#setAside(Math.max(0, this.#blocks.length - 2));
    const done = this.#blocks.reduce((length, block) => length + block.raw.length, 0);
    const rest = text.slice(done);
    for (const token of this.#marked.lexer(growing ? healed(rest) : rest)) this.#append(token, growing);
    this.#trim();
  }

  /** Sets aside all blocks but the first so many; they are used again where they still fit. */
  #setAside(count) {
    this.#old = [...this.#blocks.splice(count).filter((block) => block.element), ...this.#old];
  }

  #append(token, growing) {
    if (token.type === "space" || token.type === "def") {
      const last = this.#blocks.at(-1);
      if (last) last.raw += token.raw;
      else this.#blocks.push({ raw: token.raw, shown: null, element: null });
      return;
    }
    const old = this.#old.shift();
    const block = { raw: token.raw, type: token.type, shown: token.raw, element: null };
    if (old?.shown === token.raw) block.element = old.element;
    else if (token.type === "code" && old?.type === "code" && old.lang === token.lang) block.element = rewritten(old.element, token.text);
    else block.element = token.type === "code" ? codeBlock(token) : this.#rendered(token, growing);
    if (token.type === "code" && (!growing || isClosed(token.raw))) colour(block.element);
    block.lang = token.lang;
    if (!old) this.element.append(block.element);
    else if (old.element !== block.element) old.element.replaceWith(block.element);
    this.#blocks.push(block);
  }

  #trim() {
    for (const { element } of this.#old) element.remove();
    this.#old = [];
  }

  #rendered(token, growing) {
    const tokens = Object.assign([token], { links: {} });
    const clean = DOMPurify.sanitize(this.#marked.parser(tokens), SAFE);
    for (const table of clean.querySelectorAll("table")) {
      const scroll = el("div", { class: "table", tabindex: "0", role: "group", "aria-label": "Table" });
      table.replaceWith(scroll);
      scroll.append(table);
    }
    for (const code of clean.querySelectorAll("pre > code")) {
      const block = codeBlock({ text: code.textContent.replace(/\n$/, ""), lang: code.className.replace("language-", "") });
      if (!growing) colour(block);
      code.parentNode.replaceWith(block);
    }
    for (const box of clean.querySelectorAll("input")) box.setAttribute("aria-label", box.checked ? "Done" : "To do");
    // each block from the side that its language begins at
    return el("div", { class: "block", dir: "auto" }, clean);
  }
}

/** Code with its language and a button that copies it. */
function codeBlock({ text, lang }) {
  const code = el("code", {}, text);
  const language = (lang ?? "").trim().split(/\s/)[0].slice(0, 24);
  return el(
    "div",
    { class: "code", dir: "ltr", "data-language": language },
    el("div", { class: "code-head" }, el("span", {}, language || "text"), copyButton("Copy code", () => code.textContent)),
    el("pre", { tabindex: "0", "aria-label": `Code${language ? ` in ${language}` : ""}`, role: "group" }, code),
  );
}

/** The same element with more code in it, so that what is marked and scrolled there stays so. */
function rewritten(element, text) {
  const code = element.querySelector("code");
  const { firstChild, childNodes } = code;
  if (childNodes.length === 1 && firstChild.data && text.startsWith(firstChild.data)) firstChild.appendData(text.slice(firstChild.length));
  else if (code.textContent !== text) code.textContent = text;
  return element;
}

/** Whether a block of code has come to its end. */
function isClosed(raw) {
  return /\n {0,3}(?:`{3,}|~{3,})\s*$/.test(raw);
}

/** Colours code that is whole: before, it changes with every letter. */
function colour(element) {
  const code = element.querySelector("code");
  if (!code.childElementCount) code.replaceChildren(...highlighted(code.textContent, element.dataset.language));
}
