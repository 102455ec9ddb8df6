import { UnsupportedTokenizer } from "./tokenizer_steps.js";

const SPACE = "\\p{White_Space}*";

/** Finds the added tokens of a `tokenizer.json` in a text: the leftmost first, and of those the longest. */
export class AddedTokens {
  /**
   * @param {{id: number, content: string, lstrip?: boolean, rstrip?: boolean, single_word?: boolean,
   *   normalized?: boolean, special?: boolean}[]} tokens
   * @param {boolean} normalizes whether the tokenizer has a normalizer
   */
  constructor(tokens, normalizes) {
    for (const { single_word, normalized, special } of tokens) {
      if (single_word) throw new UnsupportedTokenizer("a tokenizer with added tokens that are whole words");
      if (normalizes && (normalized ?? !special)) {
        throw new UnsupportedTokenizer("a tokenizer with added tokens that are normalized");
      }
    }
    this._byContent = new Map(tokens.map((token) => [token.content, token]));
    const contents = [...this._byContent.keys()].filter(Boolean).sort((one, other) => other.length - one.length);
    this._any = contents.length ? new RegExp(contents.map(escaped).join("|"), "gu") : null;
  }

  /**
   * Pieces of a text in order.
   * @returns {({id: number} | {text: string, first: boolean})[]} tokens, and what is between them; `first`: at the very
   *   beginning
   */
  split(text) {
    const pieces = [];
    let done = 0;
    const run = (end) => {
      if (done < end) pieces.push({ text: text.slice(done, end), first: done === 0 });
    };
    for (const match of this._any ? text.matchAll(this._any) : []) {
      const token = this._byContent.get(match[0]);
      const before = token.lstrip ? text.slice(0, match.index).search(END_SPACE) : match.index;
      const behind = match.index + match[0].length;
      run(Math.max(before, done));
      pieces.push({ id: token.id });
      done = behind + (token.rstrip ? START_SPACE.exec(text.slice(behind))[0].length : 0);
    }
    run(text.length);
    return pieces;
  }
}

const START_SPACE = new RegExp(`^${SPACE}`, "u");
const END_SPACE = new RegExp(`${SPACE}$`, "u");

function escaped(text) {
  return text.replace(/[\\^$.*+?()[\]{}|/-]/gu, "\\$&");
}
