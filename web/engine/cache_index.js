import { partCount, partLength } from "./parts.js";
import { readFile, writeFile } from "./storage.js";

const FILE = "index.json";
const VERSION = 1;
const HASH = /^[0-9a-f]{64}$/;

/** What the cache knows of a file of a model: which version of it, and the SHA-256 of each part that is there. */
export class CacheIndex {
  /** An index of nothing, for a file. */
  static of({ name, size, validator }) {
    return new CacheIndex({ name, size, validator, used: 0, parts: new Array(partCount(size)).fill(null) });
  }

  /**
   * The index of an entry; null where there is none, or one that makes no sense.
   * @param {FileSystemDirectoryHandle} folder
   */
  static async read(folder) {
    const file = await readFile(folder, FILE);
    try {
      const values = JSON.parse(await file.text());
      return isSound(values) ? new CacheIndex(values) : null;
    } catch {
      return null;
    }
  }

  constructor({ name, size, validator, used, parts }) {
    this.name = name;
    /** bytes of the whole file */
    this.size = size;
    /** what told this version of the file from others on its server */
    this.validator = validator;
    /** when it was opened last, in milliseconds since 1970 */
    this.used = used;
    /** @type {(string | null)[]} hashes */
    this.parts = parts;
  }

  /** Bytes that are there. */
  get bytes() {
    return this.parts.reduce((sum, hash, index) => sum + (hash === null ? 0 : partLength(index, this.size)), 0);
  }

  /** Names of the files that belong to it, its own included. */
  get files() {
    const parts = this.parts.map((hash, index) => (hash === null ? null : String(index)));
    return new Set([FILE, ...parts]);
  }

  /** Whether this is of the same version of a file. */
  isOf({ size, validator, hashes }) {
    const same = this.size === size && this.validator === validator;
    return same && this.parts.every((hash, index) => hash === null || !hashes || hash === hashes[index]);
  }

  /** Writes it. Only while holding the lock of the entry. */
  async write(folder) {
    await writeFile(folder, FILE, new TextEncoder().encode(JSON.stringify({ version: VERSION, ...this })));
  }
}

function isSound({ version, name, size, validator, used, parts }) {
  return (
    version === VERSION &&
    typeof name === "string" &&
    typeof validator === "string" &&
    Number.isSafeInteger(size) &&
    Number.isFinite(used) &&
    Array.isArray(parts) &&
    parts.length === partCount(size) &&
    parts.every((hash) => hash === null || HASH.test(hash))
  );
}
