import { Tokenizer } from "../vendor/tokenizers.js";

/**
 * An encoder by a `tokenizer.json`.
 * @param {string} text of the file
 * @returns {{encode: (text: string) => Uint32Array}} ids of plain text, nothing added
 */
export function makeEncoder(text) {
  const library = new Tokenizer(JSON.parse(text), {});
  return {
    encode: (plain) => Uint32Array.from(library.encode(plain, { add_special_tokens: false }).ids),
  };
}
