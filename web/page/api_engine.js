/** The page's engine where the model runs on a server: its API. */

import { PageError } from "./errors.js";
import { passing } from "./kept.js";
import { events } from "./sse.js";

/**
 * What both engines do for the page.
 *
 * @typedef {{id: string, title: string, bytes?: number, memory?: number, license?: string, kept?: number,
 *   source?: object}} Choice a model to choose; `kept` is the part of its bytes that this browser has already
 * @typedef {{name: string, context: number, chat: boolean, adapter: string, detail: string, warnings: string[]}} Loaded
 * @typedef {{text: string, finish_reason?: string, usage?: object, timings?: object}} Chunk
 */

const KEY = "wgpu_engine API key";
const KINDS = { context_length_exceeded: "context", overloaded: "busy", device: "device" };

export class ApiEngine {
  kind = "api";
  loads = false;
  #model = null;
  #key = passing.get(KEY);

  /** A key for the requests from now on. @param {string} key */
  useKey(key) {
    this.#key = key;
    passing.set(KEY, key);
  }

  /** Whether it can work here at all. */
  async check() {}

  /** @returns {Promise<Choice[]>} the models that the server has */
  async models() {
    const { data } = await this.#json("v1/models");
    return data.map(({ id, meta }) => ({ id, title: id, context: meta?.n_ctx, parameters: meta?.n_params }));
  }

  /**
   * Chooses a model; nothing has to be loaded.
   *
   * @param {Choice} choice
   * @returns {Promise<Loaded>}
   */
  async load(choice) {
    const props = await this.#json("props").catch((error) => {
      // a server of embeddings has no such route
      if (error.status === 404) return null;
      throw error;
    });
    if (!props) {
      throw new PageError("embeddings", `${choice.id} makes embeddings of texts: programs use it at /v1/embeddings, see /docs.`);
    }
    this.#model = { ...choice, chat: props.chat_template };
    return {
      name: choice.id,
      context: choice.context,
      chat: props.chat_template,
      adapter: props.adapter,
      detail: `${props.precision} precision, on the server`,
      warnings: props.warnings ?? [],
    };
  }

  /**
   * @param {{role: string, content: string}[]} messages
   * @param {Record<string, unknown>} sampling
   * @param {{signal: AbortSignal}} options
   * @returns {AsyncGenerator<Chunk>}
   */
  async *chat(messages, sampling, { signal }) {
    const about = { model: this.#model.id, stream: true, stream_options: { include_usage: true }, ...sampling };
    const chats = this.#model.chat;
    const body = chats ? { ...about, messages } : { ...about, prompt: messages.map(({ content }) => content).join("") };
    const response = await this.#fetch(chats ? "v1/chat/completions" : "v1/completions", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
      signal,
    });
    const last = { text: "" };
    for await (const data of this.#pieces(response, signal)) {
      const [choice] = data.choices ?? [];
      if (data.error) throw apiError(data.error, response.status);
      if (choice?.finish_reason) last.finish_reason = choice.finish_reason;
      if (data.usage) Object.assign(last, { usage: usageOf(data.usage), timings: data.timings });
      const text = choice?.delta?.content ?? choice?.text;
      if (text) yield { text };
    }
    yield last;
  }

  /** The events of a stream, which has to come to its end. */
  async *#pieces(response, signal) {
    try {
      for await (const data of events(response.body)) {
        if (data === "[DONE]") return;
        yield JSON.parse(data);
      }
    } catch (error) {
      if (signal.aborted) throw new DOMException("stopped", "AbortError");
      throw error.kind ? error : new PageError("network", `The answer broke off: ${error.message}.`);
    }
    throw new PageError("network", "The answer broke off before its end.");
  }

  async #json(path) {
    return (await this.#fetch(path)).json();
  }

  async #fetch(path, options = {}) {
    const headers = { ...options.headers, ...(this.#key ? { Authorization: `Bearer ${asBytes(this.#key)}` } : {}) };
    let response;
    try {
      response = await fetch(path, { ...options, headers });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new PageError("network", "The server doesn't answer: check that it still runs.");
    }
    if (response.ok) return response;
    if (response.status === 401) throw new PageError("key", this.#key ? "The key that you gave was not accepted." : "");
    const body = await response.json().catch(() => null);
    throw Object.assign(apiError(body?.error, response.status), { status: response.status });
  }
}

/** @param {{message?: string, code?: string} | undefined} error in the shape of OpenAI's API @param {number} status */
function apiError(error, status) {
  const message = error?.message ?? `The server answered with status ${status}.`;
  const byStatus = status === 429 || status === 503 ? "busy" : status >= 400 && status < 500 ? "request" : "server";
  return new PageError(KINDS[error?.code] ?? byStatus, sentence(message));
}

/** Headers carry bytes, one a character. */
function asBytes(text) {
  return String.fromCharCode(...new TextEncoder().encode(text));
}

function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");
}

function usageOf(usage) {
  const { prompt_tokens, completion_tokens, prompt_tokens_details: details } = usage;
  return { prompt_tokens, completion_tokens, cached_tokens: details?.cached_tokens ?? 0 };
}
