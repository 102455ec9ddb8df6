/** An error as people see it: words, and buttons that do something about it. */

import { button, copyText, el } from "./dom.js";
import { explain, WEBGPU_FLAG } from "./errors.js";
import { icon } from "./icons.js";

const LABELS = {
  retry: "Try again",
  shorter: "Load with a shorter context",
  load: "Load the model",
  choose: "Choose another model",
  shorten: "Leave out the oldest messages",
  edit: "Edit the message",
  settings: "Open the settings",
  new: "New conversation",
  over: "Start over",
  clear: "Remove kept models",
  secure: "Open by https",
  flag: "Copy the address of the switch",
};

/** What every place can do by itself. */
const EVERYWHERE = {
  secure: () => location.assign(location.href.replace(/^http:/, "https:")),
  flag: () => copyText(WEBGPU_FLAG),
};

/**
 * @param {unknown} error
 * @param {Partial<Record<import("./errors.js").Action, (value?: string) => void>>} handlers those actions that this
 *   place knows; others are not offered
 * @returns {HTMLElement}
 */
export function errorCard(error, handlers) {
  const { title, text, steps, detail, actions } = explain(error);
  const all = { ...EVERYWHERE, ...handlers };
  const offered = actions.filter((action) => action !== "key" && all[action]);
  return el(
    "section",
    { class: "error-card", role: "alert", "data-kind": error?.kind ?? "internal" },
    el("p", { class: "error-title" }, icon("warning"), el("strong", {}, title)),
    el("p", {}, text),
    steps && el("ul", {}, ...steps.map((step) => el("li", {}, step))),
    detail && detail !== text && el("p", { class: "error-detail" }, detail),
    actions.includes("key") && all.key && keyForm(all.key),
    offered.length > 0 &&
      el("div", { class: "buttons" }, ...offered.map((action, i) => button(LABELS[action], () => all[action](), { class: i ? "button" : "button primary" }))),
  );
}

/** @param {(key: string) => void} use */
function keyForm(use) {
  const field = el("input", { type: "password", id: "api-key", autocomplete: "off", spellcheck: "false", required: true });
  return el(
    "form",
    {
      class: "line-form",
      onsubmit: (event) => {
        event.preventDefault();
        use(field.value.trim());
      },
    },
    el("label", { for: "api-key" }, "API key"),
    el("div", { class: "line" }, field, el("button", { class: "button primary" }, "Use this key")),
  );
}
