/** Light and dark; `theme.js` does it at the start. */

import { lasting } from "./kept.js";

export const THEMES = [
  { id: "system", label: "As the system" },
  { id: "light", label: "Light" },
  { id: "dark", label: "Dark" },
];

/** @returns {string} the id of what was chosen */
export function chosenTheme() {
  return document.documentElement.dataset.theme ?? "system";
}

/** @param {string} id */
export function chooseTheme(id) {
  const root = document.documentElement;
  if (id === "system") delete root.dataset.theme;
  else root.dataset.theme = id;
  lasting.set("theme", id === "system" ? null : id);
}
