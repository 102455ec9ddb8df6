import { CacheIndex } from "./cache_index.js";
import { sha256 } from "./digest.js";
import { partLength } from "./parts.js";
import { SourceError } from "./source_error.js";
import { folderNames, modelFolder, readFile, removeAllBut, removeFrom, takeLock, writeFile } from "./storage.js";

const ASKED = "wgpu-engine-persist";

const useLock = (id) => `wgpu-engine-use-${id}`;
const writeLock = (id) => `wgpu-engine-write-${id}`;

/**
 * A file of a model in the cache, held open: nobody evicts it meanwhile.
 *
 * Parts are files of their own, beside an index with the SHA-256 of each. Several tabs and workers may have the same
 * entry open: what is written, is written under a lock and only where it belongs to the same version of the file.
 */
export class CacheEntry {
  /**
   * Opens the entry of a file, a new one where the cache has none or has another version.
   * @param {{id: string, name: string, size: number, validator: string, hashes: string[] | null}} file `hashes` of all
   *   parts where they are known
   * @returns {Promise<CacheEntry | null>} null where this browser keeps no files for us
   */
  static async open(file) {
    const folder = await modelFolder();
    if (!folder) return null;
    const release = await takeLock(useLock(file.id), "shared");
    try {
      const entry = new CacheEntry(await folder.getDirectoryHandle(file.id, { create: true }), file, release);
      await entry._locked(async () => {
        const found = await CacheIndex.read(entry._folder);
        entry._index = found?.isOf(file) ? found : CacheIndex.of(file);
        // of another version, or left by a tab that was closed while it wrote
        await removeAllBut(entry._folder, entry._index.files);
        entry._index.used = Date.now();
        await entry._index.write(entry._folder);
      });
      return entry;
    } catch (error) {
      release();
      if (error instanceof DOMException) return null;
      throw error;
    }
  }

  constructor(folder, file, release) {
    this._folder = folder;
    this._file = file;
    this._release = release;
    this._verified = new Set();
  }

  /** Whether part `index` is there, as far as was known last. */
  has(index) {
    return this._index.parts[index] !== null;
  }

  /** Bytes that are not there. */
  get missing() {
    return this._file.size - this._index.bytes;
  }

  /** Takes note of what others have written. */
  async refresh() {
    const found = await CacheIndex.read(this._folder);
    if (found?.isOf(this._file)) this._index = found;
  }

  /**
   * Reads a part and verifies it; what is spoilt is thrown away.
   * @returns {Promise<Uint8Array | null>} null where it isn't there, or no more
   */
  async read(index) {
    const hash = this._index.parts[index];
    if (hash === null) return null;
    const bytes = await this._bytes(index, 0, partLength(index, this._file.size));
    if (bytes && (this._verified.has(index) || (await sha256(bytes)) === hash)) {
      this._verified.add(index);
      return bytes;
    }
    this._verified.delete(index);
    await this._change(() => (this._index.parts[index] = null));
    this._index.parts[index] = null;
    return null;
  }

  /** Bytes `start` to `end` of a part that was verified; null where it isn't there any more. */
  async slice(index, start, end) {
    return this._verified.has(index) ? this._bytes(index, start, end) : null;
  }

  /**
   * Stores a part.
   * @param {Uint8Array} bytes
   * @param {string} hash of the bytes
   * @returns {Promise<boolean>} false where the file's version in the cache is another by now
   * @throws {DOMException} the browser stores no more
   */
  async write(index, bytes, hash) {
    return this._change(async () => {
      if (this.has(index)) return;
      await writeFile(this._folder, String(index), bytes);
      this._index.parts[index] = hash;
      this._verified.add(index);
    });
  }

  /**
   * Makes room for all that is missing, as far as the browser tells how much there is.
   * @returns {Promise<boolean>} false where there can't be enough
   */
  async reserve() {
    const { quota = 0, usage = 0 } = await navigator.storage.estimate();
    return evict(this.missing - (quota - usage), 0, this._file.id);
  }

  /**
   * Makes some room for part `index`, which could not be written; it may take several goes.
   * @returns {Promise<boolean>} false where there can't be enough for all that is missing
   */
  async makeRoom(index) {
    // what is free is less than the part
    return evict(1, this.missing - partLength(index, this._file.size), this._file.id);
  }

  /** Lets others evict it. */
  close() {
    this._release();
  }

  async _bytes(index, start, end) {
    try {
      const file = await readFile(this._folder, String(index));
      if (!file || file.size < end) return null;
      return new Uint8Array(await file.slice(start, end).arrayBuffer());
    } catch (error) {
      if (error instanceof DOMException) return null;
      throw error;
    }
  }

  /** Changes the index as it is now; false where it is one of another version of the file. */
  _change(action) {
    return this._locked(async () => {
      const found = await CacheIndex.read(this._folder);
      if (!found?.isOf(this._file)) return false;
      this._index = found;
      await action();
      await this._index.write(this._folder);
      return true;
    });
  }

  _locked(action) {
    return navigator.locks.request(writeLock(this._file.id), action);
  }
}

/** The index of a file in the cache; null where it has none of it. */
export async function findCached(id) {
  const folder = await modelFolder();
  return folder && folder.getDirectoryHandle(id).then(CacheIndex.read, () => null);
}

/** Whether an error of `write` says that the site has used up its storage; Chromium doesn't always call it quota. */
export function isQuota(error) {
  return error.name === "QuotaExceededError" || error.name === "AbortError";
}

/**
 * What is in the cache, least recently used first.
 * @returns {Promise<{id: string, name: string, size: number, bytes: number, complete: boolean, lastUsed: Date}[]>}
 *   `bytes` are there of `size`
 */
export async function listCached() {
  const folder = await modelFolder();
  if (!folder) return [];
  const found = [];
  for (const id of await folderNames(folder)) {
    const index = await folder.getDirectoryHandle(id).then(CacheIndex.read, () => null);
    found.push({
      id,
      name: index?.name ?? id,
      size: index?.size ?? 0,
      bytes: index?.bytes ?? 0,
      complete: index !== null && index.bytes === index.size,
      lastUsed: new Date(index?.used ?? 0),
    });
  }
  return found.sort((one, other) => one.lastUsed - other.lastUsed);
}

/**
 * Removes a file of a model from the cache.
 * @param {string} id as `listCached` tells it
 * @throws {SourceError} of kind "in_use" where the file is in use
 */
export async function removeCached(id) {
  const folder = await modelFolder();
  if (folder && !(await removeUnused(folder, id))) {
    throw new SourceError("in_use", "this model is being loaded, here or in another tab: wait for that, and remove it then");
  }
}

/**
 * What this site may store and what it does, in bytes; `persistent`: the browser doesn't clear it by itself.
 * @returns {Promise<{quota: number, usage: number, persistent: boolean}>}
 */
export async function storageEstimate() {
  const { storage } = navigator;
  const { quota = 0, usage = 0 } = (await storage?.estimate?.()) ?? {};
  return { quota, usage, persistent: (await storage?.persisted?.()) ?? false };
}

/**
 * Asks the browser, once and for all, not to clear what is stored when the disk gets full. Only pages can ask, workers
 * can't.
 * @returns {Promise<boolean>} whether it won't
 */
export async function askToPersist() {
  const { storage } = navigator;
  if (!storage?.persist) return false;
  if (await storage.persisted()) return true;
  try {
    if (localStorage.getItem(ASKED)) return false;
    localStorage.setItem(ASKED, "asked");
  } catch {
    return false; // a page that may not remember anything need not ask
  }
  return storage.persist();
}

/**
 * Removes what was not used for longest, up to `bytes`, but never what is in use or `keep`.
 * @returns {Promise<boolean>} false where there is less, or less than `atLeast`; nothing is removed then
 */
async function evict(bytes, atLeast, keep) {
  if (bytes <= 0) return true;
  const folder = await modelFolder();
  const { held } = await navigator.locks.query();
  const inUse = new Set(held.map((lock) => lock.name));
  const idle = (await listCached()).filter(({ id }) => id !== keep && !inUse.has(useLock(id)));
  if (idle.reduce((sum, entry) => sum + entry.bytes, 0) < Math.max(bytes, atLeast)) return false;
  for (const entry of idle) {
    if (bytes <= 0) break;
    if (await removeUnused(folder, entry.id)) bytes -= entry.bytes;
  }
  return bytes <= 0;
}

/** Removes an entry unless somebody has it open; false where somebody has. */
function removeUnused(folder, id) {
  return navigator.locks.request(useLock(id), { ifAvailable: true }, async (lock) => {
    if (!lock) return false;
    await removeFrom(folder, id);
    return true;
  });
}
