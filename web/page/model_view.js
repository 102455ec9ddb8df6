/** The start: which model is to run. */

import { button, el, iconButton } from "./dom.js";
import { confirm } from "./dialog.js";
import { bytes, counted } from "./format.js";
import { icon } from "./icons.js";

/**
 * @typedef {object} Handlers
 * @property {(choice: import("./api_engine.js").Choice) => void} choose
 * @property {(files: File[]) => void} files takes files of the user's
 * @property {(error?: Error) => void} changed after something kept was removed, or could not be
 * @property {string} [address] that could not be loaded, to be mended
 */

/**
 * @param {object} engine
 * @param {import("./api_engine.js").Choice[]} choices
 * @param {{usage: number, quota: number} | null} storage of this page
 * @param {Handlers} handlers
 * @param {boolean} able whether a model could run here
 * @returns {HTMLElement}
 */
export function modelView(engine, choices, storage, handlers, able) {
  const own = engine.loads ? [fileChoice(handlers, able), urlChoice(handlers, able)] : [];
  return el(
    "section",
    { class: "start" },
    el("h2", {}, "Choose a model"),
    el(
      "p",
      { class: "lead" },
      engine.loads
        ? "It runs on your own graphics chip. What you write stays on this device."
        : "It runs on the server that this page comes from.",
    ),
    el("ul", { class: "cards" }, ...choices.map((choice) => card(choice, handlers, able))),
    ...own,
    storage?.usage > 1e6 && el("p", { class: "hint" }, `This page keeps ${bytes(storage.usage)} in the browser; there is room for ${bytes(storage.quota - storage.usage)} more.`),
  );
}

function card(choice, { choose, changed }, able) {
  const { title, bytes: size, memory, license, kept, forget, context, parameters } = choice;
  const complete = kept && size && kept >= size;
  const facts = [
    size && (complete ? `${bytes(size)}, kept in this browser` : kept ? `${bytes(size)}, of which ${bytes(kept)} are here` : `${bytes(size)} to fetch`),
    memory && `takes ${bytes(memory)} of memory`,
    parameters && `${(parameters / 1e6).toFixed(parameters < 1e7 ? 1 : 0)} million parameters`,
    context && `context of ${counted(context, "token")}`,
    license,
  ].filter(Boolean);
  const remove = async () => {
    if (!(await confirm(`Remove ${title} from this browser?`, "It would be fetched again when it is wanted.", "Remove"))) return;
    await forget().then(() => changed(), changed);
  };
  return el(
    "li",
    { class: "card" },
    icon("chip"),
    el("div", { class: "card-text" }, el("h3", {}, title), el("p", {}, facts.join(" · "))),
    forget && iconButton("bin", `Remove ${title} from this browser`, remove),
    (choice.source || !size) && el(
      "button",
      { type: "button", class: "button primary", disabled: !able, "aria-label": `Load ${title}`, onclick: () => choose(choice) },
      "Load",
    ),
  );
}

/** Files of the user's own, chosen or dropped. */
function fileChoice({ files }, able) {
  const input = el("input", {
    type: "file",
    accept: ".gguf",
    multiple: true,
    hidden: true,
    onchange: () => input.files.length && files([...input.files]),
  });
  const zone = el(
    "div",
    { class: "drop" },
    icon("file"),
    el("p", {}, "Or take a model of your own: drop a ", el("code", {}, ".gguf"), " file here"),
    el("button", { type: "button", class: "button", disabled: !able, onclick: () => input.click() }, "Choose a file"),
    input,
  );
  return zone;
}

/** @param {File[]} files @returns {Promise<File | undefined>} the first that doesn't begin as GGUF files do */
export async function firstOther(files) {
  for (const file of files) {
    const begin = await file.slice(0, 4).text().catch(() => "");
    if (begin !== "GGUF") return file;
  }
  return undefined;
}

/** @param {Iterable<File>} list @returns {import("./api_engine.js").Choice} */
export function fromFiles(list) {
  const files = [...list].sort((one, other) => one.name.localeCompare(other.name));
  return { id: files[0].name, title: files[0].name.replace(/\.gguf$/i, ""), source: { kind: "file", files } };
}

function urlChoice({ choose, address }, able) {
  const field = el("input", { type: "url", id: "model-url", value: address, placeholder: "https://…/model.gguf", required: true, spellcheck: "false", autocomplete: "off" });
  return el(
    "form",
    {
      class: "line-form",
      onsubmit: (event) => {
        event.preventDefault();
        choose(fromAddress(field.value.trim()));
      },
    },
    el("label", { for: "model-url" }, "Or the address of one"),
    el("div", { class: "line" }, field, el("button", { class: "button", disabled: !able }, "Load from there")),
    el("p", { class: "hint" }, "The other site has to allow it; many hosts of models do."),
  );
}

/** @param {string} text an address @returns {import("./api_engine.js").Choice} */
export function fromAddress(text) {
  const address = new URL(text);
  address.hash = "";
  const url = address.href;
  const name = address.pathname.split("/").at(-1) || address.host;
  return { id: url, title: name.replace(/\.gguf$/i, ""), source: { kind: "url", urls: [url] } };
}

/** Shown where the model runs in another tab. */
export function elsewhereView({ model, answering }, takeOver) {
  return el(
    "section",
    { class: "start elsewhere" },
    icon("chip"),
    el("h2", {}, "The model runs in another tab"),
    el(
      "p",
      {},
      model ? `${model} is loaded there. ` : "",
      "A second copy would take the memory twice, so it runs in one tab at a time. ",
      answering ? "An answer is being written there, which would be interrupted." : "",
    ),
    el("p", {}, "Close that tab and this one goes on, or have it here, which ends it there."),
    el("div", { class: "buttons" }, button("Use it here", takeOver, { class: "button primary" })),
  );
}
