/** Elements in one expression. */

import { icon } from "./icons.js";

/**
 * @param {string} tag
 * @param {Record<string, unknown>} [props] attributes; functions listen to the event that `on…` names; `class` and
 *   `hidden` as in HTML; undefined, null and false are left out
 * @param {...(Node | string | null | undefined | false)} children
 * @returns {HTMLElement}
 */
export function el(tag, props = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === "function") made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

/**
 * A button that shows a picture; its label is for screen readers and the tooltip.
 *
 * @param {string} name of the picture
 * @param {string} label
 * @param {(event: Event) => void} onclick
 * @param {Record<string, unknown>} [props]
 */
export function iconButton(name, label, onclick, { class: more = "", ...props } = {}) {
  const named = { "aria-label": label, title: label };
  return el("button", { type: "button", class: `icon-button ${more}`, ...named, onclick, ...props }, icon(name));
}

/**
 * A button with words, and a picture before them where one is named.
 *
 * @param {string} label
 * @param {(event: Event) => void} onclick
 * @param {{class?: string, icon?: string}} [props]
 */
export function button(label, onclick, { icon: name, ...props } = {}) {
  return el("button", { type: "button", class: "button", onclick, ...props }, name && icon(name), label);
}

/** Has screen readers say a sentence. @param {string} text */
export function announce(text) {
  document.getElementById("announcer").textContent = text;
}

/** @param {string} text @returns {Promise<boolean>} whether the clipboard took it */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyMarked(text);
  }
}

/** The older way, for addresses that aren't secure: what is marked is copied. */
function copyMarked(text) {
  const before = document.activeElement;
  const field = el("textarea", { class: "unseen", "aria-hidden": "true", tabindex: "-1" });
  field.value = text;
  document.body.append(field);
  field.select();
  const copied = document.execCommand("copy");
  field.remove();
  before?.focus();
  return copied;
}

/**
 * A button that copies what `text` gives, and says so for a moment.
 *
 * @param {string} label
 * @param {() => string} text
 */
export function copyButton(label, text) {
  const made = iconButton("copy", label, async () => {
    const copied = await copyText(text());
    announce(copied ? "Copied" : "The browser did not allow copying");
    made.replaceChildren(icon(copied ? "check" : "cross"));
    setTimeout(() => made.replaceChildren(icon("copy")), 1500);
  });
  return made;
}

/** Offers a text as a file to keep. @param {string} name @param {string} text @param {string} type */
export function download(name, text, type) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  el("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
