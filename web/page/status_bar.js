/** What runs, on what, how fast, and how much of its context is used. */

import { el } from "./dom.js";
import { number } from "./format.js";
import { icon } from "./icons.js";

export class StatusBar {
  /** @param {import("./chat.js").Chat} chat @param {() => void} showModels */
  constructor(chat, showModels) {
    this.chat = chat;
    this.name = el("span", { class: "model-name" });
    this.adapter = el("span", { class: "adapter" });
    this.model = el("button", { type: "button", class: "model-chip", onclick: showModels }, el("span", { class: "model-words" }, this.name, this.adapter), icon("down"));
    this.pace = el("span", { class: "pace" });
    this.filled = el("span", {});
    this.meter = el("div", { class: "meter", role: "meter", "aria-label": "Context used", "aria-valuemin": 0 }, this.filled);
    this.room = el("span", { class: "room" });
    this.context = el("div", { class: "context" }, this.meter, this.room);
    this.element = el("div", { class: "status" }, this.model, this.pace, this.context);
    chat.addEventListener("text", () => this.#soon());
    this.waits = false;
    this.update();
  }

  /** A few times a second is enough for figures. */
  #soon() {
    if (this.waits) return;
    this.waits = true;
    setTimeout(() => {
      this.waits = false;
      this.update();
    }, 250);
  }

  update() {
    const { loaded, used, pace, answering } = this.chat;
    this.model.hidden = !loaded;
    this.model.disabled = !this.chat.engine.loads && Boolean(loaded);
    this.name.textContent = loaded?.name ?? "";
    this.adapter.textContent = loaded?.adapter ?? "";
    this.model.title = loaded ? [loaded.adapter, loaded.detail, ...loaded.warnings].filter(Boolean).join("\n") : "";
    this.pace.textContent = answering && pace ? `${number(pace)} tokens/s` : "";
    this.context.hidden = !loaded?.context;
    if (!loaded?.context) return;
    const part = Math.min(1, used / loaded.context);
    this.meter.setAttribute("aria-valuemax", loaded.context);
    this.meter.setAttribute("aria-valuenow", Math.min(used, loaded.context));
    this.meter.classList.toggle("nearly", part > 0.85);
    this.filled.style.width = `${100 * part}%`;
    this.room.textContent = `${number(used)} / ${number(loaded.context)}`;
    this.context.title = `${Math.round(100 * part)} % of the context is used`;
  }
}
