// Stands in for engine/engine.js and engine/cache.js: tests say what it does through `window.fake`.

const fake = (globalThis.fake = {
  adapter: { name: "Test adapter", kind: "CPU", driver: "none" },
  chat: true,
  context: 256,
  warnings: [],
  progress: [
    { stage: "runtime", done: 5_000_000, total: 5_000_000 },
    { stage: "download", done: 10_000_000, total: 20_000_000 },
    { stage: "weights", done: 20_000_000, total: 20_000_000 },
    { stage: "kernels", done: 7, total: 9 },
  ],
  startError: null,
  loadError: null,
  chatError: null,
  startHeld: false,
  loadHeld: false,
  holdAfter: Infinity,
  answers: [],
  pause: 0,
  cached: [],
  listHeld: false,
  removeError: null,
  loads: [],
  requests: [],
  running: null,
  unloaded: 0,
  closed: 0,
  ...globalThis.fakeSettings,
});

const until = async (holds, signal) => {
  while (!holds() && !signal?.aborted) await new Promise((go) => setTimeout(go, 10));
};

class EngineError extends Error {
  constructor({ kind, message }) {
    super(message);
    this.kind = kind;
  }
}

const cancelled = () => new EngineError({ kind: "cancelled", message: "stopped" });

export class Engine {
  static async start({ onProgress, onLost }) {
    if (fake.startError) throw new EngineError(fake.startError);
    onProgress(fake.progress[0]);
    await until(() => !fake.startHeld);
    const engine = new Engine();
    engine.adapter = fake.adapter;
    fake.lose = (message) => {
      engine.isLost = true;
      onLost(message);
    };
    return engine;
  }

  async load(source, options, { onProgress }) {
    fake.loads.push({ source: { ...source, files: source.files?.map((file) => file.name ?? file.path) }, options });
    const refusal = fake.loadError;
    for (const each of fake.progress.slice(1)) {
      onProgress(each);
      await until(() => !fake.loadHeld || this.isClosed);
      if (this.isClosed) throw cancelled();
    }
    if (refusal) throw new EngineError(refusal);
    return { name: "fake", architecture: "llama", ctx_size: fake.context, context: 2048, chat: fake.chat, warnings: fake.warnings };
  }

  async *chat(messages, sampling, { signal }) {
    fake.requests.push({ messages, sampling });
    const text = fake.answers.shift() ?? `You said: ${messages.at(-1).content}`;
    const pieces = text.match(/\s*\S+\s*/g) ?? [];
    let count = 0;
    for (const piece of pieces) {
      if (fake.pause) await new Promise((go) => setTimeout(go, fake.pause));
      await until(() => count < fake.holdAfter || this.isLost || fake.chatError, signal);
      if (this.isLost) throw new EngineError({ kind: "lost", message: "the device was lost" });
      if (fake.chatError) throw new EngineError(fake.chatError);
      if (signal.aborted) break;
      yield { text: piece };
      count += 1;
    }
    const prompt_tokens = messages.reduce((sum, { content }) => sum + content.split(/\s+/).length, 4);
    const finish_reason = signal.aborted ? "cancelled" : (fake.finish ?? "stop");
    yield { text: "", finish_reason, usage: { prompt_tokens, cached_tokens: 0, completion_tokens: count }, timings: { predicted_per_second: 12.5 } };
  }

  generate(prompt, sampling, options) {
    return this.chat([{ role: "prompt", content: prompt }], sampling, options);
  }

  async unload() {
    fake.unloaded += 1;
  }

  close() {
    this.isClosed = true;
    fake.closed += 1;
  }
}

export const listCached = async () => {
  await until(() => !fake.listHeld);
  return fake.cached;
};
export const removeCached = async (id) => {
  if (fake.removeError) throw new EngineError(fake.removeError);
  fake.cached = fake.cached.filter((entry) => entry.id !== id);
};
export const storageEstimate = async () => ({ usage: 0, quota: 0, persistent: false });
export const askToPersist = async () => true;
