/** How far the loading of a model is. */

import { announce, button, el } from "./dom.js";
import { bytes, duration, number, Rate } from "./format.js";

const STAGES = {
  runtime: { words: "Starting the engine", share: 0.1 },
  download: { words: "Fetching the model", share: 0.4 },
  weights: { words: "Moving weights to the graphics chip", share: 0.3 },
  kernels: { words: "Preparing kernels", share: 0.2 },
};

export class LoadView {
  /** @type {Map<string, {row: HTMLElement, rate: Rate, done: number, total: number, ended: boolean}>} */
  #stages = new Map();

  /**
   * @param {string} title of the model
   * @param {() => void} [cancel]
   */
  constructor(title, cancel) {
    this.bar = el("progress", { max: 1, "aria-label": `Loading ${title}` });
    this.list = el("ol", { class: "stages" });
    const stop = (event) => {
      Object.assign(event.currentTarget, { disabled: true, textContent: "Cancelling…" });
      cancel();
    };
    this.element = el(
      "section",
      { class: "load", "aria-label": "Loading" },
      el("h2", {}, `Loading ${title}`),
      this.bar,
      this.list,
      cancel && el("div", { class: "buttons" }, button("Cancel", stop)),
    );
    this.note({ stage: "runtime", done: 0, total: null });
  }

  /** @param {{stage: string, done: number, total: number | null}} progress in bytes, kernels in kernels */
  note({ stage, done, total }) {
    // a few kernels come before the weights, and say nothing of how many there will be
    if (!(stage in STAGES) || (stage === "kernels" && !this.#stages.get("weights")?.ended)) return;
    const known = this.#stages.get(stage) ?? this.#begin(stage);
    Object.assign(known, { done, total: total ?? 0 });
    known.rate.note(done);
    for (const [name, each] of this.#stages) {
      each.ended = this.#hasEnded(name, each);
      each.row.className = each.ended ? "past" : "now";
      each.row.lastChild.textContent = figures(name, each);
    }
    this.#fill();
  }

  /** Stages overlap: weights move on while others are fetched. */
  #hasEnded(name, { done, total }) {
    return name === "runtime" ? this.#stages.size > 1 : total > 0 && done >= total;
  }

  /** All stages in one; it never goes back. */
  #fill() {
    let all = 0;
    for (const [name, { share }] of Object.entries(STAGES)) {
      const each = this.#stages.get(name);
      if (each?.ended) all += share;
      else if (each?.total) all += (share * each.done) / each.total;
      // a file of the user's is not fetched
      else if (name === "download" && this.#stages.has("weights")) all += share;
    }
    if (all > this.bar.value) this.bar.value = all;
  }

  #begin(stage) {
    const { words } = STAGES[stage];
    const row = el("li", {}, el("span", {}, words), el("span", { class: "stage-figures" }));
    const begun = { row, rate: new Rate(), done: 0, total: 0, ended: false };
    this.#stages.set(stage, begun);
    this.list.append(row);
    announce(words);
    return begun;
  }
}

function figures(stage, { done, total, rate, ended }) {
  if (stage === "runtime") return "";
  if (stage === "kernels") return total ? `${number(done)} of ${number(total)}` : "";
  if (!total) return done ? bytes(done) : "";
  if (ended) return bytes(total);
  const parts = [`${bytes(done)} of ${bytes(total)}`];
  const speed = rate.perSecond();
  if (speed) parts.push(`${bytes(speed)}/s`, `${duration((total - done) / speed)} left`);
  return parts.join(" · ");
}
