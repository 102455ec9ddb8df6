/** Server-sent events, as the HTML standard describes the stream; only data is of use here. */

/**
 * @param {ReadableStream<Uint8Array>} body of an answer
 * @returns {AsyncGenerator<string>} the data of each event
 */
export async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let data = [];
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      // a line may end in CR, LF or both, and a CR at the end of a piece may be half of both
      const lines = (rest + value).split(/\r\n|\n|\r(?!$)/);
      rest = lines.pop();
      for (const line of lines) {
        if (line === "" && data.length) {
          yield data.join("\n");
          data = [];
        } else if (line.startsWith("data:")) {
          data.push(line.slice(line[5] === " " ? 6 : 5));
        }
      }
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}
