/** Conversations in IndexedDB; in memory where the browser gives no storage. */

import { openDB } from "../vendor/idb.js";

const CHANGES = "wgpu_engine conversations";

/** @typedef {import("./conversation.js").Conversation} Conversation */

/** @typedef {{id: string, title: string, updated: number}} Title what the list of conversations shows */

/** In place of a database. */
class Memory {
  #kept = new Map();

  async getAll(store) {
    const all = structuredClone([...this.#kept.values()]);
    return store === "titles" ? all.map(titleOf) : all;
  }

  async get(_store, id) {
    return structuredClone(this.#kept.get(id));
  }

  async write(change) {
    change({ put: (value) => this.#kept.set(value.id, structuredClone(value)), delete: (id) => this.#kept.delete(id), clear: () => this.#kept.clear() }, null);
  }
}

/** A database with the conversations, and their titles apart, so that the list needs no more than those. */
class Database {
  #database;

  static async open() {
    const opened = new Database();
    opened.#database = await openDB("wgpu_engine", 1, {
      upgrade(fresh) {
        fresh.createObjectStore("conversations", { keyPath: "id" });
        fresh.createObjectStore("titles", { keyPath: "id" });
      },
      // another tab deletes the database, or has a newer version of the page
      blocking: () => opened.#database.close(),
    });
    return opened;
  }

  getAll(store) {
    return this.#database.getAll(store);
  }

  get(store, id) {
    return this.#database.get(store, id);
  }

  async write(change) {
    const transaction = this.#database.transaction(["conversations", "titles"], "readwrite");
    change(transaction.objectStore("conversations"), transaction.objectStore("titles"));
    await transaction.done;
  }
}

/** @returns {Title} */
function titleOf({ id, title, updated }) {
  return { id, title, updated };
}

export class Store {
  #database;
  #channel = null;

  /** Called when another tab changed what is stored. @type {() => void} */
  onchange = () => {};

  /** @param {Database | Memory} database @param {boolean} persistent */
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
      return new Store(await Database.open(), true);
    } catch {
      return Store.inMemory();
    }
  }

  /** One that forgets everything with the page. */
  static inMemory() {
    return new Store(new Memory(), false);
  }

  /** @returns {Promise<Title[]>} the latest first */
  titles() {
    return this.#sorted("titles");
  }

  /** @returns {Promise<Conversation[]>} the latest first */
  all() {
    return this.#sorted("conversations");
  }

  async #sorted(store) {
    return (await this.#database.getAll(store)).sort((one, other) => other.updated - one.updated);
  }

  /** @param {string} id @returns {Promise<Conversation | undefined>} */
  get(id) {
    return this.#database.get("conversations", id);
  }

  /** @param {Conversation} conversation */
  put(conversation) {
    return this.#write((conversations, titles) => {
      conversations.put(conversation);
      titles?.put(titleOf(conversation));
    });
  }

  /** @param {string} id */
  remove(id) {
    return this.#write((conversations, titles) => {
      conversations.delete(id);
      titles?.delete(id);
    });
  }

  clear() {
    return this.#write((conversations, titles) => {
      conversations.clear();
      titles?.clear();
    });
  }

  async #write(change) {
    await this.#database.write(change);
    this.#channel?.postMessage("changed");
  }
}
