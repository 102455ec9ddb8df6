/**
 * The module worker that has the model: boots Pyodide, opens the GPU and answers the calls of engine.js.
 *
 * A call is `{id, call, args}`. Answers are `{id, progress}`, `{id, chunk}`, then `{id, result}` or `{id, error}`; the loss
 * of the device comes as `{event: "lost"}`.
 */
import { GPU } from "./device.js";
import { openSource } from "./source.js";
import { SourceError } from "./source_error.js";
import { makeEncoder } from "./tokenizer.js";

const PYODIDE = new URL("../pyodide/", import.meta.url).href;
/** Where what is learned about the adapter lies between visits, in IndexedDB. */
const HOME = "/home/wgpu_engine";
/** What a Python exception is to the page. */
const KINDS = {
  ModelFileError: "file",
  UnsupportedModelError: "file",
  ModelNotFoundError: "file",
  DownloadError: "network",
  AddressError: "address",
  StorageFullError: "quota",
  OutOfMemoryError: "memory",
  DeviceLostError: "lost",
  DeviceError: "device",
  NoAdapterError: "no_adapter",
  ContextFullError: "context",
  EncoderError: "embeddings",
  RequestError: "request",
};

const STOPPED = { kind: "cancelled", message: "stopped" };

let pyodide = null;
let session = null;
let reportCompiled = () => {};
/** Whether the device has had a model, or is lost: the next one gets another, so that nothing of this one is left. */
let used = false;
const AGAIN = "check the connection and reload the page";
const aborts = new Map();

const calls = {
  async start(_args, { progress }) {
    // a browser without WebGPU is told so before it fetches anything
    const gpu = await openGPU();
    progress("runtime", 0, 1);
    await boot();
    progress("runtime", 1, 1);
    return JSON.parse(await session.start(gpu));
  },

  async load({ source, options }, { progress, signal }) {
    if (used) {
      session.close();
      await session.start(await openGPU());
    }
    used = true;
    const sources = await openSource(source, { onProgress: (p) => progress(p.stage, p.done, p.total, p), signal });
    reportCompiled = (done, total) => progress("kernels", done, total);
    try {
      const report = (stage, done, total) => stage === "weights" && progress(stage, done, total);
      const model = JSON.parse(await session.load(sources, JSON.stringify(options ?? {}), report));
      return { ...model, warnings: [...model.warnings, ...sources.flatMap((each) => each.warnings)] };
    } finally {
      reportCompiled = () => {};
      for (const each of sources) each.close();
      await keepHome();
    }
  },

  async answer(request, { chunk, signal }) {
    const stop = () => session.stop();
    signal.addEventListener("abort", stop);
    try {
      await session.answer(JSON.stringify(request), (piece) => {
        const parsed = JSON.parse(piece);
        if (signal.aborted && parsed.finish_reason) parsed.finish_reason = "cancelled";
        chunk(parsed);
      });
    } finally {
      signal.removeEventListener("abort", stop);
    }
  },

  async tokenize({ text }) {
    return JSON.parse(session.tokenize(text));
  },

  async doctor(_args, { progress }) {
    return JSON.parse(await session.doctor((stage, done, total) => progress(stage, done, total)));
  },

  async tune(_args, { progress }) {
    await session.tune((stage, done, total) => progress(stage, done, total));
    await keepHome();
  },

  async cost({ replays }) {
    return JSON.parse(await session.cost(replays));
  },

  async memory() {
    return { heap_bytes: pyodide._module.HEAPU8.length };
  },

  async unload() {
    session.close();
  },
};

self.addEventListener("message", async ({ data: { id, call, args } }) => {
  if (call === "abort") {
    aborts.get(args.id)?.abort();
    return;
  }
  const abort = new AbortController();
  aborts.set(id, abort);
  const context = {
    signal: abort.signal,
    chunk: (chunk) => self.postMessage({ id, chunk }),
    progress: (stage, done, total, more) => self.postMessage({ id, progress: { ...more, stage, done, total } }),
  };
  try {
    self.postMessage({ id, result: await calls[call](args, context) });
  } catch (error) {
    // where Python was waiting, being stopped comes as an exception of its own
    self.postMessage({ id, error: abort.signal.aborted ? STOPPED : described(error) });
  } finally {
    aborts.delete(id);
  }
});

function openGPU() {
  return GPU.open({
    onLost: (message) => {
      used = true;
      self.postMessage({ event: "lost", message });
    },
    onCompiled: (done, total) => reportCompiled(done, total),
  });
}

async function boot() {
  if (session) return;
  const stop = new AbortController();
  try {
    pyodide = await Promise.race([loadRuntime(), brokenFetch(stop.signal)]);
  } finally {
    stop.abort();
  }
  pyodide.registerJsModule("wgpu_engine_host", { makeEncoder });
  await openHome();
  session = pyodide.pyimport("wgpu_engine.browser.session").Session();
}

async function loadRuntime() {
  const { loadPyodide } = await import(`${PYODIDE}pyodide.mjs`).catch(() => {
    throw new SourceError("network", `pyodide.mjs could not be fetched: ${AGAIN}`);
  });
  return loadPyodide({ indexURL: PYODIDE, packages: ["wgpu_engine"], env: { HOME, WGPU_ENGINE_HOME: HOME } });
}

/** Fails as soon as a fetch does, until stopped: Pyodide waits for ever for a part that doesn't come. */
function brokenFetch(signal) {
  const { fetch } = self;
  signal.addEventListener("abort", () => {
    self.fetch = fetch;
  });
  return new Promise((_resolve, reject) => {
    self.fetch = async (address, ...more) => {
      const name = String(address.url ?? address).split("/").at(-1);
      try {
        const response = await fetch(address, ...more);
        if (!response.ok) reject(new SourceError("network", `${name} isn't on the server (status ${response.status}): ${AGAIN}`));
        return response;
      } catch (error) {
        reject(new SourceError("network", `${name} could not be fetched: ${AGAIN}`));
        throw error;
      }
    };
  });
}

async function openHome() {
  const { FS } = pyodide;
  FS.mkdirTree(HOME);
  try {
    FS.mount(FS.filesystems.IDBFS, {}, HOME);
    await syncHome(true);
  } catch {
    // private windows have no IndexedDB: what is learned lasts for this visit
    FS.unmount(HOME);
  }
}

async function keepHome() {
  await syncHome(false).catch(() => {});
}

function syncHome(fromStorage) {
  return new Promise((resolve, reject) => pyodide.FS.syncfs(fromStorage, (error) => (error ? reject(error) : resolve())));
}

/** What the page needs to know of an error: its kind and one sentence. */
function described(error) {
  if (error.name === "AbortError") return STOPPED;
  if (error.name === "PythonError") {
    // the last line of a traceback: wgpu_engine.errors.RequestError: the sentence
    const [, name, message] = /^(?:[\w.]*\.)?(\w+): ([^]*)$/.exec(error.message.trim().split(/\n(?=\S)/).at(-1)) ?? [];
    if (name in KINDS) return { kind: KINDS[name], message: message.trim() };
    return { kind: "internal", message: error.message };
  }
  if (error.name === "NoAdapterError") {
    const [, kind, message] = /^(\w+): (.*)$/.exec(error.message);
    return { kind, message };
  }
  return { kind: error.kind ?? KINDS[error.name] ?? "internal", message: error.message ?? String(error) };
}
