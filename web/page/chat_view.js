/** The conversation that is shown: its messages, what went wrong, and how much of the context it takes. */

import { canLeaveOut, shown, versions, withoutThoughts } from "./conversation.js";
import { announce, button, el, iconButton } from "./dom.js";
import { errorCard } from "./error_card.js";
import { MessageView } from "./message.js";

const NEAR_PX = 80;
const SPOKEN_LETTERS = 600;
const BUSY = "Another answer is being written. Wait for it, or stop it, and send this then.";

export class ChatView {
  #views = new Map();
  #frame = false;
  #follows = true;
  #wasAnswering = false;

  /**
   * @param {import("./chat.js").Chat} chat
   * @param {{actions?: object, empty: () => Node, links?: boolean, editable?: boolean}} options what error cards can
   *   do besides; what stands in an empty conversation; whether links work; whether messages can be edited and answers
   *   made anew
   */
  constructor(chat, { actions = {}, empty, links = true, editable = true }) {
    this.chat = chat;
    this.actions = actions;
    this.empty = empty;
    this.links = links;
    this.handlers = editable
      ? {
          regenerate: (message) => this.#whenFree(() => chat.regenerate(message)),
          edit: (message, text) => this.#obstacle() ?? (chat.edit(message, text), null),
          show: (message) => this.#whenFree(() => chat.show(message)),
          versions: (message) => versions(chat.conversation, message),
        }
      : {};
    this.heading = el("h2", { class: "unseen" }, "Conversation");
    this.list = el("ol", { class: "messages" });
    this.tail = el("div", { class: "tail" });
    this.element = el("div", { class: "log", tabindex: "-1", onscroll: () => this.#scrolled() }, this.heading, this.list, this.tail);
    this.latest = iconButton("down", "To the latest message", () => this.follow(), { class: "round latest", hidden: true });
    chat.addEventListener("messages", () => this.render());
    chat.addEventListener("state", () => this.#state());
    chat.addEventListener("text", () => this.#grow());
    this.render();
  }

  #whenFree(act) {
    if (this.chat.running) announce(BUSY);
    else if (this.chat.loaded) act();
    else this.actions.load?.();
  }

  /** Why nothing can be asked now; null where it can. */
  #obstacle() {
    if (this.chat.running) return BUSY;
    return this.chat.loaded ? null : "No model is loaded. Load one, and send this then.";
  }

  /** Shows all messages as they are. */
  render() {
    const { chat } = this;
    const messages = shown(chat.conversation);
    const known = new Map();
    const items = [];
    for (const message of messages) {
      const old = this.#views.get(message.id);
      const view = old?.message === message ? old : new MessageView(message, this.handlers, { links: this.links });
      view.update(message === chat.running?.message, chat.running ? BUSY : null);
      known.set(message.id, view);
      if (message.id === chat.conversation.from && items.length) {
        items.push(el("li", { class: "divider" }, "What stands above is no longer sent to the model"));
      }
      items.push(view.element);
    }
    this.#views = known;
    const hadFocus = this.element.contains(document.activeElement);
    place(this.list, items);
    this.heading.hidden = this.list.hidden = !items.length;
    this.#renderTail(messages);
    // what had the focus may be gone: the next Tab goes on from here
    if (hadFocus && !this.element.contains(document.activeElement)) this.element.focus({ preventScroll: true });
    if (this.#follows) this.follow();
  }

  #renderTail(messages) {
    const { chat } = this;
    const content = [];
    if (!messages.length) content.push(this.empty());
    else if (chat.error) content.push(errorCard(chat.error, this.#errorActions()));
    else if (messages.at(-1).role === "user" && !chat.answering && chat.loaded && !chat.running) {
      content.push(el("div", { class: "buttons" }, button("Answer this", () => this.#whenFree(() => chat.answer()), { icon: "again" })));
    }
    this.tail.replaceChildren(...content);
  }

  #errorActions() {
    const { chat } = this;
    const last = shown(chat.conversation).at(-1);
    const again = () => (last.role === "user" ? chat.answer() : chat.regenerate(last));
    return {
      retry: chat.loaded ? () => this.#whenFree(again) : undefined,
      shorten: this.handlers.edit && canLeaveOut(chat.conversation) ? () => this.#whenFree(() => chat.shorten()) : undefined,
      edit: this.handlers.edit && (() => this.#views.get(last.id)?.startEditing()),
      ...this.actions,
    };
  }

  #state() {
    const { chat } = this;
    this.list.setAttribute("aria-busy", String(chat.answering));
    if (chat.answering) {
      announce("The model is answering");
      this.#follows = true;
      this.follow();
    } else if (this.#wasAnswering) {
      const last = shown(chat.conversation).at(-1);
      if (last?.role === "assistant") announce(spoken(last));
    }
    this.#wasAnswering = chat.answering;
  }

  /** At most once a frame; frames stop while the page is hidden, and so do timers nearly. */
  #grow() {
    if (this.#frame) return;
    this.#frame = true;
    const draw = () => {
      this.#frame = false;
      const { running } = this.chat;
      this.#views.get(running?.message.id)?.grow();
      if (this.#follows) this.follow();
    };
    if (document.hidden) setTimeout(draw, 500);
    else requestAnimationFrame(draw);
  }

  /** Scrolls to the end, and stays there while the answer grows. */
  follow() {
    this.#follows = true;
    this.latest.hidden = true;
    this.element.scrollTop = this.element.scrollHeight;
  }

  #scrolled() {
    const { scrollHeight, scrollTop, clientHeight } = this.element;
    this.#follows = scrollHeight - scrollTop - clientHeight < NEAR_PX;
    this.latest.hidden = this.#follows;
  }
}

/** Makes these the items of a list; those that stay are not touched, nor is the focus in them. */
function place(list, items) {
  const wanted = new Set(items);
  for (const item of [...list.children]) if (!wanted.has(item)) item.remove();
  items.forEach((item, at) => {
    if (list.children[at] !== item) list.insertBefore(item, list.children[at] ?? null);
  });
}

/** What a screen reader says of a finished answer. */
function spoken(message) {
  const text = withoutThoughts(message.content).replace(/[`*_#>|]/g, "").trim();
  const ends = { stopped: "Stopped. ", interrupted: "Interrupted. " }[message.state] ?? "Answer: ";
  return text.length <= SPOKEN_LETTERS ? ends + text : `${ends}${text.slice(0, SPOKEN_LETTERS)}… The whole answer stands in the conversation.`;
}
