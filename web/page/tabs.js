/**
 * One tab has the model. Whoever holds the lock may load; others learn who holds it, and may ask for it.
 */

const NAME = "wgpu_engine model";

export class Tabs {
  #channel = new BroadcastChannel(NAME);
  #id = crypto.getRandomValues(new Uint32Array(1))[0];
  #free = null;
  #report = () => ({});

  /** Called when another tab wants the model; the lock goes over when it has ended. @type {() => Promise<void>} */
  onasked = async () => {};

  /** @param {() => {model?: string, answering?: boolean}} report what others may know of this tab's model */
  constructor(report) {
    this.#report = report;
    this.#channel.addEventListener("message", ({ data }) => this.#hear(data));
  }

  async #hear({ what, to }) {
    if (!this.#free || (to && to !== this.#id)) return;
    if (what === "who") this.#channel.postMessage({ what: "here", from: this.#id, ...this.#report() });
    if (what === "hand over") {
      await this.onasked();
      this.release();
    }
  }

  /** @returns {boolean} whether this tab may load a model */
  get held() {
    return this.#free !== null;
  }

  /** Takes the lock if nobody has it. @returns {Promise<boolean>} whether this tab has it now */
  async take() {
    return this.held || this.#request({ ifAvailable: true });
  }

  /**
   * Waits for the lock, however long it takes.
   *
   * @param {AbortSignal} signal ends the wait
   * @returns {Promise<boolean>} false where the wait was ended
   */
  async wait(signal) {
    return this.held || this.#request({ signal }).catch(() => false);
  }

  #request(options) {
    return new Promise((resolve, reject) => {
      navigator.locks
        .request(NAME, options, (lock) => {
          if (!lock) return resolve(false);
          return new Promise((free) => {
            this.#free = free;
            resolve(true);
          });
        })
        .catch(reject);
    });
  }

  /** Gives the lock to whoever waits. */
  release() {
    this.#free?.();
    this.#free = null;
  }

  /** @returns {Promise<{model?: string, answering?: boolean}>} what the tab that has the model says; empty if it is silent */
  who() {
    return new Promise((resolve) => {
      const listen = ({ data }) => data.what === "here" && done(data);
      const timer = setTimeout(() => done({}), 500);
      const done = (found) => {
        clearTimeout(timer);
        this.#channel.removeEventListener("message", listen);
        resolve(found);
      };
      this.#channel.addEventListener("message", listen);
      this.#channel.postMessage({ what: "who" });
    });
  }

  /** Asks the other tab to give up its model; whoever waits has the lock then. */
  ask() {
    this.#channel.postMessage({ what: "hand over" });
  }
}
