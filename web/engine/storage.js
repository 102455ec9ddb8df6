/** The folder of the browser's own file system (OPFS) where parts of models lie, a folder a file of a model. */

const FOLDER = "wgpu-engine-models";

/**
 * @returns {Promise<FileSystemDirectoryHandle | null>} null where this browser keeps no files for us, as some private
 *   windows
 */
export async function modelFolder() {
  if (!globalThis.navigator?.storage?.getDirectory || !navigator.locks) return null;
  try {
    const root = await navigator.storage.getDirectory();
    return await root.getDirectoryHandle(FOLDER, { create: true });
  } catch {
    return null;
  }
}

/** Contents of a file of `folder`, as a Blob; null where there is none. */
export async function readFile(folder, name) {
  try {
    return await (await folder.getFileHandle(name)).getFile();
  } catch (error) {
    if (error.name === "NotFoundError" || error.name === "NotReadableError") return null;
    throw error;
  }
}

/**
 * Writes a file of `folder` as a whole. Only while holding the lock of its entry.
 * @param {Uint8Array} bytes
 */
export async function writeFile(folder, name, bytes) {
  const handle = await folder.getFileHandle(name, { create: true });
  if (handle.createWritable) {
    const stream = await handle.createWritable();
    try {
      await stream.write(bytes);
      await stream.close();
    } catch (error) {
      await stream.abort().catch(() => {});
      throw error;
    }
    return;
  }
  // Safari before 26
  if (!handle.createSyncAccessHandle) throw new DOMException("only workers can write", "NotSupportedError");
  const access = await handle.createSyncAccessHandle();
  try {
    access.truncate(0);
    if (access.write(bytes, { at: 0 }) !== bytes.length) throw new DOMException("disk full", "QuotaExceededError");
    access.flush();
  } finally {
    access.close();
  }
}

/** Removes a file or folder; nothing happens where there is none. */
export async function removeFrom(folder, name) {
  try {
    await folder.removeEntry(name, { recursive: true });
  } catch (error) {
    if (error.name !== "NotFoundError") throw error;
  }
}

/** Removes what is in a folder but for files of these names. */
export async function removeAllBut(folder, names) {
  const others = [];
  for await (const name of folder.keys()) if (!names.has(name)) others.push(name);
  for (const name of others) await removeFrom(folder, name);
}

/** Names of the folders in `folder`. */
export async function folderNames(folder) {
  const names = [];
  for await (const [name, handle] of folder.entries()) if (handle.kind === "directory") names.push(name);
  return names;
}

/**
 * Takes a lock over all tabs and workers of this site.
 * @param {"shared" | "exclusive"} mode
 * @returns {Promise<() => void>} gives it back
 */
export function takeLock(name, mode) {
  return new Promise((resolve, reject) => {
    navigator.locks.request(name, { mode }, () => new Promise((release) => resolve(release))).catch(reject);
  });
}
