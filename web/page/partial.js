/** Ends what markdown has begun, so that a text looks from its first letters on as it will in the end. */

const FENCE = /^ {0,3}(`{3,}|~{3,})/;

/**
 * @param {string} text markdown that goes on
 * @returns {string} with marks closed that are open, and without those of which it can't be told yet what they mean
 */
export function healed(text) {
  const { open, end } = fences(text);
  // the end of code is coming, or the language that it is in
  if (open) return text.replace(/\n {0,3}[`~]{1,2}$/, "\n").replace(/(^|\n) {0,3}(?:`{3,}|~{3,})[^\n]*$/, "$1");
  const begin = Math.max(text.lastIndexOf("\n\n") + 1, end);
  return text.slice(0, begin) + healedParagraph(withoutHints(text.slice(begin)));
}

/** @returns {{open: boolean, end: number}} whether a block of code is open, and where the last closed one ends */
function fences(text) {
  let open = null;
  let end = 0;
  let at = 0;
  for (const line of text.split("\n")) {
    at += line.length + 1;
    const fence = FENCE.exec(line)?.[1];
    if (!fence) continue;
    if (open === null) open = fence;
    else if (fence[0] === open[0] && fence.length >= open.length && line.trim() === fence) {
      open = null;
      end = Math.min(at, text.length);
    }
  }
  return { open: open !== null, end };
}

/** Takes away the beginning of a last line that could become a heading, a list, a rule, a table or code. */
function withoutHints(text) {
  // the first row of a table is one only when the second has come
  const table = /(?:^|\n)\|[^\n]*(?:\n[|:\- ]*)?$/.exec(text);
  if (table && !/\n\|?[ :]*-+[ :|-]*\|[^\n]*\n/.test(text)) return text.slice(0, table.index);
  const at = text.lastIndexOf("\n") + 1;
  const isHint = /^ *(?:[-=*_+#>|]+|\d{1,9}[.)]?|`{1,2}|~{1,2}|[-*+] \[[ xX]?\]?)\s*$/.test(text.slice(at));
  return isHint ? text.slice(0, at).replace(/\n$/, "") : text;
}

/** Closes code, emphasis and links that are open at the end. */
function healedParagraph(text) {
  const ticks = /`+$/.exec(text);
  const plain = withoutCode(ticks ? text.slice(0, ticks.index) : text);
  if (plain.open) return (ticks ? text.slice(0, ticks.index) : text) + plain.open;
  let healed = ticks && openTicks(text) ? text.slice(0, ticks.index) : text;
  healed = healed
    .replace(/!?\[([^\][\n]*)\](?:\([^)\s]*)?$/, "$1")
    .replace(/!?\[([^\][\n]*)$/, "$1")
    .replace(/(^|[^\\])[*_~]+$/, (marks, before) => (closes(plain.text, marks) ? marks : before));
  const marks = unclosed(withoutCode(healed).text);
  return marks ? healed.trimEnd() + marks : healed;
}

/** Whether a text ends in backticks that open code rather than closing it. */
function openTicks(text) {
  return withoutCode(text).open !== "";
}

/** @returns {{text: string, open: string}} without what stands in code, and the mark of code that is still open */
function withoutCode(text) {
  let rest = text;
  let kept = "";
  for (;;) {
    const begin = /`+/.exec(rest);
    if (!begin) return { text: kept + rest, open: "" };
    kept += rest.slice(0, begin.index);
    const after = rest.slice(begin.index + begin[0].length);
    const end = new RegExp(`(?<!\`)${begin[0]}(?!\`)`).exec(after);
    if (!end) return { text: kept, open: after.trim() ? begin[0] : "" };
    rest = after.slice(end.index + begin[0].length);
  }
}

/** Whether marks at the end of a text close what its earlier part opened. */
function closes(text, marks) {
  const bare = marks.replace(/^[^*_~]/, "");
  const before = text.slice(0, text.length - bare.length);
  return unclosed(before) === bare;
}

/** @returns {string} the marks that close what is open at the end of a text */
function unclosed(text) {
  const open = [];
  for (const found of text.matchAll(/(\\.)|(?<![\p{L}\p{N}])(\*\*\*|\*\*|\*|~~|__|_)(?=\S)|(?<=\S)(\*\*\*|\*\*|\*|~~|__|_)(?![\p{L}\p{N}])/gu)) {
    const [, escape, opening, closing] = found;
    if (escape) continue;
    const mark = opening ?? closing;
    const at = open.lastIndexOf(mark);
    if (at >= 0) open.splice(at);
    else if (opening) open.push(opening);
  }
  return open.reverse().join("");
}
