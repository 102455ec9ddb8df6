"""What tests have pages do with the engine."""

from typing import Any

from playwright.sync_api import Page

START = """async (options) => {
  const { Engine } = await import("/engine/engine.js");
  window.lost = [];
  window.engine = await Engine.start({ onLost: (message) => lost.push(message) });
  const { models } = await (await fetch("/bundle.json")).json();
  window.source = { kind: "bundled", files: models[0].files, base: location.href };
  window.progress = [];
  window.model = await engine.load(source, options, { onProgress: (each) => progress.push(each) });
  return { ...model, adapter: engine.adapter, version: engine.version };
}"""
"""loads the bundle's first model as `engine`"""

ANSWER = """async ([call, asked, sampling, stopAfter]) => {
  const stop = new AbortController();
  const found = { text: "", tokens: [], chunks: 0 };
  try {
    for await (const chunk of engine[call](asked, sampling, { signal: stop.signal })) {
      found.text += chunk.text;
      found.tokens.push(...chunk.tokens);
      found.chunks += 1;
      if (found.chunks === stopAfter) { stop.abort(); found.stopped = performance.now(); }
      if (chunk.finish_reason) Object.assign(found, { ...chunk, text: found.text, tokens: found.tokens });
    }
  } catch (error) {
    found.error = { kind: error.kind, message: error.message };
  }
  found.ended = performance.now();
  return found;
}"""

RELOAD = "engine.load(source, { precision: 'exact' }).then((model) => model.name)"


def ask(page: Page, call: str, asked: Any, stop_after: int | None = None, **sampling: Any) -> dict[str, Any]:
    """An answer of the engine of a page; an error is part of it."""
    found: dict[str, Any] = page.evaluate(ANSWER, [call, asked, sampling, stop_after])
    return found
