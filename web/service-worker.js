// Keeps the whole page offline, by content hash: a file is kept and served only if it is, byte for byte, what this
// version was built of. A new version is fetched beside the old one, what is the same being taken over, and replaces
// it in one step, when the page is loaded again or asks for it by the message "skipWaiting". Models are not kept
// here, but by the engine.

/* global self, caches, clients, registration, crypto */

importScripts("precache.js");

/** @type {{version: string | null, files: {path: string, sha256: string, type: string}[]}} */
const { version, files } = self.PRECACHE;
const SCOPE = new URL(registration.scope);
const PREFIX = `wgpu-engine ${SCOPE.pathname} `;
const CACHE = PREFIX + version;
const FETCHED_AT_ONCE = 6;
/** Shown for a moment while versions change: empty, in the colours of the system. */
const BETWEEN = '<!doctype html><meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">';

const byPath = new Map(files.map((file) => [file.path, file]));

/** The caches of this page's versions, of which there may be others on the same host. */
async function ownCaches() {
  return (await caches.keys()).filter((name) => name.startsWith(PREFIX));
}

/** Under what a file is kept: its content, wherever it lies. */
function keyOf(file) {
  return new URL(`precached/${file.sha256}`, SCOPE);
}

async function sha256(data) {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", data));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** A file from the server, if it is what this version was built of. */
async function fetchSound(file) {
  for (const cache of ["no-cache", "reload"]) {
    const response = await fetch(new URL(file.path, SCOPE), { cache });
    if (!response.ok) throw new Error(`${file.path}: status ${response.status}`);
    const data = await response.arrayBuffer();
    if ((await sha256(data)) === file.sha256) return new Response(data, { headers: { "Content-Type": file.type } });
  }
  throw new Error(`${file.path} is of another version than service-worker.js`);
}

async function fill() {
  const cache = await caches.open(CACHE);
  const earlier = await Promise.all((await ownCaches()).map((name) => caches.open(name)));
  const waiting = [...files];
  const fetchOn = async () => {
    for (let file = waiting.pop(); file; file = waiting.pop()) {
      const key = keyOf(file);
      if (await cache.match(key)) continue;
      let response;
      for (const other of earlier) response ??= await other.match(key);
      await cache.put(key, response ?? (await fetchSound(file)));
    }
  };
  await Promise.all(Array.from({ length: FETCHED_AT_ONCE }, fetchOn));
}

/** Takes the page over; where it is no bundle any more (no version), leaves it for good. */
async function takeOver() {
  for (const name of await ownCaches()) if (!version || name !== CACHE) await caches.delete(name);
  if (version) return clients.claim();
  await registration.unregister();
  for (const client of await clients.matchAll({ type: "window" })) client.navigate(client.url);
}

/** The file that a request is for, if it is one of ours. */
function requested(request) {
  const url = new URL(request.url);
  if (request.method !== "GET" || url.origin !== SCOPE.origin || !url.pathname.startsWith(SCOPE.pathname)) return null;
  return byPath.get(url.pathname.slice(SCOPE.pathname.length) || "index.html");
}

/** Whether the last page of this version is gone: what has been begun is not taken back, or versions would mix. */
let leaving = false;

async function serve(request, file) {
  // The last page of the old version goes: the new one, if it is ready, takes over before the next page is loaded.
  if (request.mode === "navigate" && registration.waiting) leaving ||= (await clients.matchAll()).length < 2;
  if (request.mode === "navigate" && registration.waiting && leaving) {
    registration.waiting.postMessage("skipWaiting");
    return new Response(BETWEEN, { headers: { "Content-Type": "text/html; charset=utf-8", Refresh: "0" } });
  }
  const cache = await caches.open(CACHE);
  const kept = await cache.match(keyOf(file));
  if (kept) return kept;
  const response = await fetchSound(file);
  await cache.put(keyOf(file), response.clone());
  return response;
}

self.addEventListener("install", (event) => event.waitUntil(version ? fill() : self.skipWaiting()));
self.addEventListener("activate", (event) => event.waitUntil(takeOver()));
self.addEventListener("message", (event) => event.data === "skipWaiting" && self.skipWaiting());
self.addEventListener("fetch", (event) => {
  const file = requested(event.request);
  if (file) event.respondWith(serve(event.request, file));
});
