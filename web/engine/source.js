/** Where the bytes of a model come from. */

import { CacheEntry, findCached } from "./cache.js";
import { FileSource } from "./file_source.js";
import { cacheId, fileName, partAddresses } from "./model_address.js";
import { PartSource } from "./part_source.js";
import { partCount } from "./parts.js";
import { DownloadProgress } from "./progress.js";
import { RemoteFile } from "./remote_file.js";
import { SourceError } from "./source_error.js";

const HASH = /^[0-9a-f]{64}$/;

/**
 * @typedef {object} Source a file of a model
 * @property {string} name
 * @property {number} size bytes
 * @property {string[]} warnings sentences on what is out of the ordinary, such as storage that is full
 * @property {(offset: number, length: number) => Promise<Uint8Array>} read exactly these bytes, verified; to be read
 *   only. Fetches what isn't there.
 * @property {() => Promise<void>} download fetches all that isn't there into the cache, if there is one
 * @property {() => void} close
 */

/**
 * @typedef {object} Bundled
 * @property {"bundled"} kind
 * @property {{path: string, bytes: number, sha256: string, parts: string[]}[]} files entries of bundle.json
 * @property {URL | string} base what their paths start from
 */

/**
 * Opens the files of a model. No more is fetched than it takes to know their sizes.
 * @param {Bundled | {kind: "file", files: File[]} | {kind: "url", urls: string[]}} source files of the bundle, files of
 *   this device, or addresses: one of a split model stands for all of its parts
 * @param {object} [options]
 * @param {(progress: {stage: "download", done: number, total: number, cached: number}) => void} [options.onProgress]
 *   told bytes of all files, now and as long as the sources are read
 * @param {AbortSignal} [options.signal] ends reading with its reason
 * @returns {Promise<Source[]>}
 * @throws {SourceError}
 */
export async function openSource(source, { onProgress, signal } = {}) {
  if (source.kind === "file") return source.files.map((file) => new FileSource(file));
  const progress = new DownloadProgress(onProgress);
  const opened = [];
  try {
    if (source.kind === "bundled") {
      for (const file of source.files) opened.push(await openBundled(file, source.base, progress, signal));
    } else {
      for (const url of source.urls.flatMap(partAddresses)) opened.push(await openAddress(url, progress, signal));
    }
    return opened;
  } catch (error) {
    for (const each of opened) each.close();
    throw error;
  }
}

/** A file whose hashes the bundle knows. */
async function openBundled({ path, bytes, sha256: id, parts }, base, progress, signal) {
  const name = path.split("/").at(-1);
  const sound = Number.isSafeInteger(bytes) && bytes > 0 && HASH.test(id);
  if (!sound || parts?.length !== partCount(bytes) || !parts.every((hash) => HASH.test(hash))) {
    throw new SourceError("file", `bundle.json doesn't describe ${name} as it should: build the bundle again`);
  }
  const url = new URL(path, base).href;
  const entry = await CacheEntry.open({ id, name, size: bytes, validator: "", hashes: parts });
  const remote = new RemoteFile({ url, name, size: bytes, signal });
  return new PartSource({ remote, hashes: parts, entry, progress, signal });
}

/** A file of which only its address is known. */
async function openAddress(url, progress, signal) {
  const name = fileName(url);
  const id = await cacheId(url);
  const remote = new RemoteFile({ url, name, signal });
  const cached = await findCached(id);
  const whole = cached !== null && cached.bytes === cached.size;
  try {
    await remote.probe({ quick: whole });
  } catch (error) {
    if (!whole || !["network", "address"].includes(error.kind)) throw error;
    remote.size = cached.size; // offline
    remote.validator = cached.validator;
  }
  const file = { id, name, size: remote.size, validator: remote.validator, hashes: null };
  return new PartSource({ remote, hashes: null, entry: await CacheEntry.open(file), progress, signal });
}
