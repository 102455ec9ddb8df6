/**
 * A conversation is a tree: an edited question or a second answer stands beside the first, and `leaf` says which
 * branch is shown.
 *
 * @typedef {object} Message
 * @property {string} id
 * @property {string | null} parent
 * @property {"user" | "assistant"} role
 * @property {string} content
 * @property {number} created milliseconds since 1970
 * @property {"streaming" | "done" | "stopped" | "interrupted"} [state] of an answer
 * @property {string} [finish] why an answer ended, as the engine says
 * @property {boolean} [refused] of a question that alone is longer than the model's context
 * @property {string} [model]
 * @property {{prompt_tokens: number, cached_tokens: number, completion_tokens: number}} [usage]
 * @property {{firstTokenMs: number, perSecond: number | null}} [speed]
 *
 * @typedef {object} Conversation
 * @property {string} id
 * @property {string} title
 * @property {number} created
 * @property {number} updated
 * @property {Message[]} messages
 * @property {string | null} leaf
 * @property {string | null} from the first message that is still sent; earlier ones were left out for room
 */

const TITLE_LENGTH = 60;

/** @returns {Conversation} */
export function newConversation() {
  const now = Date.now();
  return { id: newId(), title: "", created: now, updated: now, messages: [], leaf: null, from: null };
}

/** An id that nobody else has; `crypto.randomUUID` is missing where a page isn't secure. */
function newId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * Adds a message and shows it.
 *
 * @param {Conversation} conversation
 * @param {Partial<Message>} fields
 * @param {string | null} [parent] by default what is shown last
 * @returns {Message}
 */
export function add(conversation, fields, parent = conversation.leaf) {
  const message = { id: newId(), parent, created: Date.now(), ...fields };
  conversation.messages.push(message);
  conversation.leaf = message.id;
  conversation.updated = message.created;
  if (!conversation.title && message.role === "user") conversation.title = titleOf(message.content);
  return message;
}

/** Takes out a message that nothing follows; what stood before it is shown last. */
export function removeLeaf(conversation, message) {
  conversation.messages = conversation.messages.filter((each) => each.id !== message.id);
  if (conversation.leaf === message.id) conversation.leaf = message.parent;
}

/** @param {Conversation} conversation @returns {Message[]} those shown, the first one first */
export function shown(conversation) {
  const byId = new Map(conversation.messages.map((message) => [message.id, message]));
  const path = [];
  for (let at = byId.get(conversation.leaf); at && path.length <= byId.size; at = byId.get(at.parent)) path.unshift(at);
  return path;
}

/** @returns {Message[]} the message and those that stand in its place on other branches, the oldest first */
export function versions(conversation, message) {
  return conversation.messages.filter((each) => each.parent === message.parent && each.role === message.role);
}

/** Shows the branch that a message is on, down to its latest message. */
export function show(conversation, message) {
  let last = message;
  for (const each of conversation.messages) if (each.parent === last.id) last = each;
  conversation.leaf = last.id;
}

/**
 * What the model is asked.
 *
 * @param {Conversation} conversation
 * @param {string} systemPrompt
 * @returns {{role: string, content: string}[]}
 */
export function request(conversation, systemPrompt) {
  let path = shown(conversation);
  const first = path.findIndex((message) => message.id === conversation.from);
  if (first > 0) path = path.slice(first);
  const messages = path.map(({ role, content }) => ({ role, content: role === "assistant" ? withoutThoughts(content) : content }));
  return systemPrompt.trim() ? [{ role: "system", content: systemPrompt }, ...messages] : messages;
}

/** Questions that are sent. */
function questionsSent(conversation) {
  const path = shown(conversation);
  const begin = Math.max(0, path.findIndex((message) => message.id === conversation.from));
  return path.slice(begin).filter((message) => message.role === "user");
}

/** @param {Conversation} conversation @returns {boolean} whether there is something before the last question to leave out */
export function canLeaveOut(conversation) {
  return questionsSent(conversation).length > 1;
}

/** Leaves out the older half of what is sent, from a question on. @returns {boolean} whether there was something to leave out */
export function leaveOutOldest(conversation) {
  const questions = questionsSent(conversation);
  if (questions.length < 2) return false;
  conversation.from = questions[Math.ceil(questions.length / 2)].id;
  return true;
}

/**
 * Tells apart what a reasoning model thinks and what it says.
 *
 * @param {string} content of an answer, which may be incomplete
 * @returns {{thoughts: string, text: string, thinking: boolean}}
 */
export function withThoughts(content) {
  const begin = /^\s*<think>/.exec(content);
  if (!begin) return { thoughts: "", text: content, thinking: false };
  const end = content.indexOf("</think>");
  if (end < 0) return { thoughts: content.slice(begin[0].length).trim(), text: "", thinking: true };
  return { thoughts: content.slice(begin[0].length, end).trim(), text: content.slice(end + 8).trimStart(), thinking: false };
}

/** @param {string} content @returns {string} */
export function withoutThoughts(content) {
  return withThoughts(content).text;
}

/** @param {string} text @returns {string} its beginning, in one line */
export function titleOf(text) {
  const line = text.trim().replace(/\s+/g, " ");
  // neither within a word, nor within a letter that takes two units
  return line.length <= TITLE_LENGTH ? line : `${line.slice(0, TITLE_LENGTH - 1).replace(/\s\S*$|[\ud800-\udbff]$/, "")}…`;
}
