/** What stands in an empty conversation. */

import { button, el } from "./dom.js";

const IDEAS = [
  "Explain why the sky is blue to a ten-year-old.",
  "Give me three tips for sleeping better.",
  "Write a Python function that tells whether a word is a palindrome.",
  "Draft a friendly note that asks a neighbour to water my plants.",
];
const BEGINNINGS = ["Once upon a time, there was a", "One morning, the little girl", "The cat looked out of the window and"];

/**
 * @param {import("./chat.js").Chat} chat
 * @param {(text: string) => void} write puts a text in the field
 * @returns {HTMLElement}
 */
export function welcome({ loaded, engine }, write) {
  if (!loaded) return el("div", { class: "welcome" });
  const ideas = loaded.chat ? IDEAS : BEGINNINGS;
  return el(
    "section",
    { class: "welcome" },
    el("h2", {}, loaded.chat ? "What can I do for you?" : "Begin a text"),
    el(
      "p",
      { class: "lead" },
      loaded.chat ? "" : "This model wasn't made for conversations: it goes on with what you write. ",
      engine.loads ? "Nothing that you write leaves this device." : `The server answers with ${loaded.name}; conversations are kept in this browser.`,
    ),
    el("div", { class: "ideas" }, ...ideas.map((idea) => button(idea, () => write(idea), { class: "idea" }))),
    ...loaded.warnings.map((warning) => el("p", { class: "hint" }, warning)),
  );
}
