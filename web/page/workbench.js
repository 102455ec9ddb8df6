/** The page as it is on a desk: conversations, models, chat and settings. */

import { newConversation } from "./conversation.js";
import { announce, button, el, iconButton } from "./dom.js";
import { ChatView } from "./chat_view.js";
import { Composer } from "./composer.js";
import { errorCard } from "./error_card.js";
import { isAbort, PageError } from "./errors.js";
import { listenToDrops } from "./file_drop.js";
import { LoadView } from "./load_view.js";
import { elsewhereView, firstOther, fromFiles, modelView } from "./model_view.js";
import { openSettings } from "./settings_view.js";
import { listenToKeys } from "./shortcuts.js";
import { Sidebar } from "./sidebar.js";
import { StatusBar } from "./status_bar.js";
import { welcome } from "./welcome.js";

const LEAST_CONTEXT = 2048;
const PATIENCE_MS = 10_000;
const NARROW = matchMedia("(max-width: 860px)");
const HINT = "Models make mistakes: check what matters.";
const ELSEWHERE = "An answer is being written in another conversation. Wait for it, or stop it.";

export class Workbench {
  #choice = null;
  /** What cancels the load in the making. @type {AbortController | null} */
  #loading = null;
  /** Counts what was shown in place of the chat, or the chat: what is ready after that comes too late. */
  #turn = 0;
  #waiting = null;
  #able = true;
  #applyUpdate = null;

  /**
   * @param {HTMLElement} root
   * @param {import("./chat.js").Chat} chat
   * @param {import("./settings.js").Settings} settings
   * @param {string} title of the page
   */
  constructor(root, chat, settings, title = "wgpu_engine") {
    this.chat = chat;
    this.engine = chat.engine;
    this.settings = settings;
    this.composer = new Composer();
    this.composer.onsend = (text) => chat.send(text);
    this.composer.onstop = () => chat.stop();
    this.status = new StatusBar(chat, () => this.showModels());
    this.sidebar = new Sidebar(chat, title, {
      open: (conversation) => this.open(conversation),
      fresh: () => this.fresh(),
      close: () => this.toggleSidebar(false),
    });
    this.view = new ChatView(chat, {
      empty: () => welcome(chat, (text) => this.composer.write(text)),
      actions: {
        load: () => (this.#choice ? this.load(this.#choice) : this.showModels()),
        choose: this.engine.loads ? () => this.showModels() : undefined,
        new: () => this.fresh(),
        settings: () => this.openSettings(),
        key: (key) => this.#useKey(key),
      },
    });
    this.#lay(root, title);
    chat.addEventListener("state", () => this.#update());
    chat.addEventListener("messages", () => this.#update());
    this.#listen();
  }

  #lay(root, title) {
    this.menu = iconButton("menu", "Conversations", () => this.toggleSidebar(), { "aria-controls": "sidebar", "aria-expanded": "true" });
    const words = "A new version of this page is ready: load it";
    this.renew = button("Update", () => this.#applyUpdate?.(), { class: "button quiet", icon: "again", title: words, hidden: true });
    const head = el(
      "header",
      { class: "top" },
      this.menu,
      el("h1", { class: "unseen" }, title),
      this.status.element,
      this.renew,
      iconButton("sliders", "Settings", () => this.openSettings()),
    );
    this.hint = el("p", { class: "hint", id: "composer-hint" }, HINT);
    this.loadBar = el("div", { class: "buttons composer-stand-in", hidden: true }, button("Load a model to go on", () => this.view.actions.load(), { class: "button primary", icon: "chip" }));
    this.talk = el(
      "div",
      { class: "talk" },
      this.view.element,
      el(
        "div",
        { class: "dock" },
        this.view.latest,
        this.composer.element,
        this.loadBar,
        this.hint,
      ),
    );
    this.screen = el("div", { class: "screen", hidden: true });
    this.scrim = el("div", { class: "scrim", onclick: () => this.toggleSidebar(false) });
    this.main = el("main", { class: "main" }, this.talk, this.screen);
    this.body = el("div", { class: "workbench" }, this.sidebar.element, this.scrim, el("div", { class: "column" }, head, this.main));
    const skip = el("a", { class: "skip", href: "#message" }, "Go to the message field");
    root.replaceChildren(skip, this.body);
    this.toggleSidebar(!NARROW.matches);
    NARROW.addEventListener("change", () => this.toggleSidebar(!NARROW.matches));
  }

  #listen() {
    listenToKeys({
      stop: () => this.chat.stop(),
      fresh: () => this.fresh(),
      settings: () => this.openSettings(),
      sidebar: () => this.toggleSidebar(),
      write: () => this.composer.focus(),
    });
    document.addEventListener("visibilitychange", () => document.hidden && this.chat.flush());
    addEventListener("pagehide", () => this.chat.flush());
    this.engine.onlost = (error) => this.#lost(error);
    this.engine.onmoved = () => this.#lost(new PageError("moved", "the model moved to another tab"));
    if (this.engine.loads) listenToDrops((files) => this.#able && this.#take(files));
  }

  /** Shows the choice of models, or the chat where there is nothing to choose. */
  async start() {
    try {
      await this.engine.check();
      const choices = await this.engine.models();
      if (!this.engine.loads && choices.length === 1) await this.load(choices[0]);
      else await this.showModels();
    } catch (error) {
      this.#able = false;
      await this.showModels(error);
    }
    this.#update();
  }

  /** @param {unknown} [error] that is to be shown above */
  async showModels(error) {
    if (this.#loading) return;
    this.#waiting?.abort();
    const turn = (this.#turn += 1);
    const handlers = { choose: (choice) => this.load(choice), files: (files) => this.#take(files), changed: (failure) => this.showModels(failure) };
    if (error && this.#choice?.source?.kind === "url") handlers.address = this.#choice.id;
    const choices = await this.engine.models().catch(() => []);
    const storage = await this.engine.storage?.();
    if (turn !== this.#turn) return;
    const parts = [];
    if (error) parts.push(errorCard(error, this.#startActions()));
    if (this.engine.loads || choices.length) parts.push(modelView(this.engine, choices, storage, handlers, this.#able));
    if (this.chat.loaded || this.chat.conversation.messages.length) parts.unshift(button("Back to the chat", () => this.#showTalk(), { icon: "left", class: "button quiet" }));
    this.#showScreen(...parts);
  }

  /** Offers a new version of the page. @param {() => void} apply */
  offerUpdate(apply) {
    this.#applyUpdate = apply;
    this.renew.hidden = false;
    announce("A new version of this page is ready");
  }

  /** Loads files of the user's, chosen or dropped. @param {File[]} files */
  async #take(files) {
    if (this.#loading) return announce("A model is being loaded");
    const other = await firstOther(files);
    if (!other) return this.load(fromFiles(files));
    this.#choice = null;
    await this.showModels(new PageError("file", `${other.name} isn't a GGUF file, which is what models come in here: choose one that ends in .gguf.`));
  }

  #startActions() {
    return {
      retry: () => (this.#choice && this.#able ? this.load(this.#choice) : this.#again()),
      shorter: () => this.load(this.#choice, LEAST_CONTEXT),
      load: () => this.load(this.#choice),
      key: (key) => this.#useKey(key),
      clear: () => this.engine.forgetAll().then(() => this.showModels(), (error) => this.showModels(error)),
    };
  }

  #again() {
    this.#able = true;
    return this.start();
  }

  async #useKey(key) {
    this.engine.useKey(key);
    if (this.chat.loaded) await this.chat.answer();
    else await this.#again();
  }

  /**
   * Loads a model, once no other tab has one.
   *
   * @param {import("./api_engine.js").Choice} choice
   * @param {number} [ctxSize]
   */
  async load(choice, ctxSize) {
    if (this.#loading) return;
    const { signal } = (this.#loading = new AbortController());
    this.#choice = choice;
    this.#waiting?.abort();
    if (this.engine.tabs && !(await this.engine.tabs.take())) {
      this.#loading = null;
      await this.#showElsewhere(choice);
      return;
    }
    this.chat.stop();
    this.chat.loaded = null;
    const view = new LoadView(choice.title, () => this.#loading?.abort());
    if (this.engine.loads) this.#showScreen(view.element);
    this.#update();
    let failure = null;
    try {
      this.chat.loaded = await this.engine.load(choice, { onProgress: (progress) => view.note(progress), signal, ctxSize });
    } catch (error) {
      failure = error;
    }
    this.#loading = null;
    if (failure === null) this.#loaded();
    else await this.#failed(failure);
    this.#update();
  }

  #loaded() {
    announce(`${this.chat.loaded.name} is ready`);
    if (this.chat.error?.kind !== "context") this.chat.error = null;
    this.#showTalk();
    this.view.render();
    this.#update();
    this.composer.focus();
  }

  async #failed(error) {
    if (this.engine.loads) await this.engine.unload();
    await this.showModels(isAbort(error) ? undefined : error);
  }

  async #showElsewhere(choice) {
    this.#waiting = new AbortController();
    const { signal } = this.#waiting;
    this.engine.tabs.wait(signal).then((free) => {
      if (free && !signal.aborted) this.load(choice);
      else if (free && !this.#loading && !this.chat.loaded) this.engine.tabs.release();
    });
    const takeOver = () => {
      this.engine.tabs.ask();
      setTimeout(() => signal.aborted || view.append(el("p", {}, "The other tab doesn't answer. Close it, please.")), PATIENCE_MS);
    };
    const view = elsewhereView(await this.engine.tabs.who(), takeOver);
    if (!signal.aborted) this.#showScreen(view);
  }

  #lost(error) {
    this.chat.loaded = null;
    this.chat.stopBecause(error);
    // a load that this ended says so itself
    if (!this.#loading) this.#showTalk();
    this.#update();
  }

  #showScreen(...parts) {
    this.#turn += 1;
    this.screen.replaceChildren(el("div", { class: "screen-inner" }, ...parts));
    this.screen.hidden = false;
    this.talk.hidden = true;
    this.screen.scrollTop = 0;
  }

  #showTalk() {
    this.#turn += 1;
    this.#waiting?.abort();
    this.screen.hidden = true;
    this.screen.replaceChildren();
    this.talk.hidden = false;
    this.view.follow();
  }

  /** @param {import("./conversation.js").Conversation} conversation */
  open(conversation) {
    this.chat.open(conversation);
    if (!this.#loading) this.#showTalk();
    if (NARROW.matches) this.toggleSidebar(false);
  }

  fresh() {
    this.chat.open(newConversation());
    if (NARROW.matches) this.toggleSidebar(false);
    if (this.#loading) return;
    if (this.chat.loaded) this.#showTalk();
    else this.showModels();
    this.composer.focus();
  }

  openSettings() {
    if (!document.querySelector("dialog[open]")) openSettings(this.settings, () => this.#update());
  }

  /** @param {boolean} [open] */
  toggleSidebar(open = !this.body.classList.contains("with-sidebar")) {
    this.body.classList.toggle("with-sidebar", open);
    this.sidebar.element.inert = !open;
    this.menu.setAttribute("aria-expanded", String(open));
  }

  #update() {
    const { chat } = this;
    const empty = !chat.conversation.messages.length;
    this.composer.update({ ready: Boolean(chat.loaded) && !chat.running, answering: Boolean(chat.running) });
    this.composer.element.hidden = !chat.loaded && !chat.running;
    this.hint.textContent = chat.running && !chat.answering ? ELSEWHERE : HINT;
    this.loadBar.hidden = !this.composer.element.hidden || Boolean(chat.error);
    this.body.classList.toggle("empty", empty);
    this.status.update();
  }
}
