/** What went wrong, in words, and what a person can do about it. */

/** An error of the page itself; those of the engine have a `kind` too. */
export class PageError extends Error {
  /** @param {string} kind one of those of `explain` @param {string} message a sentence */
  constructor(kind, message) {
    super(message);
    this.name = "PageError";
    this.kind = kind;
  }
}

/** @param {unknown} error @returns {boolean} whether it only says that somebody stopped the work */
export function isAbort(error) {
  return error?.name === "AbortError" || error?.kind === "cancelled";
}

/**
 * What can be offered to do. The views know how:
 * `retry` the same again · `shorter` the same with a shorter context · `load` the model again · `choose` a model ·
 * `shorten` leave out the oldest messages · `edit` the message · `settings` open them · `new` conversation · `over` start over · `key` give an API key · `secure` this page by https ·
 * `flag` copy the address of the browser's switch · `clear` kept models
 *
 * @typedef {"retry" | "shorter" | "load" | "choose" | "shorten" | "edit" | "settings" | "new" | "over" | "key" | "secure" | "flag" | "clear"} Action
 * @typedef {{title: string, text: string, steps?: string[], detail?: string, actions: Action[]}} Explanation
 */

export const WEBGPU_FLAG = "chrome://flags/#enable-unsafe-webgpu";

function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");
}

/** The figures in an engine's sentence on a full context, whose remedy is for whoever started it. */
function roomOf(message) {
  const [, least, tokens, room] = /(at least )?(\d+) tokens\D+(\d+)/.exec(message) ?? [];
  return tokens && `It would take ${least ?? ""}${Number(tokens).toLocaleString("en")} tokens, and ${Number(room).toLocaleString("en")} are the most.`;
}

/** @type {Record<string, (message: string) => Explanation>} */
const EXPLANATIONS = {
  no_webgpu: () => ({
    title: "This browser can't use the graphics chip",
    text: "The model runs on your graphics chip through WebGPU, which this browser doesn't have or has switched off.",
    steps: [
      "Chrome and Edge have it from version 113 on Windows, macOS and ChromeOS, and from 121 on Android.",
      "Safari has it from version 26 on macOS, iOS and iPadOS.",
      "Firefox has it from version 141 on Windows and 145 on macOS.",
      `On Linux, open ${WEBGPU_FLAG} in Chrome, choose “Enabled” and start it anew.`,
    ],
    actions: ["retry", "flag"],
  }),
  insecure: () => ({
    title: "This page isn't on a secure address",
    text: "Browsers give the graphics chip only to pages that come by https, or from this very machine.",
    steps: ["Open the page by https.", "On the machine that serves it, open it as http://localhost with the same port."],
    actions: ["secure"],
  }),
  no_adapter: () => ({
    title: "No graphics chip was found",
    text: "The browser knows WebGPU, but it offered no graphics chip to this page.",
    steps: [
      "Switch on hardware acceleration in the browser's settings, under “System”.",
      "Update the graphics driver, and start the browser anew.",
      `On Linux, or where the browser distrusts the driver, open ${WEBGPU_FLAG} in Chrome and choose “Enabled”.`,
    ],
    actions: ["retry", "flag"],
  }),
  memory: (message) => ({
    title: "Too little memory for this model",
    text: "Close other tabs and programs that use the graphics chip, take a smaller model, or give it a shorter context.",
    detail: message,
    actions: ["shorter", "choose", "retry"],
  }),
  file: (message) => ({ title: "This model can't be used", text: message, actions: ["choose"] }),
  lost: (message) => ({
    title: "The graphics chip was reset",
    text: "The model has to be loaded again. The conversation is kept.",
    detail: message,
    actions: ["load"],
  }),
  network: (message) => ({
    title: "The connection broke",
    text: "Check that you are online and that the address is right. What has come so far is kept where possible.",
    detail: message,
    actions: ["retry"],
  }),
  quota: (message) => ({
    title: "The browser's storage is full",
    text: "Remove models that you don't need, or free some space on the disk.",
    detail: message,
    actions: ["clear", "retry", "choose"],
  }),
  context: (message) => ({
    title: "The conversation is longer than the model can hold",
    text: "There is no room for more in it.",
    detail: roomOf(message),
    actions: ["shorten", "new", "over"],
  }),
  too_long: (message) => ({
    title: "This message is too long for the model",
    text: "Make it shorter, or send it in parts.",
    detail: roomOf(message),
    actions: ["edit", "new", "over"],
  }),
  in_use: (message) => ({ title: "A model is in use", text: sentence(message), actions: [] }),
  long_system: (message) => ({
    title: "The system prompt is too long for this model",
    text: "It goes before every conversation, and leaves no room for one.",
    detail: roomOf(message),
    actions: ["settings", "retry", "over"],
  }),
  address: (message) => ({ title: "There is no model at this address", text: sentence(message), actions: ["choose"] }),
  request: (message) => ({ title: "The model can't take this request", text: message, actions: ["retry"] }),
  key: (message) => ({
    title: "This server asks for an API key",
    text: "Whoever runs the server can give you one. It is kept until you close this tab.",
    detail: message,
    actions: ["key"],
  }),
  busy: (message) => ({
    title: "The server has too much to do",
    text: "Others are waiting too. Try again in a moment.",
    detail: message,
    actions: ["retry"],
  }),
  device: (message) => ({ title: "The graphics chip failed", text: message, actions: ["retry", "load", "choose"] }),
  server: (message) => ({ title: "The server could not answer", text: message, actions: ["retry"] }),
  embeddings: (message) => ({ title: "This model doesn't chat", text: message, actions: ["choose"] }),
  moved: () => ({
    title: "The model moved to another tab",
    text: "It runs in one tab at a time, since a second copy would take the memory twice.",
    actions: ["load"],
  }),
  internal: (message) => ({
    title: "Something went wrong",
    text: "Try again. If it comes back, please report it with the words below.",
    detail: message,
    actions: ["retry", "choose"],
  }),
};

/** @param {unknown} error @returns {Explanation} */
export function explain(error) {
  const message = error instanceof Error ? error.message : String(error);
  const kind = error?.kind in EXPLANATIONS ? error.kind : "internal";
  return EXPLANATIONS[kind](message);
}
