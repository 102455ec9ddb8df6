import { Tokenizer } from "../vendor/tokenizers.js";
import { AddedTokens } from "./added_tokens.js";
import { bertNormalizer, bertWords } from "./bert_text.js";
import { normalizerSteps, preTokenizerSteps, UnsupportedTokenizer } from "./tokenizer_steps.js";

const ENCODER = new TextEncoder();

/**
 * An encoder by a `tokenizer.json`, which gives the ids that the `tokenizers` library gives on desktop.
 * @param {string} text of the file; no post-processor is run
 * @returns {{encode: (text: string) => Uint32Array}} ids of a text, nothing added
 * @throws {UnsupportedTokenizer} for a kind that would be encoded otherwise
 */
export function makeEncoder(text) {
  const document = { ...JSON.parse(text), post_processor: null, decoder: null };
  const added = new AddedTokens(document.added_tokens, document.normalizer !== null);
  document.added_tokens = [];
  const make = document.model.type === "WordPiece" ? wordPiece : bytePairs;
  const { normalizer, pre_tokenizer, model } = make(document);
  const ids = (piece) => {
    if ("id" in piece) return piece.id;
    const run = normalizer ? normalizer(piece.text) : piece.text;
    const words = pre_tokenizer ? pre_tokenizer(run, { section_index: piece.first ? 0 : 1 }) : [run];
    return model(words).map((token) => model.tokens_to_ids.get(token) ?? model.unk_token_id);
  };
  return {
    encode(plain) {
      const found = added.split(plain).flatMap(ids);
      if (found.includes(undefined)) throw new Error("a token of the text has no id");
      return Uint32Array.from(found);
    },
  };
}

/** WordPiece on BERT's words; text is cleaned and split here, since the library does it otherwise in places. */
function wordPiece(document) {
  const { normalizer, pre_tokenizer } = document;
  if (normalizer?.type !== "BertNormalizer" || pre_tokenizer?.type !== "BertPreTokenizer") {
    throw new UnsupportedTokenizer("a WordPiece tokenizer that isn't BERT's");
  }
  const library = new Tokenizer({ ...document, normalizer: null, pre_tokenizer: null }, {});
  library.normalizer = bertNormalizer(normalizer);
  library.pre_tokenizer = bertWords;
  return library;
}

function bytePairs(document) {
  const { model } = document;
  if (model.type !== "BPE") throw new UnsupportedTokenizer(`a tokenizer of kind ${model.type}`);
  if (model.dropout) throw new UnsupportedTokenizer("a BPE tokenizer with dropout");
  if (model.continuing_subword_prefix || model.end_of_word_suffix) {
    throw new UnsupportedTokenizer("a BPE tokenizer with affixes of words");
  }
  const normalizers = normalizerSteps(document.normalizer);
  const pretokenizers = preTokenizerSteps(document.pre_tokenizer);
  const library = new Tokenizer(
    {
      ...document,
      normalizer: normalizers.length ? { type: "Sequence", normalizers } : null,
      pre_tokenizer: pretokenizers.length ? { type: "Sequence", pretokenizers } : null,
    },
    {},
  );
  const complete = hasAllBytes(model, pretokenizers);
  if (!complete && model.fuse_unk && pretokenizers.length) {
    throw new UnsupportedTokenizer("a BPE tokenizer that joins unknown characters of a word");
  }
  if (!complete && (model.unk_token ?? null) === null) leaveOutUnknown(library.model, model);
  return library;
}

/** Whether there is a token for any character, as letters of the byte alphabet or as bytes. */
function hasAllBytes({ vocab, byte_fallback }, pretokenizers) {
  if (pretokenizers.at(-1)?.type === "ByteLevel") {
    const printable = (byte) => (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte < 0x100 && byte !== 0xad);
    const letters = Array.from({ length: 256 }, (_, byte) => byte).filter(printable);
    for (let letter = 256; letters.length < 256; letter++) letters.push(letter);
    return letters.every((letter) => Object.hasOwn(vocab, String.fromCharCode(letter)));
  }
  const tokens = Array.from({ length: 256 }, (_, byte) => byteToken(byte));
  return byte_fallback && tokens.every((token) => Object.hasOwn(vocab, token));
}

function byteToken(byte) {
  return `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`;
}

/** Characters without a token go before what is beside them is merged, and not after as the library has it. */
function leaveOutUnknown(model, { vocab, byte_fallback, ignore_merges }) {
  const known = (letter) =>
    Object.hasOwn(vocab, letter) ||
    (byte_fallback && Array.from(ENCODER.encode(letter), byteToken).every((token) => Object.hasOwn(vocab, token)));
  const kept = (word) =>
    ignore_merges && Object.hasOwn(vocab, word) ? word : Array.from(word).filter(known).join("");
  const encode = model.encode.bind(model);
  model.encode = (words) => encode(words.map(kept));
}
