/** A page for everybody who comes by: one model, one conversation, nothing to set, and nothing kept. */

import { Chat } from "./chat.js";
import { ChatView } from "./chat_view.js";
import { Composer } from "./composer.js";
import { newConversation, shown } from "./conversation.js";
import { announce, button, el } from "./dom.js";
import { errorCard } from "./error_card.js";
import { explain, PageError } from "./errors.js";
import { passing } from "./kept.js";
import { LoadView } from "./load_view.js";
import { defaults } from "./settings.js";
import { Store } from "./store.js";

const COUNTDOWN_S = 10;
const PATIENCE_WHILE_WRITING = 3;
const FIRST_PAUSE_S = 2;
const LONGEST_PAUSE_S = 60;
const PATIENCE_MS = 5000;
const ENGINE_TRIES = 2;
const TRIES = "wgpu_engine kiosk tries";
const SIGNS_OF_LIFE = ["pointerdown", "keydown", "touchstart", "wheel", "input"];

/**
 * @param {HTMLElement} root
 * @param {object} engine
 * @param {{title: string, system_prompt?: string | null, idle_reset_s?: number}} about
 * @param {Promise<() => void> | null} update as `keepOffline` gives it
 */
export async function startKiosk(root, engine, about, update) {
  const kiosk = new Kiosk(root, engine, about);
  update?.then((apply) => (kiosk.update = apply));
  await kiosk.load();
}

/** Browsers that weren't started with the whole screen give it at a touch. */
function fillScreen() {
  if (document.fullscreenEnabled && !document.fullscreenElement) document.documentElement.requestFullscreen().catch(() => {});
}

class Kiosk {
  /** Lets a new version of the page take over, once there is one. @type {(() => void) | null} */
  update = null;
  #idle = 0;
  #tries = Number(passing.get(TRIES) ?? 0);
  #restarting = false;
  /** Counts what the screen has begun: what was begun before the last is of no use any more. */
  #turn = 0;
  /** The question that was asked again after its answer broke off. */
  #repeated = null;

  constructor(root, engine, { title, system_prompt: system, idle_reset_s: idleReset = 120 }) {
    this.engine = engine;
    this.title = title;
    this.idleReset = idleReset;
    const settings = { ...defaults(), system: system ?? "" };
    this.chat = new Chat(engine, Store.inMemory(), () => settings);
    this.composer = new Composer({ keepsDraft: false });
    this.composer.onsend = (text) => this.chat.send(text);
    this.composer.onstop = () => this.chat.stop();
    const empty = () => el("section", { class: "welcome" }, el("h2", {}, "Ask me anything"), el("p", { class: "lead" }, "Write below. Your words stay on this device and are forgotten when you go."));
    this.view = new ChatView(this.chat, { empty, links: false, editable: false, actions: { over: () => this.reset() } });
    this.screen = el("div", { class: "screen" });
    this.talk = el("div", { class: "talk", hidden: true }, this.view.element, el("div", { class: "dock" }, this.view.latest, this.composer.element, el("p", { class: "hint", id: "composer-hint" }, "Models make mistakes: check what matters.")));
    this.again = button("Start over", () => this.reset(), { icon: "again" });
    this.countdown = el("div", { class: "countdown", role: "alert", hidden: true });
    const head = el("header", { class: "top" }, el("h1", {}, title), this.again);
    root.replaceChildren(el("div", { class: "kiosk column" }, head, el("main", { class: "main" }, this.talk, this.screen), this.countdown));
    this.chat.addEventListener("state", () => {
      this.#alive();
      this.#update();
    });
    this.chat.addEventListener("messages", () => this.#update());
    engine.onlost = () => this.#restart();
    engine.onmoved = () => this.#moved();
    for (const sign of SIGNS_OF_LIFE) addEventListener(sign, () => this.#alive(), { capture: true, passive: true });
    addEventListener("pointerdown", fillScreen);
    addEventListener("contextmenu", (event) => event.preventDefault());
    setInterval(() => this.#tick(), 1000);
  }

  /**
   * Loads the first model, and tries again for as long as it takes.
   *
   * @param {{asks?: boolean}} [options] whether another tab is to give up its model, or to be waited for
   */
  async load({ asks = true } = {}) {
    const turn = (this.#turn += 1);
    const view = new LoadView(this.title);
    if (asks) this.#showScreen(view.element);
    try {
      await this.engine.check();
      const { signal } = new AbortController();
      await this.#waitForModel(asks, signal);
      if (turn !== this.#turn) return;
      this.#showScreen(view.element);
      const [choice] = await this.engine.models();
      const loaded = await this.engine.load(choice, { onProgress: (progress) => view.note(progress), signal });
      if (turn === this.#turn) this.#begin(loaded);
    } catch (error) {
      if (turn !== this.#turn) return;
      this.#restarting = false;
      await this.#restart(error);
    }
  }

  #begin(loaded) {
    this.chat.loaded = loaded;
    this.#restarting = false;
    this.chat.error = null;
    this.view.render();
    this.talk.hidden = false;
    this.screen.hidden = true;
    announce("Ready for your questions");
    this.#update();
    this.composer.focus();
    this.#answerAgain();
  }

  /** Answers once more what was asked when the answer broke off. */
  #answerAgain() {
    const last = shown(this.chat.conversation).at(-1);
    const brokeOff = last?.state === "interrupted";
    const question = brokeOff ? last.parent : last?.id;
    const asked = brokeOff || (last?.role === "user" && !last.refused);
    if (!asked || question === this.#repeated) return;
    this.#repeated = question;
    if (brokeOff) this.chat.regenerate(last);
    else this.chat.answer();
  }

  /** One tab has the model: the one that asked last. */
  async #waitForModel(asks, signal) {
    const { tabs } = this.engine;
    if (!tabs) return;
    if (asks) tabs.ask();
    const silent = setTimeout(() => this.#showElsewhere(), PATIENCE_MS);
    await tabs.wait(signal);
    clearTimeout(silent);
  }

  /** Gives the model to the tab that asks for it, and waits until it is free again. */
  async #moved() {
    this.#turn += 1;
    this.#restarting = false;
    this.chat.loaded = null;
    this.chat.stopBecause(new PageError("moved", "the model moved to another tab"));
    this.#showElsewhere();
    await this.engine.unload();
    await this.load({ asks: false });
  }

  #showElsewhere() {
    const words = [el("h2", {}, "This page is open in another tab"), el("p", {}, "Questions are answered there. It goes on here once that tab is closed.")];
    const here = button("Use it here", () => this.engine.tabs.ask(), { class: "button primary" });
    this.#showScreen(el("section", { class: "start" }, ...words, el("div", { class: "buttons" }, here)));
  }

  /** The engine first; where that didn't help, the page as a whole. Pauses grow. */
  async #restart(error) {
    if (this.#restarting) return;
    this.#restarting = true;
    const turn = (this.#turn += 1);
    this.chat.loaded = null;
    if (this.chat.running) this.chat.stopBecause(new PageError("lost", "the device was lost"));
    this.#tries += 1;
    passing.set(TRIES, String(this.#tries));
    const pause = Math.min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** (this.#tries - 1));
    const why = error ? errorCard(error, {}) : el("p", {}, explain({ kind: "lost", message: "" }).title);
    const left = el("p", { class: "lead" });
    this.#showScreen(el("section", { class: "start" }, el("h2", {}, "One moment, please"), why, left));
    for (let seconds = pause; seconds > 0; seconds -= 1) {
      left.textContent = `Starting again in ${seconds} s.`;
      await new Promise((go) => setTimeout(go, 1000));
    }
    if (turn !== this.#turn) return;
    if (this.#tries > ENGINE_TRIES) return location.reload();
    await this.engine.unload();
    return this.load();
  }

  /** Forgets the conversation. */
  reset() {
    this.chat.forget();
    this.chat.open(newConversation());
    this.composer.write("");
    announce("The conversation was cleared");
  }

  #alive() {
    this.#idle = 0;
    this.countdown.hidden = true;
  }

  #tick() {
    const { chat } = this;
    const waiting = chat.conversation.messages.length > 0 || this.composer.field.value !== "";
    this.#idle = waiting && chat.loaded ? this.#idle + 1 : 0;
    // nobody is there
    if (!waiting && chat.loaded) this.update?.();
    // who reads along touches nothing
    const patience = chat.running ? PATIENCE_WHILE_WRITING * this.idleReset : this.idleReset;
    const left = patience - this.#idle;
    this.countdown.hidden = !waiting || left > COUNTDOWN_S;
    if (this.countdown.hidden) return;
    if (left <= 0) {
      this.#alive();
      this.reset();
    } else {
      this.countdown.textContent = `Clearing the conversation in ${left} s. Touch the screen to go on.`;
    }
  }

  #update() {
    const { chat } = this;
    if (chat.error?.kind === "lost") this.#restart();
    if (chat.conversation.messages.at(-1)?.state === "done") {
      this.#tries = 0;
      passing.set(TRIES, null);
    }
    this.again.hidden = !chat.conversation.messages.length;
    this.composer.update({ ready: Boolean(chat.loaded) && !chat.running, answering: Boolean(chat.running) });
  }

  #showScreen(content) {
    this.screen.replaceChildren(el("div", { class: "screen-inner" }, content));
    this.screen.hidden = false;
    this.talk.hidden = true;
  }
}
