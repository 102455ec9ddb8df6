/** How answers are made, as the user wants it; kept in the browser. */

import { lasting, lastingJson } from "./kept.js";

const KEY = "wgpu_engine settings";

/**
 * A figure that can be set. `empty` is what an empty field means, where it may be empty.
 *
 * @typedef {{name: string, label: string, help: string, fallback: number | null, least: number, most: number,
 *   step: number, slider?: boolean, empty?: string}} Field
 * @type {Field[]}
 */
export const FIELDS = [
  { name: "temperature", label: "Temperature", help: "0 takes the likeliest word each time; higher is livelier.", fallback: 0.8, least: 0, most: 2, step: 0.05, slider: true },
  { name: "top_p", label: "Top-p", help: "Only the likeliest tokens that make up this share; 1 takes all.", fallback: 0.95, least: 0, most: 1, step: 0.01, slider: true },
  { name: "top_k", label: "Top-k", help: "Only so many of the likeliest tokens; 0 takes all.", fallback: 40, least: 0, most: 1000, step: 1 },
  { name: "min_p", label: "Min-p", help: "Only tokens at least this likely, beside the likeliest one.", fallback: 0.05, least: 0, most: 1, step: 0.01, slider: true },
  { name: "repetition_penalty", label: "Repeat penalty", help: "Above 1, words that were used become less likely.", fallback: 1, least: 0.5, most: 2, step: 0.01, slider: true },
  { name: "max_tokens", label: "Longest answer", help: "In tokens; empty for as much as the context takes.", empty: "no limit", fallback: null, least: 1, most: 1_000_000, step: 1 },
  { name: "seed", label: "Seed", help: "The same seed gives the same answer again; empty for chance.", empty: "random", fallback: null, least: 0, most: 4_294_967_295, step: 1 },
];

/** @typedef {{system: string} & Record<string, number | null>} Settings */

/** @returns {Settings} */
export function defaults() {
  return { system: "", ...Object.fromEntries(FIELDS.map(({ name, fallback }) => [name, fallback])) };
}

/** @returns {Settings} */
export function readSettings() {
  const kept = lastingJson(KEY) ?? {};
  const settings = defaults();
  if (typeof kept.system === "string") settings.system = kept.system;
  for (const field of FIELDS) if (field.name in kept && fits(field, kept[field.name])) settings[field.name] = kept[field.name];
  return settings;
}

/** @param {Settings} settings */
export function keepSettings(settings) {
  lasting.set(KEY, JSON.stringify(settings));
}

/** @param {Field} field @param {unknown} value */
export function fits({ fallback, least, most, step }, value) {
  if (value === null) return fallback === null;
  return typeof value === "number" && value >= least && value <= most && (step < 1 || Number.isInteger(value));
}

/** @param {Settings} settings @returns {Record<string, number>} what an engine is given */
export function sampling(settings) {
  return Object.fromEntries(FIELDS.map(({ name }) => [name, settings[name]]).filter(([, value]) => value !== null));
}
