/** How far the loading of a model is. */

import { announce, button, el } from "./dom.js";
import { bytes, duration, number, Rate } from "./format.js";

const STAGES = {
  runtime: "Starting the engine",
  download: "Fetching the model",
  weights: "Moving weights to the graphics chip",
  kernels: "Preparing kernels",
};

export class LoadView {
  /** @type {Map<string, {row: HTMLElement, rate: Rate, done: number, total: number}>} */
  #stages = new Map();

  /**
   * @param {string} title of the model
   * @param {() => void} [cancel]
   */
  constructor(title, cancel) {
    this.bar = el("progress", { max: 1, "aria-label": `Loading ${title}` });
    this.list = el("ol", { class: "stages" });
    this.element = el(
      "section",
      { class: "load", "aria-label": "Loading" },
      el("h2", {}, `Loading ${title}`),
      this.bar,
      this.list,
      cancel && el("div", { class: "buttons" }, button("Cancel", cancel)),
    );
    this.note({ stage: "runtime", done: 0, total: null });
  }

  /** @param {{stage: string, done: number, total: number | null}} progress in bytes, kernels in kernels */
  note({ stage, done, total }) {
    const known = this.#stages.get(stage) ?? this.#begin(stage);
    Object.assign(known, { done, total: total ?? 0 });
    known.rate.note(done);
    known.row.lastChild.textContent = figures(stage, known);
    // weights move on while others are fetched
    const { download, ...others } = Object.fromEntries(this.#stages);
    const latest = [...this.#stages.values()].at(-1);
    const fetching = download && download.done < download.total && latest === others.weights;
    const now = fetching ? download : latest;
    for (const each of this.#stages.values()) each.row.className = each === latest || each === now ? "now" : "past";
    if (now.total) this.bar.value = now.done / now.total;
    else this.bar.removeAttribute("value");
  }

  #begin(stage) {
    const row = el("li", {}, el("span", {}, STAGES[stage] ?? stage), el("span", { class: "stage-figures" }));
    const begun = { row, rate: new Rate(), done: 0, total: 0 };
    this.#stages.set(stage, begun);
    this.list.append(row);
    announce(STAGES[stage] ?? stage);
    return begun;
  }
}

function figures(stage, { done, total, rate }) {
  if (stage === "kernels") return total ? `${number(done)} of ${number(total)}` : "";
  if (!total) return done ? bytes(done) : "";
  const parts = [`${bytes(done)} of ${bytes(total)}`];
  const speed = rate.perSecond();
  if (speed && done < total) parts.push(`${bytes(speed)}/s`, `${duration((total - done) / speed)} left`);
  return parts.join(" · ");
}
