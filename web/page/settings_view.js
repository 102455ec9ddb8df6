/** The dialog of settings. */

import { button, el } from "./dom.js";
import { openDialog } from "./dialog.js";
import { defaults, FIELDS, fits, keepSettings } from "./settings.js";
import { chosenTheme, chooseTheme, THEMES } from "./themes.js";

export const SHORTCUTS = [
  ["Enter", "Send the message"],
  ["Shift + Enter", "New line"],
  ["Esc", "Stop the answer"],
  ["Alt + N", "New chat"],
  ["Alt + S", "Settings"],
  ["Alt + B", "Show or hide the conversations"],
  ["/", "Go to the message field"],
  ["?", "This list"],
];

/**
 * @param {import("./settings.js").Settings} settings changed in place
 * @param {() => void} onchange
 */
export function openSettings(settings, onchange) {
  const changed = () => {
    keepSettings(settings);
    onchange();
  };
  const system = el("textarea", { id: "system", rows: 4, placeholder: "You are a helpful assistant.", oninput: () => set("system", system.value) });
  const set = (name, value) => {
    settings[name] = value;
    changed();
  };
  const rows = FIELDS.map((field) => fieldRow(field, set));
  const fill = () => {
    system.value = settings.system;
    for (const row of rows) row.fill(settings);
  };
  const reset = () => {
    Object.assign(settings, defaults());
    changed();
    fill();
  };
  fill();
  const dialog = openDialog(
    "Settings",
    [
      el(
        "div",
        { class: "dialog-body" },
        el("label", { for: "system", class: "field-label" }, "System prompt"),
        el("p", { class: "hint", id: "system-hint" }, "Tells the model who it is and how to answer. It goes before every conversation."),
        system,
        el("h3", {}, "How answers are made"),
        el("div", { class: "fields" }, ...rows.map((row) => row.element)),
        el("div", { class: "buttons" }, button("Reset to defaults", reset, { icon: "again" })),
        el("h3", {}, "Looks"),
        themeChoice(),
        el("h3", {}, "Keyboard"),
        shortcutList(),
      ),
    ],
    { class: "settings" },
  );
  // Esc leaves at once only where nothing had to be mended
  dialog.addEventListener("cancel", (event) => {
    if (rows.filter((row) => row.settle()).length) event.preventDefault();
  });
  return dialog;
}

/** A labelled field for a figure, with a slider where that helps. */
function fieldRow(field, set) {
  const { name, label, help, empty, least, most, step } = field;
  const id = `field-${name}`;
  const limits = { min: least, max: most, step };
  const exact = el("input", {
    id,
    type: "number",
    inputmode: step < 1 ? "decimal" : "numeric",
    placeholder: empty,
    "aria-describedby": `${id}-help`,
    ...limits,
    oninput: () => take(exact),
  });
  const slider =
    field.slider && el("input", { type: "range", "aria-label": `${label}, slider`, tabindex: "-1", ...limits, oninput: () => take(slider) });
  const valueOf = (input) => (input.value.trim() === "" ? null : Number(input.value));
  const fitsNow = (input) => fits(field, valueOf(input)) && !input.validity.badInput;
  const range = `A ${step < 1 ? "number" : "whole number"} from ${least} to ${most.toLocaleString("en")}, please.`;
  const wrong = el("p", { class: "field-error", role: "status", hidden: true }, range);
  let taken = null;
  const take = (input) => {
    const good = fitsNow(input);
    wrong.hidden = good;
    wrong.textContent = range;
    exact.setAttribute("aria-invalid", String(!good));
    if (!good) return;
    for (const other of [exact, slider]) if (other && other !== input) other.value = input.value;
    taken = valueOf(input);
    set(name, taken);
  };
  // what can't be becomes the nearest that can, where everybody sees it
  const settle = () => {
    if (wrong.hidden || fitsNow(exact)) return false;
    const value = valueOf(exact);
    const near = value === null ? taken : Math.min(most, Math.max(least, step < 1 ? value : Math.round(value)));
    exact.value = near ?? "";
    take(exact);
    wrong.textContent = `${range} ${near === null ? "It is empty again." : `It is ${near.toLocaleString("en")} now.`}`;
    wrong.hidden = false;
    wrong.scrollIntoView({ block: "nearest" });
    return true;
  };
  exact.addEventListener("change", settle);
  const fill = (settings) => {
    taken = settings[name];
    for (const input of [exact, slider]) if (input) input.value = taken ?? "";
    exact.setAttribute("aria-invalid", "false");
    wrong.hidden = true;
  };
  const element = el(
    "div",
    { class: "field" },
    el("label", { for: id }, label),
    el("div", { class: "field-inputs" }, slider, exact),
    el("p", { class: "hint", id: `${id}-help` }, help),
    wrong,
  );
  return { element, fill, settle };
}

function themeChoice() {
  const current = chosenTheme();
  const options = THEMES.map(({ id, label }) =>
    el(
      "label",
      {},
      el("input", { type: "radio", name: "theme", value: id, checked: id === current, onchange: () => chooseTheme(id) }),
      el("span", {}, label),
    ),
  );
  return el("fieldset", { class: "segments" }, el("legend", { class: "unseen" }, "Colours"), ...options);
}

function shortcutList() {
  return el(
    "dl",
    { class: "shortcuts" },
    ...SHORTCUTS.map(([keys, what]) => el("div", {}, el("dt", {}, ...keys.split(" + ").map((key) => el("kbd", {}, key))), el("dd", {}, what))),
  );
}

/** The keyboard's shortcuts alone. */
export function openShortcuts() {
  return openDialog("Keyboard", [shortcutList()], { class: "small" });
}
