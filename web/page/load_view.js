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
  #stage = null;
  #rate = new Rate();
  #rows = new Map();

  /**
   * @param {string} title of the model
   * @param {() => void} [cancel]
   */
  constructor(title, cancel) {
    this.bar = el("progress", { max: 1, "aria-label": `Loading ${title}` });
    this.stages = el("ol", { class: "stages" });
    this.element = el(
      "section",
      { class: "load", "aria-label": "Loading" },
      el("h2", {}, `Loading ${title}`),
      this.bar,
      this.stages,
      cancel && el("div", { class: "buttons" }, button("Cancel", cancel)),
    );
    this.note({ stage: "runtime", done: 0, total: 0 });
  }

  /** @param {{stage: string, done: number, total: number}} progress in bytes, kernels in kernels */
  note({ stage, done, total }) {
    if (stage !== this.#stage) this.#enter(stage);
    this.#rate.note(done);
    const row = this.#rows.get(stage);
    row.lastChild.textContent = this.#figures(stage, done, total);
    if (total) this.bar.value = done / total;
    else this.bar.removeAttribute("value");
  }

  #enter(stage) {
    this.#stage = stage;
    this.#rate = new Rate();
    for (const row of this.#rows.values()) row.className = "past";
    if (!this.#rows.has(stage)) {
      this.#rows.set(stage, el("li", {}, el("span", {}, STAGES[stage] ?? stage), el("span", { class: "stage-figures" })));
      this.stages.append(this.#rows.get(stage));
    }
    this.#rows.get(stage).className = "now";
    announce(STAGES[stage] ?? stage);
  }

  #figures(stage, done, total) {
    if (stage === "kernels") return total ? `${number(done)} of ${number(total)}` : "";
    if (!total) return done ? bytes(done) : "";
    const parts = [`${bytes(done)} of ${bytes(total)}`];
    const speed = this.#rate.perSecond();
    if (speed && done < total) parts.push(`${bytes(speed)}/s`, `${duration((total - done) / speed)} left`);
    return parts.join(" · ");
  }
}
