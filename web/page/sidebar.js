/** The list of conversations. */

import { button, download, el, iconButton } from "./dom.js";
import { ask, confirm } from "./dialog.js";
import { forgetEdits } from "./edits.js";
import { asJson, asMarkdown, fileName } from "./export.js";
import { icon } from "./icons.js";

export class Sidebar {
  #shown = null;

  /**
   * @param {import("./chat.js").Chat} chat
   * @param {string} title of the page
   * @param {{open: (conversation: object) => void, fresh: () => void, close: () => void}} handlers
   */
  constructor(chat, title, { open, fresh, close }) {
    this.chat = chat;
    this.open = open;
    this.fresh = fresh;
    this.list = el("ul", { class: "conversations" });
    this.unkept = el("p", { class: "hint", hidden: true }, "This browser gives no storage: conversations go with the page.");
    this.all = iconButton("dots", "All conversations", () => this.#showMenu(this.all, this.#menuOfAll()), { "aria-haspopup": "menu" });
    this.element = el(
      "nav",
      { class: "sidebar", id: "sidebar", "aria-label": "Conversations" },
      el(
        "div",
        { class: "sidebar-head" },
        el("img", { src: "icons/icon.svg", alt: "", width: 30, height: 30 }),
        el("span", { class: "brand" }, title),
        iconButton("cross", "Close the list", close, { class: "narrow-only" }),
      ),
      button("New chat", fresh, { class: "button", icon: "plus" }),
      el("div", { class: "sidebar-title" }, el("h2", {}, "Conversations"), this.all),
      this.list,
      this.unkept,
    );
    chat.addEventListener("saved", () => this.refresh());
    chat.addEventListener("messages", () => this.#mark());
    chat.store.onchange = () => {
      this.refresh();
      chat.catchUp();
    };
    this.refresh();
  }

  /** Reads the list anew. */
  async refresh() {
    const all = await this.chat.store.titles();
    this.unkept.hidden = this.chat.store.persistent;
    // it is read often while an answer is written, and seldom has changed
    const shown = JSON.stringify(all.map(({ id, title }) => [id, title]));
    if (shown === this.#shown) return;
    this.#shown = shown;
    this.all.hidden = !all.length;
    const focused = this.list.contains(document.activeElement) ? document.activeElement.closest("li")?.dataset.id : null;
    this.list.replaceChildren(...all.map((conversation) => this.#item(conversation)));
    if (!all.length) this.list.append(el("li", { class: "hint" }, this.chat.store.persistent ? "Nothing yet. What you write is kept in this browser only." : "Nothing yet."));
    if (focused) this.list.querySelector(`[data-id="${focused}"] button`)?.focus();
    this.#mark();
  }

  #mark() {
    for (const item of this.list.children) {
      const current = item.dataset.id === this.chat.conversation.id;
      item.classList.toggle("current", current);
      if (current) item.firstChild.setAttribute("aria-current", "true");
      else item.firstChild.removeAttribute?.("aria-current");
    }
  }

  #item(conversation) {
    const title = conversation.title || "New conversation";
    const more = iconButton("dots", `More for “${title}”`, () => this.#showMenu(more, this.#menuOfOne(conversation)), { "aria-haspopup": "menu" });
    return el(
      "li",
      { "data-id": conversation.id },
      el("button", { type: "button", class: "conversation", title, onclick: () => this.#open(conversation) }, title),
      more,
    );
  }

  async #open(item) {
    const conversation = await this.chat.find(item.id);
    if (conversation) this.open(conversation);
  }

  #menuOfOne(item) {
    const save = async (ending, format, type) => {
      const conversation = await this.chat.find(item.id);
      if (conversation) download(fileName(conversation.title, ending), format([conversation]), type);
    };
    return [
      ["pencil", "Rename", () => this.#rename(item)],
      ["save", "Export as Markdown", () => save("md", asMarkdown, "text/markdown")],
      ["save", "Export as JSON", () => save("json", asJson, "application/json")],
      ["bin", "Delete", () => this.#remove(item)],
    ];
  }

  #menuOfAll() {
    const { store } = this.chat;
    return [
      ["save", "Export all as Markdown", async () => download("conversations.md", asMarkdown(await store.all()), "text/markdown")],
      ["save", "Export all as JSON", async () => download("conversations.json", asJson(await store.all()), "application/json")],
      ["bin", "Delete all", () => this.#removeAll()],
    ];
  }

  async #rename(item) {
    const title = await ask("Rename conversation", "Title", item.title);
    const conversation = title === null ? null : await this.chat.find(item.id);
    if (!conversation) return;
    conversation.title = title;
    await this.chat.store.put(conversation);
    await this.refresh();
  }

  async #remove(conversation) {
    const sure = await confirm("Delete this conversation?", `“${conversation.title || "New conversation"}” can't be brought back.`, "Delete");
    if (!sure) return;
    const whole = await this.chat.find(conversation.id);
    forgetEdits(whole?.messages.map(({ id }) => id) ?? []);
    await this.chat.forget(conversation.id);
    await this.refresh();
    if (this.chat.conversation.id === conversation.id) this.fresh();
  }

  async #removeAll() {
    if (!(await confirm("Delete all conversations?", "None of them can be brought back. Export them first if in doubt.", "Delete all"))) return;
    forgetEdits();
    await this.chat.forget();
    await this.refresh();
    this.fresh();
  }

  /** A menu beside a button; arrows go through it, and Escape closes it. */
  #showMenu(anchor, entries) {
    let open = true;
    const close = (back) => {
      // taking away what has the focus moves the focus, which closes
      if (!open) return;
      open = false;
      menu.remove();
      if (back) anchor.focus();
    };
    const items = entries.map(([name, label, act]) =>
      el(
        "button",
        {
          type: "button",
          role: "menuitem",
          tabindex: "-1",
          onclick: () => {
            close(true);
            act();
          },
        },
        icon(name),
        label,
      ),
    );
    const menu = el(
      "div",
      {
        class: "menu",
        role: "menu",
        onkeydown: (event) => {
          const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
          if (step) items[(items.indexOf(document.activeElement) + step + items.length) % items.length].focus();
          else if (event.key === "Escape" || event.key === "Tab") close(true);
          else return;
          event.preventDefault();
          event.stopPropagation();
        },
        onfocusout: (event) => menu.contains(event.relatedTarget) || close(false),
      },
      ...items,
    );
    this.element.append(menu);
    const { bottom, top, right } = anchor.getBoundingClientRect();
    const { offsetHeight, offsetWidth } = menu;
    menu.style.top = `${bottom + offsetHeight + 8 > innerHeight ? Math.max(8, top - offsetHeight - 4) : bottom + 4}px`;
    menu.style.left = `${Math.max(8, Math.min(right - 32, innerWidth - offsetWidth - 8))}px`;
    items[0].focus();
  }
}
