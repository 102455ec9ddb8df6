import { Answer, persistently } from "./http.js";
import { PART, partCount, partLength } from "./parts.js";
import { SourceError } from "./source_error.js";

const QUICK = { timeout: 10_000, tries: 1 };

/** Reads parts of a file over HTTP: by ranges, or from one stream where the server doesn't know them. */
export class RemoteFile {
  /**
   * @param {{url: string, name: string, size?: number, validator?: string, signal?: AbortSignal}} file
   *   `size` in bytes and `validator` as they are known; else `probe` finds them
   */
  constructor({ url, name, size, validator = "", signal }) {
    this.url = url;
    this.name = name;
    this.size = size;
    this.validator = validator;
    this.signal = signal;
    /** whether the server gives out ranges, as far as is known */
    this.ranges = true;
    this._stream = null;
  }

  /**
   * Finds out size and validator.
   * @param {{quick?: boolean}} [how] quick: not at any price, since there is another way
   */
  async probe({ quick = false } = {}) {
    const answer = await this._ask({ start: 0, end: 4, first: true, ...(quick && QUICK) });
    this.validator = answer.validator;
    this.ranges = answer.status === 206 && !answer.encoded;
    let size = this.ranges ? answer.range?.size : answer.length;
    answer.cancel();
    if (size === undefined || size === null) {
      // Content-Range is hidden from other sites unless the server says otherwise, Content-Length isn't.
      const whole = await this._ask({});
      size = whole.length;
      whole.cancel();
    }
    if (!Number.isSafeInteger(size)) {
      throw new SourceError(
        "file",
        `the server doesn't tell the length of ${this.name}: have it send Content-Length without compression`,
      );
    }
    this.size = size;
  }

  /**
   * The bytes of part `index`.
   * @param {(filled: number) => void} onBytes told how many bytes of the part are there
   * @param {(index: number, bytes: Uint8Array) => Promise<void>} onPassed gets each part before it that had to be read
   * @returns {Promise<Uint8Array>}
   */
  async part(index, onBytes, onPassed) {
    const bytes = new Uint8Array(partLength(index, this.size));
    let filled = 0;
    const fill = (chunk) => {
      bytes.set(chunk, filled);
      filled += chunk.length;
      onBytes(filled);
    };
    await persistently(async (gotOn) => {
      while (this.ranges && filled < bytes.length) {
        const start = index * PART + filled;
        await this._range(start, index * PART + bytes.length, (chunk) => {
          fill(chunk);
          gotOn();
        });
      }
      if (filled === bytes.length) return;
      filled = 0;
      await this._streamed(index, fill, onPassed, gotOn);
    }, this.signal);
    return bytes;
  }

  /** Ends what connection there is. */
  close() {
    this._stream?.cancel();
    this._stream = null;
  }

  /** Hands over bytes from `start` on, perhaps not all up to `end`; finds that the server doesn't know ranges. */
  async _range(start, end, take) {
    const answer = await Answer.to({ url: this.url, name: this.name, start, end, signal: this.signal });
    try {
      this._check(answer);
      if (answer.status === 200 || answer.encoded) {
        this.ranges = false;
        if (answer.status === 200) this._begin(answer);
        return;
      }
      const range = answer.range ?? { start, end, size: null };
      if (range.start !== start || range.end > end || range.end <= start) {
        throw new SourceError(
          "network",
          `the server gives out other bytes of ${this.name} than were asked for: fetch it from another server`,
        );
      }
      if (range.size !== null && range.size !== this.size) throw this._otherSize(range.size);
      let left = range.end - start;
      for (let chunk = await answer.next(); chunk; chunk = await answer.next()) {
        take(chunk.subarray(0, left));
        left -= chunk.length;
        if (left <= 0) break;
      }
      if (left > 0) throw answer.cut();
    } finally {
      if (!this._stream) answer.cancel();
    }
  }

  /** Takes an answer for the stream of the whole file. */
  _begin(answer) {
    if (answer.length !== null && answer.length !== this.size) throw this._otherSize(answer.length);
    this._stream = new Stream(answer, this.size);
  }

  /** Hands over part `index` from a stream of the whole file, which is begun anew where it has passed the part. */
  async _streamed(index, take, onPassed, gotOn) {
    if (this._stream && this._stream.part > index) this.close();
    if (!this._stream) {
      const answer = await this._ask({});
      this._check(answer);
      this._begin(answer);
    }
    try {
      while (this._stream.part < index) {
        const passed = this._stream.part;
        const bytes = new Uint8Array(partLength(passed, this.size));
        let filled = 0;
        await this._stream.read((chunk) => {
          bytes.set(chunk, filled);
          filled += chunk.length;
          gotOn();
        });
        await onPassed(passed, bytes);
      }
      await this._stream.read((chunk) => {
        take(chunk);
        gotOn();
      });
    } catch (error) {
      this.close();
      throw error;
    }
    if (index === partCount(this.size) - 1) this.close();
  }

  /** The answer to a request, which is tried a few times. */
  _ask({ tries, ...request }) {
    const attempt = () => Answer.to({ url: this.url, name: this.name, signal: this.signal, ...request });
    return persistently(attempt, this.signal, tries);
  }

  _check(answer) {
    if (this.validator && answer.validator && answer.validator !== this.validator) {
      throw new SourceError("file", `${this.name} has changed on the server: load the model again`);
    }
  }

  _otherSize(size) {
    return new SourceError(
      "file",
      `${this.name} has ${size} bytes on the server instead of ${this.size}: load the model again, or put the whole ` +
        "file there",
    );
  }
}

/** The body of an answer, part by part. */
class Stream {
  constructor(answer, size) {
    /** the part that comes next */
    this.part = 0;
    this._answer = answer;
    this._size = size;
    this._rest = new Uint8Array(0);
  }

  /** Hands over the next part. */
  async read(take) {
    let left = partLength(this.part, this._size);
    while (left > 0) {
      const chunk = this._rest.length ? this._rest : await this._answer.next();
      if (!chunk) throw this._answer.cut();
      const some = chunk.subarray(0, left);
      take(some);
      left -= some.length;
      this._rest = chunk.subarray(some.length);
    }
    this.part += 1;
  }

  cancel() {
    this._answer.cancel();
  }
}
