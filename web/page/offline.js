/** Keeps the page for when there is no network, and looks out for new versions of it. */

const PAUSE_MS = 3000;
const LONGEST_WAIT_MS = 10_000;
const LOOK_AGAIN_MS = 3_600_000;

/**
 * Starts the service worker once the page is done with what is more urgent.
 *
 * @returns {Promise<() => void>} resolved when a new version is here, whole, with what lets it take over in all tabs
 */
export function keepOffline() {
  const workers = navigator.serviceWorker;
  // the page works without a service worker too, only not offline
  if (!workers) return new Promise(() => {});
  let controlled = Boolean(workers.controller);
  workers.addEventListener("controllerchange", () => {
    // the first one keeps the version that this page is of
    if (controlled) location.reload();
    controlled = true;
  });
  return new Promise((found) => {
    setTimeout(() => idle(() => register(found).catch(() => {})), PAUSE_MS);
  });
}

function idle(then) {
  if (globalThis.requestIdleCallback) requestIdleCallback(then, { timeout: LONGEST_WAIT_MS });
  else then();
}

async function register(found) {
  const registration = await navigator.serviceWorker.register("service-worker.js", { updateViaCache: "none" });
  const look = () => {
    // the very first version waits for a moment too
    if (registration.waiting && registration.active) found(() => registration.waiting?.postMessage("skipWaiting"));
  };
  registration.addEventListener("updatefound", () => registration.installing?.addEventListener("statechange", look));
  look();
  setInterval(() => registration.update().catch(() => {}), LOOK_AGAIN_MS);
}
