"""Programs for a page that open models from a server, and what they should find."""

import hashlib
import random
from typing import Any

from playwright.sync_api import Page

from .servers import ModelServer

PART = 16 << 20
SIZE = PART + (1 << 20) + 12345
DATA = random.Random(7).randbytes(SIZE)
HELPERS = """
    const source = await import("/engine/source.js"), cache = await import("/engine/cache.js");
    const digest = await import("/engine/digest.js");
    const events = [];
    const onProgress = (progress) => events.push(progress);
    const open = async (what, options = {}) => (await source.openSource(what, { onProgress, ...options }))[0];
    const hash = async (each) => {
      const whole = new Uint8Array(each.size);
      for (let at = 0; at < each.size; at += 5 << 20) {
        const length = Math.min(5 << 20, each.size - at);
        const bytes = await each.read(at, length);
        if (bytes.length !== length) throw new Error("length");
        whole.set(bytes, at);
      }
      return digest.sha256(whole);
    };
    const failure = async (promise) => {
      try { await promise; } catch (error) { return [error.name, error.kind, error.message]; }
      return null;
    };
"""


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def bundled(name: str, data: bytes) -> dict[str, Any]:
    """As bundle.json has it."""
    parts = [sha256(data[start : start + PART]) for start in range(0, len(data), PART)]
    entry = {"path": name, "bytes": len(data), "sha256": sha256(data), "parts": parts}
    return {"kind": "bundled", "files": [entry], "base": "/"}


def run(page: Page, body: str, argument: Any = None) -> Any:
    """Runs the body of an async function of `given`, with what HELPERS have."""
    return page.evaluate(f"async (given) => {{ {HELPERS} {body} }}", argument)


def url_of(server: ModelServer) -> dict[str, Any]:
    """As someone types it."""
    return {"kind": "url", "urls": [f"{server.url}/m.gguf"]}


READ = "const s = await open(given); const h = await hash(s); s.close(); return [h, events, s.warnings];"
"""opens and reads a model; gives its hash, the progress and the warnings"""
