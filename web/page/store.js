/** Conversations in IndexedDB; in memory where the browser gives no storage. */

import { openDB } from "../vendor/idb.js";

const CHANGES = "wgpu_engine conversations";

/** @typedef {import("./conversation.js").Conversation} Conversation */

class Memory {
  #kept = new Map();
  async getAll() {
    return [...this.#kept.values()];
  }
  async get(_store, id) {
    return this.#kept.get(id);
  }
  async put(_store, value) {
    this.#kept.set(value.id, value);
  }
  async delete(_store, id) {
    this.#kept.delete(id);
  }
  async clear() {
    this.#kept.clear();
  }
}

export class Store {
  #database;
  #channel = null;

  /** Called when another tab changed what is stored. @type {() => void} */
  onchange = () => {};

  /** @param {object} database @param {boolean} persistent */
  constructor(database, persistent) {
    this.#database = database;
    /** whether conversations outlast the page */
    this.persistent = persistent;
    if (persistent && "BroadcastChannel" in globalThis) {
      this.#channel = new BroadcastChannel(CHANGES);
      this.#channel.onmessage = () => this.onchange();
    }
  }

  /** @returns {Promise<Store>} */
  static async open() {
    try {
      const database = await openDB("wgpu_engine", 1, {
        upgrade: (fresh) => fresh.createObjectStore("conversations", { keyPath: "id" }),
      });
      return new Store(database, true);
    } catch {
      return Store.inMemory();
    }
  }

  /** One that forgets everything with the page. */
  static inMemory() {
    return new Store(new Memory(), false);
  }

  /** @returns {Promise<Conversation[]>} the latest first */
  async all() {
    const found = await this.#database.getAll("conversations");
    return found.sort((one, other) => other.updated - one.updated);
  }

  /** @param {string} id @returns {Promise<Conversation | undefined>} */
  get(id) {
    return this.#database.get("conversations", id);
  }

  /** @param {Conversation} conversation */
  async put(conversation) {
    await this.#database.put("conversations", conversation);
    this.#tell();
  }

  /** @param {string} id */
  async remove(id) {
    await this.#database.delete("conversations", id);
    this.#tell();
  }

  async clear() {
    await this.#database.clear("conversations");
    this.#tell();
  }

  #tell() {
    this.#channel?.postMessage("changed");
  }
}
