/** Texts of edited messages that are not sent yet, by message; kept until the tab is closed, as the draft of a new one. */

import { passing } from "./kept.js";

const KEY = "wgpu_engine edits";

/** @returns {Record<string, string>} */
function kept() {
  try {
    return JSON.parse(passing.get(KEY)) ?? {};
  } catch {
    return {};
  }
}

/** @param {string} id of a message @returns {string | undefined} what its open edit says */
export function editOf(id) {
  return kept()[id];
}

/** @param {string} id of a message @param {string} text */
export function keepEdit(id, text) {
  passing.set(KEY, JSON.stringify({ ...kept(), [id]: text }));
}

/** @param {string[]} [ids] of messages; by default all */
export function forgetEdits(ids) {
  const left = Object.entries(kept()).filter(([id]) => ids && !ids.includes(id));
  passing.set(KEY, left.length ? JSON.stringify(Object.fromEntries(left)) : null);
}
