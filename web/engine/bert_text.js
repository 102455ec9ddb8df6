/**
 * How BERT's tokenizers clean text and split words, as the `tokenizers` library on desktop does it for all characters
 * of Unicode 8, which is what that library's tables have; marks and punctuation that came later can differ.
 */

const CONTROL = /[\p{Cc}\p{Cf}\p{Co}\0\ufffd]/u;
const SPACE = /\p{White_Space}/u;
const IDEOGRAPHS = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff";
const RARE_IDEOGRAPHS = "\u{20000}-\u{2a6df}\u{2a700}-\u{2b81f}\u{2b920}-\u{2ceaf}\u{2f800}-\u{2fa1f}";
const IDEOGRAPH = new RegExp(`[${IDEOGRAPHS}${RARE_IDEOGRAPHS}]`, "gu");
const ACCENT = /\p{Mn}/gu;
const PUNCTUATION = "\\p{P}!-/:-@\\[-`{-~";
const WORD = new RegExp(`[^\\p{White_Space}${PUNCTUATION}]+|[${PUNCTUATION}]`, "gu");

/**
 * A function that normalizes text.
 * @param {object} settings of a BertNormalizer in a `tokenizer.json`
 * @param {boolean} settings.clean_text
 * @param {boolean} settings.handle_chinese_chars
 * @param {boolean | null} settings.strip_accents
 * @param {boolean} settings.lowercase
 * @returns {(text: string) => string}
 */
export function bertNormalizer({ clean_text, handle_chinese_chars, strip_accents, lowercase }) {
  return (text) => {
    if (clean_text) text = Array.from(text, cleaned).join("");
    if (handle_chinese_chars) text = text.replace(IDEOGRAPH, " $& ");
    if (strip_accents ?? lowercase) text = text.normalize("NFD").replace(ACCENT, "");
    // one by one: at the end of a word toLowerCase makes another letter of Σ
    return lowercase ? Array.from(text, (letter) => letter.toLowerCase()).join("") : text;
  };
}

/** The words of a text: what is between spaces, each punctuation mark by itself. */
export function bertWords(text) {
  return text.match(WORD) ?? [];
}

function cleaned(letter) {
  if (letter === "\t" || letter === "\n" || letter === "\r") return " ";
  if (CONTROL.test(letter)) return "";
  return SPACE.test(letter) ? " " : letter;
}
