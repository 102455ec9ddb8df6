// Does the page's own code encode by this tokenizer.json? If not it says why on stderr, and leaves with 3 where
// the kind is one that it refuses by name.
// Usage: node check_tokenizer.mjs tokenizer.json, beside the page's folders engine/ and vendor/

import { readFileSync } from "node:fs";
import { makeEncoder } from "./engine/tokenizer.js";

try {
  makeEncoder(readFileSync(process.argv[2], "utf8"));
} catch (error) {
  process.stderr.write(error.message);
  process.exitCode = error.kind === "unsupported" ? 3 : 1;
}
