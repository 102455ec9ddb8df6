import { SourceError } from "./source_error.js";

const STALL = 30_000; // milliseconds without a byte after which a connection counts as cut
const DELAYS = [500, 1000, 2000, 4000]; // milliseconds before each further try
const LONGEST_DELAY = 30_000; // milliseconds, of what a server may ask for
const PASSING = [408, 425, 429, 500, 502, 503, 504]; // statuses that may be others a moment later

/** A failure that may be gone at the next try; its message is what to say if it is not. */
class Interruption extends Error {
  constructor(message, after = 0) {
    super(message);
    /** milliseconds that the server asks to wait */
    this.after = after;
  }
}

/**
 * Calls `attempt` until it succeeds, a few times with growing pauses as long as the network is what fails.
 * @param {(gotOn: () => void) => Promise<T>} attempt calls `gotOn` when something has come, and pauses start over
 * @param {AbortSignal} [signal]
 * @param {number} [tries] without anything coming
 * @returns {Promise<T>}
 * @template T
 */
export async function persistently(attempt, signal, tries = DELAYS.length + 1) {
  let failures = 0;
  for (;;) {
    try {
      return await attempt(() => (failures = 0));
    } catch (error) {
      signal?.throwIfAborted();
      if (!(error instanceof Interruption)) throw error;
      if (failures === tries - 1) throw new SourceError("network", error.message);
      await pause(Math.max(DELAYS[failures++], error.after), signal);
    }
  }
}

function pause(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, milliseconds);
    signal?.addEventListener("abort", stop, { once: true });
  });
}

/** One answer of a server, whose body is read bit by bit. */
export class Answer {
  /**
   * Asks for bytes `start` to `end` (exclusive) of a file, or for all of it.
   * @param {{url: string, name: string, start?: number, end?: number, signal?: AbortSignal, timeout?: number, first?: boolean}} request
   *   `name` is what to call the file in a message; `timeout` in milliseconds;
   *   `first` where nothing is known of the server: one of another site that can't be read won't be tried again
   */
  static async to({ url, name, start, end, signal, timeout = STALL, first = false }) {
    const answer = new Answer(name, signal, timeout);
    const headers = end === undefined ? {} : { Range: `bytes=${start}-${end - 1}` };
    try {
      // what is worth keeping goes into our own cache
      const sent = fetch(url, { headers, cache: "no-store", signal: answer._controller.signal });
      answer._response = await answer._inTime(sent);
    } catch (error) {
      answer.cancel();
      signal?.throwIfAborted();
      if (first && error instanceof TypeError && isElsewhere(url)) throw new SourceError("network", unreachable(url, name));
      throw new Interruption(unreachable(url, name));
    }
    const error = refusal(answer._response, name);
    if (error) {
      answer.cancel();
      throw error;
    }
    return answer;
  }

  constructor(name, signal, timeout) {
    this._name = name;
    this._signal = signal;
    this._timeout = timeout;
    this._controller = new AbortController();
    this._stop = () => this._controller.abort(signal.reason);
    signal?.throwIfAborted();
    signal?.addEventListener("abort", this._stop);
  }

  get status() {
    return this._response.status;
  }

  /** What tells one version of the file from another, as far as the server lets us see it. */
  get validator() {
    const { headers } = this._response;
    return headers.get("ETag")?.replace(/^W\//, "") ?? headers.get("Last-Modified") ?? "";
  }

  /** Whether what is sent is an encoding of the file, so that lengths are of something else. */
  get encoded() {
    const encoding = this._response.headers.get("Content-Encoding");
    return encoding !== null && encoding !== "identity";
  }

  /** Bytes of the body; null where the server doesn't say. */
  get length() {
    const length = this._response.headers.get("Content-Length");
    return length === null || this.encoded ? null : Number(length);
  }

  /** `{start, end, size}` of Content-Range, `size` null where it is unknown; null without a readable header. */
  get range() {
    const match = /^bytes (\d+)-(\d+)\/(\d+|\*)$/.exec(this._response.headers.get("Content-Range") ?? "");
    if (!match) return null;
    return { start: Number(match[1]), end: Number(match[2]) + 1, size: match[3] === "*" ? null : Number(match[3]) };
  }

  /** The next bytes of the body; null at its end. */
  async next() {
    this._reader ??= this._response.body.getReader();
    try {
      const { done, value } = await this._inTime(this._reader.read());
      if (!done) return value;
    } catch {
      this.cancel();
      this._signal?.throwIfAborted();
      throw this.cut();
    }
    this.cancel();
    return null;
  }

  /** The error of a connection that was cut. */
  cut() {
    return new Interruption(
      `the download of ${this._name} was cut: check the network and load the model again, which goes on from here`,
    );
  }

  /** Ends the connection. */
  cancel() {
    this._signal?.removeEventListener("abort", this._stop);
    this._controller.abort();
  }

  /** What `promise` gives, unless the connection stands still for too long. */
  async _inTime(promise) {
    const timer = setTimeout(() => this._controller.abort(), this._timeout);
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
    }
  }
}

function isElsewhere(url) {
  return Boolean(globalThis.location) && new URL(url).host !== globalThis.location.host;
}

function unreachable(url, name) {
  const { host } = new URL(url);
  if (globalThis.navigator?.onLine === false) {
    return `${name} can't be fetched from ${host} since this device is offline: connect it and load the model again`;
  }
  const cors = isElsewhere(url) ? ", or the server doesn't let other sites read it (CORS)" : "";
  const reason = `the network or the server is down${cors}`;
  return `${name} can't be fetched from ${host}: ${reason}; check the address and load the model again`;
}

/** The error that an answer amounts to; undefined where it brings bytes. */
function refusal(response, name) {
  const { status, headers, url } = response;
  if (status === 200 || status === 206) {
    if (!/^text\/html\b/i.test(headers.get("Content-Type") ?? "")) return undefined;
    return new SourceError("file", `the server answers with a web page instead of ${name}: check the address`);
  }
  const { host } = new URL(url);
  if (PASSING.includes(status)) {
    const after = Math.min(1000 * (Number(headers.get("Retry-After")) || 0), LONGEST_DELAY);
    return new Interruption(`${host} can't give out ${name} for the moment (${status}): try again later`, after);
  }
  if (status === 404 || status === 410) {
    return new SourceError("address", `${name} isn't on ${host} (${status}): check the address`);
  }
  if (status === 401 || status === 403) {
    return new SourceError("address", `${host} doesn't give out ${name} (${status}): it needs a login or permission`);
  }
  if (status === 416) {
    return new SourceError("file", `${name} on ${host} is shorter than it should be: load it again`);
  }
  return new SourceError("address", `${host} answers ${status} instead of ${name}: check the address`);
}
