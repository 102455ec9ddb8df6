/** One message on the page. */

import { withoutThoughts, withThoughts } from "./conversation.js";
import { button, copyButton, el, iconButton } from "./dom.js";
import { editOf, forgetEdits, keepEdit } from "./edits.js";
import { counted, duration, number } from "./format.js";
import { MarkdownView } from "./markdown.js";

/**
 * @typedef {object} Handlers what can be done with a message; what is missing is not offered
 * @property {(message: object) => void} [regenerate]
 * @property {(message: object, text: string) => string | null} [edit] what stands in the way, if anything
 * @property {(message: object) => void} [show] another version
 * @property {(message: object) => object[]} [versions]
 */

export class MessageView {
  #markdown;
  #thoughts = null;
  #handlers;
  #links;
  #drawn = "";

  /**
   * @param {import("./conversation.js").Message} message
   * @param {Handlers} handlers
   * @param {{links?: boolean}} [options]
   */
  constructor(message, handlers, { links = true } = {}) {
    this.message = message;
    this.#handlers = handlers;
    this.#links = links;
    const own = message.role === "user";
    this.#markdown = own ? null : new MarkdownView({ links });
    this.body = el("div", { class: "message-body" }, own ? el("p", { class: "own-words" }, message.content) : this.#markdown.element);
    this.foot = el("div", { class: "message-foot" });
    this.element = el(
      "li",
      { class: `message ${message.role}` },
      el("h3", { class: "unseen" }, own ? "You" : "Answer"),
      this.body,
      this.foot,
    );
    const edited = own && handlers.edit ? editOf(message.id) : undefined;
    if (edited !== undefined) this.#edit(edited);
  }

  /**
   * Shows the message as it is now.
   *
   * @param {boolean} running whether it is being written
   * @param {string | null} [busy] why nothing can be asked now
   */
  update(running, busy = null) {
    const { message } = this;
    this.element.classList.toggle("running", running);
    if (this.#markdown) this.#draw(running);
    const versions = this.#handlers.versions?.(message) ?? [message];
    const state = JSON.stringify([running, busy, message.state, message.finish, message.speed, versions.map(({ id }) => id)]);
    if (state === this.#drawn) return;
    this.#drawn = state;
    this.foot.replaceChildren(...(running ? [] : this.#footing(versions, busy)));
  }

  /** Only the text, which has grown. */
  grow() {
    this.#draw(true);
  }

  #draw(running) {
    const { thoughts, text, thinking } = withThoughts(this.message.content);
    if ((thoughts || thinking) && !this.#thoughts) this.#addThoughts();
    if (this.#thoughts) {
      this.#thoughts.view.show(thoughts, running && thinking);
      this.#thoughts.summary.textContent = thinking && running ? "Thinking…" : "Thoughts";
    }
    this.#markdown.show(text, running);
    this.element.classList.toggle("waiting", running && !this.message.content);
  }

  #addThoughts() {
    const view = new MarkdownView({ links: this.#links });
    const summary = el("summary", {}, "Thinking…");
    this.#thoughts = { view, summary };
    this.body.prepend(el("details", { class: "thoughts" }, summary, view.element));
  }

  #footing(versions, busy) {
    const { message } = this;
    const { edit, regenerate } = this.#handlers;
    const held = busy ? { disabled: true, title: busy } : {};
    const tools = el(
      "div",
      { class: "tools" },
      versions.length > 1 && this.#switcher(versions, busy),
      copyButton(message.role === "user" ? "Copy message" : "Copy answer", () => withoutThoughts(message.content)),
      message.role === "user" && edit && iconButton("pencil", "Edit message", () => this.startEditing(), held),
      message.role === "assistant" && regenerate && iconButton("again", "Another answer", () => regenerate(message), held),
    );
    const note = this.#note();
    return [tools, note && el("p", { class: "note" }, note), message.speed && el("p", { class: "figures" }, figures(message))].filter(Boolean);
  }

  #switcher(versions, busy) {
    const at = versions.findIndex(({ id }) => id === this.message.id);
    const turn = (by) => this.#handlers.show(versions[at + by]);
    return el(
      "span",
      { class: "versions", role: "group", "aria-label": "Versions" },
      iconButton("left", "Earlier version", () => turn(-1), { disabled: Boolean(busy) || at === 0 }),
      el("span", {}, `${at + 1}/${versions.length}`),
      iconButton("right", "Later version", () => turn(1), { disabled: Boolean(busy) || at === versions.length - 1 }),
    );
  }

  /** Why an answer ended before its end. */
  #note() {
    const { state, finish } = this.message;
    if (state === "stopped") return "Stopped";
    if (state === "interrupted") return "Interrupted";
    if (finish === "length") return "Cut off: the longest answer, or the context, was reached";
    return null;
  }

  /** Lets the user write another text in place of the message. */
  startEditing() {
    if (!this.body.isConnected) return;
    const field = this.#edit(this.message.content);
    field.focus();
    field.setSelectionRange(field.value.length, field.value.length);
  }

  /** Puts a field in place of the text, which goes only when its text was taken; other conversations don't end it. */
  #edit(text) {
    const { message } = this;
    const rows = Math.min(12, text.split("\n").length + 1);
    const field = el("textarea", { class: "edit-field", "aria-label": "Edited message", rows, oninput: () => keepEdit(message.id, field.value) });
    field.value = text;
    const end = () => {
      forgetEdits([message.id]);
      form.replaceWith(this.body);
      this.foot.hidden = false;
      this.foot.querySelector(".tools button:last-child")?.focus();
    };
    const send = () => {
      const edited = field.value.trim();
      const obstacle = edited ? this.#handlers.edit(message, edited) : null;
      why.textContent = obstacle ?? "";
      if (!obstacle) end();
    };
    const why = el("p", { class: "field-error", role: "alert" });
    const form = el(
      "form",
      {
        class: "edit",
        onsubmit: (event) => {
          event.preventDefault();
          send();
        },
        onkeydown: (event) => {
          if (event.key === "Escape") end();
          // on a button, Enter is the button's
          if (event.key === "Enter" && event.target === field && !event.shiftKey && !event.isComposing) send();
          else if (event.key !== "Escape") return;
          event.preventDefault();
          event.stopPropagation();
        },
      },
      field,
      why,
      el("div", { class: "buttons end" }, button("Cancel", end), el("button", { class: "button primary" }, "Send")),
    );
    this.body.replaceWith(form);
    this.foot.hidden = true;
    return field;
  }
}

/** @param {import("./conversation.js").Message} message @returns {string} how fast it came */
function figures({ speed, usage }) {
  const parts = [`first token after ${duration(speed.firstTokenMs / 1000)}`, counted(usage.completion_tokens, "token")];
  if (speed.perSecond) parts.unshift(`${number(speed.perSecond)} tokens/s`);
  return parts.join(" · ");
}
