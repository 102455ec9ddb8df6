/** One conversation at a time: asks the engine, keeps what it answers, and tells the view what changed. */

import * as conversations from "./conversation.js";
import { isAbort, PageError } from "./errors.js";
import { sampling } from "./settings.js";

const SAVE_MS = 500;

/** @typedef {import("./conversation.js").Message} Message */

/**
 * Events: `messages` (some came or went, or another branch is shown), `text` (the answer grew), `state` (an answer
 * began or ended), `saved`.
 */
export class Chat extends EventTarget {
  conversation = conversations.newConversation();
  /** @type {{conversation: object, message: Message, began: number, first: number | null, pieces: number,
   *   saved?: boolean, error?: Error} | null} the answer in the making */
  running = null;
  /** @type {unknown} what ended the last answer of the conversation that is shown */
  error = null;
  #abort = null;
  #timer = null;
  /** deleted ones, which an answer or a timer may still hold @type {WeakSet<import("./conversation.js").Conversation>} */
  #forgotten = new WeakSet();

  /**
   * @param {object} engine
   * @param {import("./store.js").Store} store
   * @param {() => import("./settings.js").Settings} settings
   */
  constructor(engine, store, settings) {
    super();
    this.engine = engine;
    this.store = store;
    this.settings = settings;
    /** @type {import("./api_engine.js").Loaded | null} */
    this.loaded = null;
  }

  #emit(name) {
    this.dispatchEvent(new Event(name));
  }

  /** Whether the conversation that is shown gets an answer now. */
  get answering() {
    return this.running?.conversation.id === this.conversation.id;
  }

  /** Shows a conversation. @param {import("./conversation.js").Conversation} conversation */
  open(conversation) {
    this.conversation = this.running?.conversation.id === conversation.id ? this.running.conversation : conversation;
    this.error = null;
    for (const message of this.conversation.messages) {
      if (message.state === "streaming" && message !== this.running?.message) message.state = "interrupted";
    }
    this.#emit("messages");
  }

  /** @param {string} id @returns {Promise<Conversation | undefined>} undefined where it was deleted, perhaps by another tab */
  async find(id) {
    if (this.conversation.id === id) return this.conversation;
    if (this.running?.conversation.id === id) return this.running.conversation;
    return this.store.get(id);
  }

  /** Shows what another tab has made of the conversation; an answer in one that it deleted ends. */
  async catchUp() {
    const { conversation, running } = this;
    const stored = await this.store.get((running?.conversation ?? conversation).id);
    if (running !== this.running) return;
    if (running?.saved && !stored) {
      this.#forgetRunning();
      if (this.answering) this.open(conversations.newConversation());
    }
    // the answer is written over what is stored, and the name must outlast that
    if (running && stored) running.conversation.title = stored.title;
    if (running || !stored || conversation !== this.conversation) return;
    conversation.title = stored.title;
    if (stored.updated > conversation.updated || stored.messages.length > conversation.messages.length) this.open(stored);
  }

  /** @param {string} text */
  async send(text) {
    const last = conversations.shown(this.conversation).at(-1);
    // what was too long is not sent again
    conversations.add(this.conversation, { role: "user", content: text }, last?.refused ? last.parent : this.conversation.leaf);
    await this.answer();
  }

  /** Asks again, with another text in place of a question. @param {Message} message @param {string} text */
  async edit(message, text) {
    conversations.add(this.conversation, { role: "user", content: text }, message.parent);
    await this.answer();
  }

  /** Another answer to the same question. @param {Message} message */
  async regenerate(message) {
    this.conversation.leaf = message.parent;
    await this.answer();
  }

  /** @param {Message} message one that is on another branch */
  async show(message) {
    conversations.show(this.conversation, message);
    this.error = null;
    this.#emit("messages");
    await this.#save(this.conversation);
  }

  /** Leaves out old messages and tries again. */
  async shorten() {
    if (conversations.leaveOutOldest(this.conversation)) await this.answer();
  }

  /** Deletes a conversation, or all of them. @param {string} [id] */
  async forget(id) {
    if (this.running && (!id || this.running.conversation.id === id)) this.#forgetRunning();
    await (id ? this.store.remove(id) : this.store.clear());
  }

  #forgetRunning() {
    this.#forgotten.add(this.running.conversation);
    this.stop();
  }

  /** Ends the answer in the making, whose text stays. */
  stop() {
    this.#abort?.abort();
  }

  /** Ends the answer in the making for a reason that the user should see. @param {Error} error */
  stopBecause(error) {
    this.error = error;
    if (!this.running) return this.#emit("messages");
    this.running.error = error;
    this.stop();
  }

  /** Keeps what there is at once, for a page that may be about to go. */
  flush() {
    if (this.running) this.#save(this.running.conversation);
  }

  /** Answers the last message that is shown, where a model is loaded and does nothing else. */
  async answer() {
    if (this.running || !this.loaded) return;
    const { conversation, loaded } = this;
    const settings = this.settings();
    const messages = conversations.request(conversation, settings.system);
    const question = conversations.shown(conversation).at(-1);
    delete question.refused;
    const message = conversations.add(conversation, { role: "assistant", content: "", state: "streaming", model: loaded.name });
    this.error = null;
    this.#abort = new AbortController();
    this.running = { conversation, message, began: performance.now(), first: null, pieces: 0 };
    this.#emit("messages");
    this.#emit("state");
    try {
      await this.#save(conversation);
      await this.#read(messages, settings, message);
      message.state = "done";
    } catch (error) {
      let cause = this.running.error ?? error;
      message.state = isAbort(cause) ? "stopped" : "interrupted";
      if (!message.content) conversations.removeLeaf(conversation, message);
      if (cause.kind === "context") cause = this.#tooMuch(cause, settings, question);
      if (!isAbort(cause) && conversation.id === this.conversation.id) this.error = cause;
    }
    conversation.updated = Date.now();
    this.running = this.#abort = null;
    await this.#save(conversation);
    this.#emit("messages");
    this.#emit("state");
  }

  /** What it is that a full context has no room for. */
  #tooMuch(cause, { system }, question) {
    const asked = conversations.request(this.running.conversation, "").reduce((sum, { content }) => sum + content.length, 0);
    // a token is about a letter at least
    if (system.length > Math.max(asked, this.loaded?.context ?? Infinity)) return new PageError("long_system", cause.message);
    if (conversations.canLeaveOut(this.running.conversation)) return cause;
    question.refused = true;
    return new PageError("too_long", cause.message);
  }

  async #read(messages, settings, message) {
    const { running } = this;
    const { signal } = this.#abort;
    for await (const chunk of this.engine.chat(messages, sampling(settings), { signal })) {
      if (chunk.text) {
        running.first ??= performance.now();
        running.pieces += 1;
        message.content += chunk.text;
        this.#emit("text");
        this.#saveSoon(running.conversation);
      }
      if (chunk.finish_reason) message.finish = chunk.finish_reason;
      if (chunk.usage) message.usage = chunk.usage;
      if (chunk.usage && running.first !== null) {
        message.speed = { firstTokenMs: running.first - running.began, perSecond: chunk.timings?.predicted_per_second ?? null };
      }
    }
    // an engine may end the stream where it is told to stop
    if (signal.aborted) throw new DOMException("stopped", "AbortError");
  }

  #saveSoon(conversation) {
    this.#timer ??= setTimeout(() => this.#save(conversation), SAVE_MS);
  }

  async #save(conversation) {
    clearTimeout(this.#timer);
    this.#timer = null;
    if (this.#forgotten.has(conversation)) return;
    const { running } = this;
    try {
      await this.store.put(conversation);
      if (running?.conversation === conversation) running.saved = true;
      this.#emit("saved");
    } catch {
      // a full disk must not end a conversation; the page says that it keeps nothing
      this.store.persistent = false;
    }
  }

  /** Tokens of the context that the conversation takes, as far as is known. @returns {number} */
  get used() {
    const path = conversations.shown(this.conversation);
    const known = path.findLast((message) => message.usage);
    const base = known ? known.usage.prompt_tokens + known.usage.completion_tokens : 0;
    return this.answering ? base + this.running.pieces : base;
  }

  /** Tokens a second of the answer in the making. @returns {number | null} */
  get pace() {
    const seconds = this.running ? (performance.now() - (this.running.first ?? this.running.began)) / 1000 : 0;
    return this.running && this.running.pieces > 1 && seconds > 0.3 ? this.running.pieces / seconds : null;
  }
}
