/** Addresses of models that were loaded from elsewhere, so that what the browser keeps of them can be loaded again. */

import { lasting, lastingJson } from "./kept.js";

const KEY = "wgpu_engine addresses";
const MOST = 20;

/** @returns {{url: string, title: string}[]} the latest first */
export function known() {
  const kept = lastingJson(KEY);
  return Array.isArray(kept) ? kept.filter((each) => typeof each?.url === "string" && typeof each.title === "string") : [];
}

/** @param {{id: string, title: string}} choice of an address */
export function note({ id: url, title }) {
  const others = known().filter((each) => each.url !== url);
  lasting.set(KEY, JSON.stringify([{ url, title }, ...others].slice(0, MOST)));
}
