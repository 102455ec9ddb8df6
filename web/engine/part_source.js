import { isQuota } from "./cache.js";
import { sha256 } from "./digest.js";
import { PART, partCount, partLength } from "./parts.js";
import { SourceError } from "./source_error.js";

const TRIES = 3; // of a part whose bytes aren't what they should be
const KEPT_WITHOUT_CACHE = 4; // parts in memory: what a layer's tensors are spread over
const MOST_IN_MEMORY = 512 << 20; // bytes of a file that can be had in one piece only

/** A file of a model on a server: its parts come from the cache, else over the network and into the cache. */
export class PartSource {
  /**
   * @param {object} parts
   * @param {import("./remote_file.js").RemoteFile} parts.remote
   * @param {string[] | null} parts.hashes SHA-256 of each part, where they are known beforehand
   * @param {import("./cache.js").CacheEntry | null} parts.entry null where nothing can be stored
   * @param {import("./progress.js").DownloadProgress} parts.progress
   * @param {AbortSignal} [parts.signal]
   */
  constructor({ remote, hashes, entry, progress, signal }) {
    this.name = remote.name;
    this.size = remote.size;
    /** sentences on what is out of the ordinary */
    this.warnings = [];
    this._remote = remote;
    this._hashes = hashes;
    this._entry = entry;
    this._storing = entry !== null;
    this._progress = progress;
    this._signal = signal;
    this._kept = new Map();
    this._counted = Array.from({ length: partCount(this.size) }, (_, index) =>
      this._isStored(index) ? partLength(index, this.size) : 0,
    );
    this._turn = Promise.resolve();
    this._closed = false;
    if (!entry) {
      this.warnings.push(
        "this browser keeps no files for this page, as in some private windows or on a full disk: models are " +
          "downloaded again each time",
      );
    }
    const cached = this._counted.reduce((sum, bytes) => sum + bytes, 0);
    progress.total += this.size;
    progress.add(cached, cached);
  }

  /**
   * Exactly `length` bytes from `offset`, to be read only: they may be a view of what is kept.
   * @returns {Promise<Uint8Array>}
   */
  async read(offset, length) {
    if (!(offset >= 0 && length >= 0 && offset + length <= this.size)) {
      throw new SourceError(
        "file",
        `${this.name} is truncated or damaged: bytes ${offset} to ${offset + length} were asked for and it has ` +
          `${this.size}; download it again`,
      );
    }
    const first = Math.floor(offset / PART);
    if (offset + length <= (first + 1) * PART) {
      return this._slice(first, offset - first * PART, offset - first * PART + length);
    }
    const bytes = new Uint8Array(length);
    for (let done = 0; done < length; ) {
      const index = Math.floor((offset + done) / PART);
      const start = offset + done - index * PART;
      const end = Math.min(partLength(index, this.size), start + length - done);
      bytes.set(await this._slice(index, start, end), done);
      done += end - start;
    }
    return bytes;
  }

  /** Fetches what is missing into the cache; without one nothing happens, `read` fetches what it needs. */
  async download() {
    for (let index = 0; index < partCount(this.size) && this._storing; index++) {
      await this._inTurn(async () => {
        if (!this._isStored(index)) await this._fetch(index);
      });
    }
  }

  /** Gives back what is held; reading after that is an error. */
  close() {
    this._closed = true;
    this._kept.clear();
    this._remote.close();
    this._entry?.close();
  }

  _isStored(index) {
    return this._entry?.has(index) ?? false;
  }

  _slice(index, start, end) {
    return this._inTurn(async () => {
      if (!this._kept.has(index)) {
        const slice = await this._entry?.slice(index, start, end);
        if (slice) return slice;
      }
      return (await this._part(index)).subarray(start, end);
    });
  }

  /** One reader at a time: several would fetch the same part. */
  _inTurn(action) {
    const turn = this._turn.then(() => {
      this._signal?.throwIfAborted();
      if (this._closed) throw new SourceError("request", `${this.name} was closed: load the model again`);
      return action();
    });
    this._turn = turn.catch(() => {});
    return turn;
  }

  async _part(index) {
    const kept = this._kept.get(index);
    this._kept.delete(index); // to be the last one again
    const bytes = kept ?? (await this._stored(index)) ?? (await this._fetch(index));
    this._keep(index, bytes);
    return bytes;
  }

  async _stored(index) {
    if (!this._isStored(index)) return null;
    const bytes = await this._entry.read(index);
    if (!bytes) {
      const lost = this._counted[index];
      this._counted[index] = 0;
      this._progress.add(-lost, -lost);
    }
    return bytes;
  }

  /** Fetches a part, verifies it where its hash is known, and stores it. */
  async _fetch(index) {
    await this._entry?.refresh();
    const stored = await this._stored(index); // another tab may have been faster
    if (stored) {
      this._count(index, stored.length);
      return stored;
    }
    await this._reserve();
    for (let tries = 1; ; tries++) {
      const bytes = await this._remote.part(
        index,
        (filled) => this._count(index, filled),
        (passed, passedBytes) => this._passed(passed, passedBytes),
      );
      const hash = this._hashes || this._storing ? await sha256(bytes) : "";
      if (!this._hashes || hash === this._hashes[index]) {
        await this._store(index, bytes, hash);
        return bytes;
      }
      if (tries === TRIES) {
        throw new SourceError(
          "file",
          `${this.name} on the server is damaged or not the file that this page was made for: put the right one there`,
        );
      }
      this._remote.close(); // a stream can't go back
    }
  }

  /** Takes note of a part that had to be read on the way to another. */
  async _passed(index, bytes) {
    this._count(index, bytes.length);
    if (this._isStored(index)) return;
    const hash = this._hashes || this._storing ? await sha256(bytes) : "";
    if (this._hashes && hash !== this._hashes[index]) return;
    await this._store(index, bytes, hash);
    if (!this._isStored(index)) this._keep(index, bytes);
  }

  _keep(index, bytes) {
    const most = this._storing ? 1 : this._remote.ranges ? KEPT_WITHOUT_CACHE : Infinity;
    this._kept.set(index, bytes);
    for (const oldest of this._kept.keys()) {
      if (this._kept.size <= most) break;
      this._kept.delete(oldest);
    }
  }

  async _store(index, bytes, hash) {
    while (this._storing) {
      try {
        this._storing = await this._entry.write(index, bytes, hash);
        break;
      } catch (error) {
        if (!(error instanceof DOMException)) throw error;
        if (!isQuota(error) || !(await this._entry.makeRoom(index))) this._full();
      }
    }
    if (!this._storing) this._check();
  }

  /** Before the first byte is fetched: sees that there is room for all of the file. */
  async _reserve() {
    if (this._reserved) return;
    this._reserved = true;
    if (this._storing && !(await this._entry.reserve())) this._full();
  }

  _full() {
    this._storing = false;
    this.warnings.push(
      `${this.name} doesn't fit into what this browser lets the page store: it is downloaded again each time, until ` +
        "you remove other models or free some disk",
    );
  }

  /** Without a cache, what a server gives out in one piece only has to be kept in memory. */
  _check() {
    if (!this._remote.ranges && this.size > MOST_IN_MEMORY) {
      throw new SourceError(
        "quota",
        `${this.name} is too large: its server gives it out in one piece only, and this browser lets the page store ` +
          "none of it; free some disk, or put it on a server that knows range requests",
      );
    }
  }

  _count(index, filled) {
    const more = filled - this._counted[index];
    if (more <= 0) return;
    this._counted[index] = filled;
    this._progress.add(more);
  }
}
