import { sha256 } from "./digest.js";
import { SourceError } from "./source_error.js";

const SPLIT = /^(.+)-(\d{5})-of-(\d{5})\.gguf$/;

const HUB = "huggingface.co";
const HUB_PAGE = /^(\/[^/]+\/[^/]+)\/(?:blob|raw)\//; // what people copy: the page about a file

/**
 * The ids that the cache has for the files of a model at an address.
 * @param {string} url as it is given to `openSource`
 * @returns {Promise<string[]>}
 * @throws {SourceError} where it is no address
 */
export async function cacheIds(url) {
  return Promise.all(partAddresses(url).map(cacheId));
}

/** The id that the cache has for the file at an address, as `partAddresses` gives it. */
export async function cacheId(address) {
  return `url-${await sha256(new TextEncoder().encode(address))}`;
}

/** Addresses of all parts of a split model, or the one of a model that isn't split. */
export function partAddresses(url) {
  let address;
  try {
    address = new URL(url, globalThis.location?.href);
  } catch {
    throw new SourceError("address", `${url} isn't an address: it should begin with https:// and a host`);
  }
  if (address.protocol !== "http:" && address.protocol !== "https:") {
    throw new SourceError("address", `${url} can't be fetched: give an address that begins with https://`);
  }
  address.hash = "";
  if (address.hostname === HUB) address.pathname = address.pathname.replace(HUB_PAGE, "$1/resolve/");
  const match = SPLIT.exec(fileName(address.href));
  if (!match || Number(match[3]) < 1 || Number(match[2]) > Number(match[3])) return [address.href];
  const folder = address.pathname.slice(0, address.pathname.lastIndexOf("/") + 1);
  return Array.from({ length: Number(match[3]) }, (_, index) => {
    const part = new URL(address);
    const number = String(index + 1).padStart(5, "0");
    part.pathname = folder + encodeURIComponent(`${match[1]}-${number}-of-${match[3]}.gguf`);
    return part.href;
  });
}

/** The name of the file at an address. */
export function fileName(url) {
  const last = new URL(url).pathname.split("/").at(-1);
  try {
    return decodeURIComponent(last) || url;
  } catch {
    return last;
  }
}
