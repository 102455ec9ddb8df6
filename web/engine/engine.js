/** The engine as a page sees it: a worker with Pyodide and a model on the GPU. */

/** What went wrong; `kind` says what to do about it: see README of the examples. */
export class EngineError extends Error {
  /**
   * @param {string} kind no_webgpu, no_adapter, insecure, file, embeddings, memory, lost, device, network, address, quota, request,
   *   context, in_use, cancelled or internal
   * @param {string} message one sentence
   */
  constructor(kind, message) {
    super(message);
    this.name = "EngineError";
    this.kind = kind;
  }
}

/**
 * @typedef {{stage: "runtime" | "download" | "weights" | "kernels", done: number, total: number | null}} Progress bytes, or
 *   kernels
 * @typedef {{text: string, tokens: number[], finish_reason?: "stop" | "length" | "cancelled",
 *   usage?: {prompt_tokens: number, cached_tokens: number, completion_tokens: number},
 *   timings?: Record<string, number>}} Chunk
 */

export class Engine {
  /**
   * Starts the worker, Pyodide and the GPU.
   * @param {{onProgress?: (progress: Progress) => void, onLost?: (message: string) => void}} hooks
   * @returns {Promise<Engine>}
   */
  static async start({ onProgress, onLost } = {}) {
    const engine = new Engine(onLost);
    try {
      Object.assign(engine, await engine._call("start", {}, { onProgress }));
    } catch (error) {
      engine.close();
      throw error;
    }
    return engine;
  }

  constructor(onLost) {
    this._onLost = onLost;
    this._waiting = new Map();
    this._nextId = 1;
    this._worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module", name: "wgpu_engine" });
    this._worker.addEventListener("message", ({ data }) => this._receive(data));
    this._worker.addEventListener("error", (event) => {
      this._fail(new EngineError("internal", event.message || "the engine's worker could not start: reload the page"));
    });
  }

  /**
   * Loads a model; the one before it is let go.
   * @param {object} source a model of the bundle, files of the visitor's or addresses: see source.js
   * @param {{ctx_size?: number, precision?: "fast" | "exact", kv_type?: "f16" | "f32"}} options
   * @param {{onProgress?: (progress: Progress) => void, signal?: AbortSignal}} hooks
   */
  load(source, options = {}, hooks = {}) {
    return this._call("load", { source, options }, hooks);
  }

  /**
   * Answers a conversation.
   * @param {{role: string, content: string}[]} messages
   * @param {object} sampling fields of SamplingParams, such as temperature and max_tokens
   * @param {{signal?: AbortSignal}} hooks
   * @returns {AsyncGenerator<Chunk>}
   */
  chat(messages, sampling = {}, { signal } = {}) {
    return this._stream("answer", { messages, sampling }, signal);
  }

  /** Continues a text; otherwise like `chat`. */
  generate(prompt, sampling = {}, { signal } = {}) {
    return this._stream("answer", { prompt, sampling }, signal);
  }

  /** @returns {Promise<number[]>} the token ids of a text */
  tokenize(text) {
    return this._call("tokenize", { text });
  }

  /** Compares every kernel with known answers. */
  doctor(hooks = {}) {
    return this._call("doctor", {}, hooks);
  }

  /** Has the fastest variants of the model's kernels found and kept. */
  tune(hooks = {}) {
    return this._call("tune", {}, hooks);
  }

  /** What a decode step costs the worker's thread, in µs. */
  cost(replays = 100) {
    return this._call("cost", { replays });
  }

  /** @returns {Promise<{heap_bytes: number}>} what Python's memory has grown to */
  memory() {
    return this._call("memory", {});
  }

  unload() {
    return this._call("unload", {});
  }

  close() {
    this._worker.terminate();
    this._fail(new EngineError("cancelled", "the engine was closed"));
  }

  _call(call, args, { onProgress, onChunk, signal } = {}) {
    const id = this._nextId++;
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(new EngineError("cancelled", "stopped"));
      const abort = () => this._worker.postMessage({ call: "abort", args: { id } });
      const done = (settle) => (value) => {
        signal?.removeEventListener("abort", abort);
        this._waiting.delete(id);
        settle(value);
      };
      signal?.addEventListener("abort", abort);
      this._waiting.set(id, { resolve: done(resolve), reject: done(reject), onProgress, onChunk });
      this._worker.postMessage({ id, call, args });
    });
  }

  async *_stream(call, args, signal) {
    const chunks = [];
    let wake = () => {};
    let finished = false;
    let failure = null;
    const stop = new AbortController();
    const forward = () => stop.abort();
    if (signal?.aborted) forward();
    signal?.addEventListener("abort", forward);
    this._call(call, args, {
      signal: stop.signal,
      onChunk: (chunk) => {
        chunks.push(chunk);
        wake();
      },
    })
      .catch((error) => {
        failure = error;
      })
      .finally(() => {
        finished = true;
        wake();
      });
    try {
      while (true) {
        while (chunks.length) yield chunks.shift();
        if (finished) break;
        await new Promise((resolve) => {
          wake = resolve;
        });
      }
      if (failure) throw failure;
    } finally {
      signal?.removeEventListener("abort", forward);
      // a caller that leaves the loop early wants no more of it
      if (!finished) stop.abort();
    }
  }

  _receive({ id, event, message, progress, chunk, result, error }) {
    if (event === "lost") {
      this._onLost?.(message);
      return;
    }
    const waiting = this._waiting.get(id);
    if (!waiting) return;
    if (progress) waiting.onProgress?.(progress);
    else if (chunk) waiting.onChunk?.(chunk);
    else if (error) waiting.reject(new EngineError(error.kind, error.message));
    else waiting.resolve(result);
  }

  _fail(error) {
    for (const waiting of [...this._waiting.values()]) waiting.reject(error);
  }
}
