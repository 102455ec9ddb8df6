/** The page: finds out where it is, and puts its parts together. */

import { Chat } from "./chat.js";
import { ApiEngine } from "./api_engine.js";
import { el } from "./dom.js";
import { errorCard } from "./error_card.js";
import { PageError } from "./errors.js";
import { startKiosk } from "./kiosk.js";
import { keepOffline } from "./offline.js";
import { readSettings } from "./settings.js";
import { Store } from "./store.js";
import { Workbench } from "./workbench.js";

async function readBundle() {
  try {
    const response = await fetch("bundle.json");
    if (!response.ok) throw new Error(`status ${response.status}`);
    return await response.json();
  } catch (error) {
    throw new PageError("network", `The page's own list of files, bundle.json, could not be read (${error.message}).`);
  }
}

async function makeEngine(bundle) {
  if (bundle.engine === "api") return new ApiEngine();
  const { BrowserEngine } = await import("./browser_engine.js");
  return new BrowserEngine(bundle);
}

async function start() {
  const root = document.getElementById("app");
  try {
    const bundle = await readBundle();
    document.title = bundle.kiosk?.title ?? bundle.title ?? document.title;
    const update = bundle.engine === "api" ? null : keepOffline();
    const engine = await makeEngine(bundle);
    if (bundle.kiosk) {
      await startKiosk(root, engine, bundle.kiosk, update);
      return;
    }
    const settings = readSettings();
    const chat = new Chat(engine, await Store.open(), () => settings);
    const workbench = new Workbench(root, chat, settings, bundle.title);
    update?.then((apply) => workbench.offerUpdate(apply));
    await workbench.start();
  } catch (error) {
    root.replaceChildren(el("main", { class: "lonely" }, errorCard(error, { retry: () => location.reload() })));
  }
}

// a file that misses its place must not take the place of the page
for (const name of ["dragover", "drop"]) addEventListener(name, (event) => event.preventDefault());
await start();
