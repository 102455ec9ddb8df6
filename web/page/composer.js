/** Where a message is written, sent and stopped. */

import { el, iconButton } from "./dom.js";
import { passing } from "./kept.js";

const DRAFT = "wgpu_engine draft";

export class Composer {
  /** @type {(text: string) => void} */
  onsend = () => {};
  /** @type {() => void} */
  onstop = () => {};

  /** @param {{keepsDraft?: boolean}} [options] */
  constructor({ keepsDraft = true } = {}) {
    this.keepsDraft = keepsDraft;
    this.field = el("textarea", {
      id: "message",
      rows: 1,
      placeholder: "Write a message",
      enterkeyhint: "send",
      "aria-describedby": "composer-hint",
      oninput: () => this.#changed(),
      onkeydown: (event) => this.#key(event),
    });
    this.sendButton = iconButton("send", "Send", () => this.#send(), { class: "round primary", disabled: true });
    this.stopButton = iconButton("stop", "Stop", () => this.onstop(), { class: "round", hidden: true });
    this.element = el(
      "form",
      {
        class: "composer",
        onsubmit: (event) => {
          event.preventDefault();
          this.#send();
        },
      },
      el("label", { for: "message", class: "unseen" }, "Message"),
      this.field,
      this.sendButton,
      this.stopButton,
    );
    if (keepsDraft) this.field.value = passing.get(DRAFT) ?? "";
    this.ready = false;
    this.answering = false;
    this.#changed();
  }

  /** Puts a text in the field. @param {string} text */
  write(text) {
    this.field.value = text;
    this.#changed();
    this.focus();
  }

  focus() {
    this.field.focus();
  }

  /** @param {{ready: boolean, answering: boolean}} state whether messages can be sent, and whether one is answered */
  update({ ready, answering }) {
    const hadFocus = document.activeElement === this.stopButton || document.activeElement === this.sendButton;
    Object.assign(this, { ready, answering });
    this.stopButton.hidden = !answering;
    this.sendButton.hidden = answering;
    this.#changed();
    if (hadFocus) this.focus();
  }

  #changed() {
    this.field.style.height = "auto";
    this.field.style.height = `${this.field.scrollHeight}px`;
    this.sendButton.disabled = !this.ready || !this.field.value.trim();
    if (this.keepsDraft) passing.set(DRAFT, this.field.value);
  }

  #key(event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    this.#send();
  }

  #send() {
    const text = this.field.value.trim();
    if (!text || !this.ready || this.answering) return;
    this.field.value = "";
    this.#changed();
    this.onsend(text);
  }
}
