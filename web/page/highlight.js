/** Colours for code: comments, texts, numbers, keywords and what is called, by the few rules that most languages share. */

const HASH = "#[^\\n]*";
const SLASHES = "//[^\\n]*|/\\*[^]*?(?:\\*/|$)";
const DASHES = "--[^\\n]*";
const MARKUP = "<!--[^]*?(?:-->|$)";
const COMMENTS = {
  [HASH]: "python py bash sh shell zsh ruby rb yaml yml toml r perl dockerfile makefile",
  [SLASHES]: "javascript js jsx typescript ts tsx java c cpp c++ h cs csharp go rust rs swift kotlin kt php css scss json wgsl glsl dart scala",
  [DASHES]: "sql lua haskell hs ada",
  [MARKUP]: "html xml svg",
};
const COMMENT_OF = new Map(Object.entries(COMMENTS).flatMap(([comment, names]) => names.split(" ").map((name) => [name, comment])));
const TEXT = `"""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|"(?:\\\\.|[^"\\\\\\n])*"?|'(?:\\\\.|[^'\\\\\\n])*'?|\`(?:\\\\.|[^\`\\\\])*\`?`;
const NUMBER = "\\b0[xb][\\da-fA-F_]+\\b|\\b\\d[\\d_]*(?:\\.\\d+)?(?:[eE][+-]?\\d+)?\\b";
const WORD = "[\\p{L}_$][\\p{L}\\p{N}_$]*";
const KEYWORDS = new Set(
  (
    "abstract and as assert async await bool boolean break case catch char class const continue def default del delete do double elif " +
    "else end enum except export extends extern false False final finally float fn for foreach from func function if implements " +
    "import in instanceof int interface is lambda let long match mod mut namespace new nil None not null or package pass private " +
    "protected public pub raise return self short signed sizeof static str string struct super switch template then this throw " +
    "trait true True try type typeof undefined union unless unsigned until use using val var virtual void volatile when where " +
    "while with yield SELECT FROM WHERE INSERT INTO VALUES UPDATE SET DELETE CREATE TABLE JOIN ON GROUP BY ORDER LIMIT AND OR NOT NULL AS"
  ).split(" "),
);
const MOST_LETTERS = 30_000;

/**
 * @param {string} code
 * @param {string} language as a block of code names it
 * @returns {(string | HTMLElement)[]} the same letters
 */
export function highlighted(code, language) {
  const comment = COMMENT_OF.get(language.toLowerCase());
  if (!comment || code.length > MOST_LETTERS) return [code];
  const pieces = [];
  let at = 0;
  for (const found of code.matchAll(new RegExp(`(${comment})|(${TEXT})|(${NUMBER})|(${WORD})`, "gu"))) {
    const [whole, isComment, isText, isNumber] = found;
    const end = found.index + whole.length;
    const kind = isComment ? "comment" : isText ? "text" : isNumber ? "number" : kindOf(whole, code[end]);
    if (!kind) continue;
    const span = document.createElement("span");
    span.className = `code-${kind}`;
    span.textContent = whole;
    pieces.push(code.slice(at, found.index), span);
    at = end;
  }
  return [...pieces, code.slice(at)].filter((piece) => piece !== "");
}

function kindOf(word, next) {
  return KEYWORDS.has(word) ? "keyword" : next === "(" ? "call" : null;
}
