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

  /** Removes every model that the browser keeps. */
  async forgetAll() {
    for (const { id } of await listCached()) await removeCached(id);
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
    await this.check();
    await this.#unloadModel();
    this.#engine ??= await this.#start(onProgress);
    signal.throwIfAborted();
    if (chosen.source.kind !== "file") askToPersist().catch(() => {});
    if (chosen.source.kind === "url") addresses.note(chosen);
    const options = ctxSize ? { ctx_size: ctxSize } : {};
    this.#model = await this.#engine.load(chosen.source, options, { onProgress, signal }).catch((error) => {
      throw forVisitors(error);
    });
    const { name, ctx_size: context, chat, warnings } = this.#model;
    this.#chats = chat;
    const { name: adapter, kind, driver } = this.#engine.adapter;
    const detail = [kind, driver].filter(Boolean).join(", ");
    return { name: chosen.title ?? name, context, chat, adapter, detail, warnings };
  }

  async #start(onProgress) {
    const engine = await Engine.start({
      onProgress,
      onLost: (message) => {
        if (this.#engine !== engine) return;
        this.#drop();
        this.onlost(new PageError("lost", String(message ?? "")));
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
  // the engine counts what isn't on a server among failed downloads
  if (error.kind === "network" && /: (?:check the address|it needs a login or permission)$/.test(error.message)) {
    return new PageError("address", error.message);
  }
  if (error.kind !== "file" || !/makes embeddings/.test(error.message)) return error;
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
