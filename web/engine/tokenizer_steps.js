/**
 * The steps of a `tokenizer.json` before its model, in the form in which the JavaScript library does what the
 * `tokenizers` library does on desktop. Steps for which there is none are refused.
 */

/** A kind of tokenizer that would give other ids here than on desktop. */
export class UnsupportedTokenizer extends Error {
  /** @param {string} what the kind, as in "a tokenizer with …" */
  constructor(what) {
    super(`this model has ${what}, which browsers would encode wrongly: use another model or the desktop's engine`);
    this.name = "UnsupportedTokenizer";
    this.kind = "unsupported";
  }
}

const GPT2_WORDS = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/** Normalizers one after the other, without sequences within sequences. */
export function normalizerSteps(step) {
  if (!step) return [];
  switch (step.type) {
    case "Sequence":
      return step.normalizers.flatMap(normalizerSteps);
    case "NFC":
    case "Prepend":
      return [step];
    case "Replace":
      if (step.pattern.String === undefined || step.content.includes("$")) break;
      return [step];
  }
  throw new UnsupportedTokenizer(`a tokenizer with the normalizer ${step.type}`);
}

/** Pre-tokenizers one after the other, without sequences within sequences. */
export function preTokenizerSteps(step) {
  if (!step) return [];
  switch (step.type) {
    case "Sequence":
      return step.pretokenizers.flatMap(preTokenizerSteps);
    case "Split":
      if (step.behavior !== "Isolated" || step.invert) break;
      return [step];
    case "Digits":
      return [split(step.individual_digits ? "\\p{N}" : "\\p{N}+")];
    case "ByteLevel":
      return byteLevel(step);
    case "Metaspace":
      if (step.split ?? true) break;
      return [step];
  }
  throw new UnsupportedTokenizer(`a tokenizer with the pre-tokenizer ${step.type}`);
}

/** Words are split by an expression that both libraries read alike, unlike the one that is built in. */
function byteLevel(step) {
  if (!(step.use_regex ?? true)) return [step];
  if (step.add_prefix_space ?? true) throw new UnsupportedTokenizer("a tokenizer that puts a space before each text");
  return [split(GPT2_WORDS), { ...step, use_regex: false }];
}

function split(expression) {
  return { type: "Split", pattern: { Regex: expression }, behavior: "Isolated", invert: false };
}
