/** Figures for people. */

/** @param {number} count @returns {string} as "98.1 MB" */
export function bytes(count) {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (count >= 999.5 && unit < units.length - 1) {
    count /= 1000;
    unit += 1;
  }
  return `${unit && count < 99.95 ? count.toFixed(1) : Math.round(count)} ${units[unit]}`;
}

/** @param {number} seconds @returns {string} as "0.42 s", "12 s", "3 min 5 s" or "1 h 20 min" */
export function duration(seconds) {
  if (seconds < 0.995) return `${seconds.toFixed(2)} s`;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  return minutes < 60 ? `${minutes} min ${whole % 60} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** @param {number} value @returns {string} with three digits that tell, and thousands set apart */
export function number(value) {
  const digits = Math.abs(value) >= 99.95 || Number.isInteger(value) ? 0 : Math.abs(value) >= 9.995 ? 1 : 2;
  return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** @param {number} count @param {string} noun @returns {string} as "1 token" or "2,048 tokens" */
export function counted(count, noun) {
  return `${number(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** Speed over the last seconds, out of how much was done when. */
export class Rate {
  #marks = [];

  /** @param {number} done @param {number} now milliseconds */
  note(done, now = performance.now()) {
    this.#marks.push([now, done]);
    while (this.#marks.length > 2 && now - this.#marks[0][0] > 5000) this.#marks.shift();
  }

  /** @returns {number | null} units a second; null before there is enough to tell */
  perSecond() {
    if (this.#marks.length < 2) return null;
    const [from, before] = this.#marks[0];
    const [to, after] = this.#marks.at(-1);
    return to - from < 250 || after <= before ? null : (1000 * (after - before)) / (to - from);
  }
}
