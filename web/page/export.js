/** Conversations as files to keep. */

import { shown } from "./conversation.js";

/** @typedef {import("./conversation.js").Conversation} Conversation */

/** @param {Conversation[]} conversations @returns {string} all branches, in JSON */
export function asJson(conversations) {
  const exported = new Date().toISOString();
  return `${JSON.stringify({ format: "wgpu_engine conversations", version: 1, exported, conversations }, null, 2)}\n`;
}

/** @param {Conversation[]} conversations @returns {string} the branches that are shown, in Markdown */
export function asMarkdown(conversations) {
  return conversations.map(oneAsMarkdown).join("\n---\n\n");
}

/** @param {Conversation} conversation */
function oneAsMarkdown(conversation) {
  const parts = [`# ${conversation.title || "Conversation"}`, `*${new Date(conversation.created).toLocaleString("en")}*`];
  for (const { role, content, model } of shown(conversation)) {
    parts.push(role === "user" ? "## You" : `## ${model ?? "Answer"}`, content.trim());
  }
  return `${parts.join("\n\n")}\n`;
}

/** @param {string} title @param {string} ending @returns {string} a file's name that every system takes */
export function fileName(title, ending) {
  const plain = title.normalize("NFKD").replace(/[^\w -]+/g, "").trim().replace(/\s+/g, "-").toLowerCase().slice(0, 50);
  return `${plain || "conversation"}.${ending}`;
}
