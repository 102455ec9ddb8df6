/** Dialogs that ask. */

import { button, el, iconButton } from "./dom.js";

let dialogs = 0;

/**
 * A dialog with a title; closing it takes it away.
 *
 * @param {string} title
 * @param {(Node | string | false)[]} content
 * @param {{class?: string, onclose?: () => void}} [options]
 * @returns {HTMLDialogElement}
 */
export function openDialog(title, content, { class: name, onclose } = {}) {
  const id = `dialog-${(dialogs += 1)}`;
  const dialog = el(
    "dialog",
    { class: `dialog ${name ?? ""}`, "aria-labelledby": id },
    el(
      "header",
      { class: "dialog-head" },
      el("h2", { id }, title),
      iconButton("cross", "Close", () => dialog.close()),
    ),
    ...content,
  );
  dialog.addEventListener("close", () => {
    dialog.remove();
    onclose?.();
  });
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/**
 * @param {string} title a question
 * @param {string} text what it would mean
 * @param {string} yes the button that does it
 * @returns {Promise<boolean>}
 */
export function confirm(title, text, yes) {
  return new Promise((resolve) => {
    let answer = false;
    const decide = () => {
      answer = true;
      dialog.close();
    };
    const buttons = el(
      "div",
      { class: "buttons end" },
      button("Cancel", () => dialog.close()),
      button(yes, decide, { class: "button danger" }),
    );
    const dialog = openDialog(title, [el("p", {}, text), buttons], { class: "small", onclose: () => resolve(answer) });
    buttons.firstChild.focus();
  });
}

/**
 * @param {string} title
 * @param {string} label of the field
 * @param {string} value that it has at first
 * @returns {Promise<string | null>} null where it was cancelled
 */
export function ask(title, label, value) {
  return new Promise((resolve) => {
    let answer = null;
    const field = el("input", { id: "asked", value, autocomplete: "off", maxlength: 200, required: true });
    const form = el(
      "form",
      {
        onsubmit: (event) => {
          event.preventDefault();
          answer = field.value.trim() || null;
          dialog.close();
        },
      },
      el("label", { for: "asked" }, label),
      field,
      el("div", { class: "buttons end" }, button("Cancel", () => dialog.close()), el("button", { class: "button primary" }, "Save")),
    );
    const dialog = openDialog(title, [form], { class: "small", onclose: () => resolve(answer) });
    field.select();
  });
}
