/** The page's engine where the model runs in this browser. */

import { Engine } from "../engine/engine.js";
import { askToPersist, listCached, removeCached, storageEstimate } from "../engine/cache.js";
import { cacheIds } from "../engine/model_address.js";
import * as addresses from "./addresses.js";
import { PageError } from "./errors.js";
import { Tabs } from "./tabs.js";

/** @typedef {import("./api_engine.js").Choice} Choice @typedef {import("./api_engine.js").Loaded} Loaded */

export class BrowserEngine {
  kind = "browser";
  loads = true;
  #models;
  #engine = null;
  #model = null;
  #answering = false;
  #chats = true;
  /** The load in the making or done last, and what ended it from outside. @type {{ended: Error | null}} */
  #attempt = { ended: null };

  /** Called when the device is gone. @type {(error: Error) => void} */
  onlost = () => {};
  /** Called when another tab took the model over. @type {() => void} */
  onmoved = () => {};

  /** @param {{models: object[]}} bundle */
  constructor(bundle) {
    this.#models = bundle.models ?? [];
    if (!navigator.locks) return; // not a secure address, which `check` says
    this.tabs = new Tabs(() => ({ model: this.#model?.name, answering: this.#answering }));
    this.tabs.onasked = async () => {
      this.#attempt.ended ??= new PageError("moved", "the model moved to another tab");
      this.onmoved();
      await this.unload();
    };
  }

  /** Finds out whether a model can run here at all, before anybody waits for it. @throws {PageError} */
  async check() {
    if (!globalThis.isSecureContext) throw new PageError("insecure", "this page isn't on a secure address");
    if (!navigator.gpu) throw new PageError("no_webgpu", "this browser has no WebGPU");
    if (!(await navigator.gpu.requestAdapter())) throw new PageError("no_adapter", "the browser offers no adapter");
  }

  /** @returns {Promise<Choice[]>} the bundle's models, then others that this browser keeps */
  async models() {
    const cached = new Map((await listCached().catch(() => [])).map((entry) => [entry.id, entry]));
    const take = (id) => {
      const entry = cached.get(id);
      cached.delete(id);
      return entry;
    };
    const base = new URL(".", document.baseURI).href;
    const found = this.#models.map(({ id, title, bytes, memory_bytes: memory, license, files }) =>
      choice({ id, title, bytes, memory, license, source: { kind: "bundled", files, base } }, files.map(({ sha256 }) => take(sha256))),
    );
    for (const { url, title } of addresses.known()) {
      const entries = (await cacheIds(url).catch(() => [])).map(take).filter(Boolean);
      const bytes = entries.reduce((sum, { size }) => sum + size, 0);
      if (bytes) found.push(choice({ id: url, title, bytes, source: { kind: "url", urls: [url] } }, entries));
    }
    for (const entry of cached.values()) found.push(choice({ id: entry.id, title: entry.name, bytes: entry.size }, [entry]));
    return found;
  }

  /** Removes every model that the browser keeps. @throws {Error} one is being loaded, and stays */
  async forgetAll() {
    const removed = await Promise.allSettled((await listCached()).map(({ id }) => removeCached(id)));
    const failed = removed.find(({ status }) => status === "rejected");
    if (failed) throw failed.reason;
  }

  /** @returns {Promise<{usage: number, quota: number} | null>} */
  storage() {
    return storageEstimate().catch(() => null);
  }

  /**
   * Loads a model in place of the one before. The caller has taken the lock of `tabs`.
   *
   * @param {Choice} chosen
   * @param {{onProgress: (progress: {stage: string, done: number, total: number}) => void, signal: AbortSignal,
   *   ctxSize?: number}} options
   * @returns {Promise<Loaded>}
   */
  async load(chosen, { onProgress, signal, ctxSize }) {
    if (!this.tabs.held) throw new PageError("moved", "the model runs in another tab");
    const attempt = (this.#attempt = { ended: null });
    const cancelled = new Promise((_resolve, reject) => {
      signal.addEventListener("abort", () => {
        attempt.ended ??= signal.reason;
        if (attempt === this.#attempt) this.#drop();
        reject(signal.reason);
      });
    });
    try {
      return await Promise.race([this.#load(chosen, { onProgress, ctxSize }, attempt), cancelled]);
    } catch (error) {
      // an engine that was closed from outside only says that it was closed
      throw attempt.ended ?? forVisitors(error);
    }
  }

  async #load(chosen, { onProgress, ctxSize }, attempt) {
    await this.check();
    // what is here then may be another attempt's
    if (attempt.ended) throw attempt.ended;
    await this.#unloadModel();
    if (attempt.ended) throw attempt.ended;
    const engine = this.#engine ?? (await this.#start(onProgress));
    if (attempt.ended) {
      engine.close();
      throw attempt.ended;
    }
    this.#engine = engine;
    if (chosen.source.kind !== "file") askToPersist().catch(() => {});
    if (chosen.source.kind === "url") addresses.note(chosen);
    const options = ctxSize ? { ctx_size: ctxSize } : {};
    const model = await engine.load(chosen.source, options, { onProgress });
    if (attempt.ended) throw attempt.ended;
    this.#model = model;
    const { name, ctx_size: context, chat, warnings } = this.#model;
    this.#chats = chat;
    const { name: adapter, kind, driver } = engine.adapter;
    const detail = [kind, driver].filter(Boolean).join(", ");
    return { name: chosen.title ?? name, context, chat, adapter, detail, warnings };
  }

  async #start(onProgress) {
    const engine = await Engine.start({
      onProgress,
      onLost: (message) => {
        if (this.#engine !== engine) return;
        const error = new PageError("lost", String(message ?? ""));
        this.#attempt.ended ??= error;
        this.#drop();
        this.onlost(error);
      },
    });
    return engine;
  }

  /** Ends an engine that is of no use any more. */
  #drop() {
    try {
      this.#engine?.close();
    } finally {
      this.#engine = this.#model = null;
    }
  }

  async #unloadModel() {
    if (this.#model) await this.#engine.unload();
    this.#model = null;
  }

  /** Frees the model and the device, and lets other tabs load. */
  async unload() {
    this.#attempt.ended ??= new DOMException("the model was let go", "AbortError");
    this.#drop();
    this.tabs.release();
  }

  /**
   * @param {{role: string, content: string}[]} messages
   * @param {Record<string, unknown>} sampling
   * @param {{signal: AbortSignal}} options
   * @returns {AsyncGenerator<import("./api_engine.js").Chunk>}
   */
  async *chat(messages, sampling, options) {
    if (!this.#model) throw new PageError("lost", "no model is loaded");
    this.#answering = true;
    try {
      const prompt = () => messages.map(({ content }) => content).join("");
      yield* this.#chats
        ? this.#engine.chat(messages, sampling, options)
        : this.#engine.generate(prompt(), sampling, options);
    } catch (error) {
      if (error?.kind === "lost") this.#drop();
      throw error;
    } finally {
      this.#answering = false;
    }
  }
}

/** An error of loading, in words for people who have no command line. */
function forVisitors(error) {
  if (error.kind !== "embeddings") return error;
  return new PageError("embeddings", "It turns texts into numbers for searching and comparing, and can't write. Choose a language model.");
}

/** A choice with what the cache has of it. */
function choice(about, entries) {
  const own = entries.filter(Boolean);
  const forget = async () => {
    for (const { id } of own) await removeCached(id);
  };
  return { ...about, kept: own.reduce((sum, { bytes }) => sum + bytes, 0), forget: own.length ? forget : undefined };
}
