/** Keys that work anywhere on the page. */

import { openShortcuts } from "./settings_view.js";

/** @param {{stop: () => void, fresh: () => void, settings: () => void, sidebar: () => void, write: () => void}} handlers */
export function listenToKeys({ stop, fresh, settings, sidebar, write }) {
  const withAlt = { KeyN: fresh, KeyS: settings, KeyB: sidebar };
  const bare = { "/": write, "?": openShortcuts };
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || document.querySelector("dialog[open]")) return;
    const typing = event.target.closest?.("input, textarea, select");
    if (event.key === "Escape") return stop();
    const act = event.altKey ? withAlt[event.code] : !typing && !event.ctrlKey && !event.metaKey && bare[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
}
