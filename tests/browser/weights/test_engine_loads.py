"""The engine in its worker loads models that come in every way, and tells what keeps one from coming."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from .servers import ModelServer, Served
from .sources import PART, bundled

pytestmark = pytest.mark.timeout(600)

START = """async () => {
  const { Engine } = await import("/engine/engine.js");
  window.cache = await import("/engine/cache.js");
  window.engine = await Engine.start();
  window.load = async (source, stopAt) => {
    const stop = new AbortController();
    const events = [];
    const onProgress = (event) => {
      events.push(event);
      if (stopAt && event.stage === "download" && event.done >= stopAt) stop.abort();
    };
    try {
      const model = await engine.load(source, {}, { onProgress, signal: stop.signal });
      let tokens = 0;
      const answer = engine.generate("hello", { max_tokens: 2, ignore_eos: true });
      for await (const chunk of answer) tokens += chunk.tokens.length;
      return { events, tokens, name: model.name, warnings: model.warnings };
    } catch ({ kind, message }) {
      return { events, kind, message };
    }
  };
}"""


@pytest.fixture(scope="module")
def model(tiny_llama: Callable[..., Path]) -> bytes:
    """A model of two parts."""
    data: bytes = tiny_llama(vocabulary="gpt2", name="two parts", width=512, feed_forward=1536, layers=2).read_bytes()
    assert PART < len(data) < 2 * PART
    return data


@pytest.fixture(scope="module")
def models(site: Path) -> Iterator[ModelServer]:
    """Serves the engine, and models."""
    with ModelServer(site) as server:
        yield server


@pytest.fixture(scope="module")
def opened(browser: Browser, models: ModelServer) -> Iterator[BrowserContext]:
    context = browser.new_context()
    yield context
    context.close()


@pytest.fixture(scope="module")
def engine(opened: BrowserContext, models: ModelServer) -> Page:
    """A page with an engine."""
    page = opened.new_page()
    page.goto(models.url)
    page.set_default_timeout(240_000)
    page.evaluate(START)
    return page


@pytest.fixture
def load(engine: Page, models: ModelServer) -> Iterator[Callable[..., Any]]:
    """Loads a source into the engine, whose cache is empty at first."""
    models.files, models.down = {}, False
    models.asked.clear()
    yield lambda source, stop_at=None: engine.evaluate("([source, at]) => load(source, at)", [source, stop_at])
    engine.evaluate("engine.unload()")
    engine.evaluate("cache.listCached().then((all) => Promise.all(all.map(({ id }) => cache.removeCached(id))))")


def sound(found: dict[str, Any], name: str = "two parts") -> bool:
    return (found.get("name"), found.get("tokens")) == (name, 2)


def test_from_an_address(load: Any, models: ModelServer, model: bytes) -> None:
    models.files["m.gguf"] = Served(model)
    found = load({"kind": "url", "urls": [f"{models.url}/m.gguf"]})
    assert sound(found) and found["warnings"] == []


def test_in_parts(load: Any, models: ModelServer, tiny_llama: Callable[..., Path]) -> None:
    path = tiny_llama(vocabulary="gpt2", name="split", tensors_per_part=9)
    parts = sorted(path.parent.glob(path.name.replace("-00001-of-", "-*-of-")))
    assert len(parts) > 2
    for part in parts:
        models.files[part.name] = Served(part.read_bytes())
    assert sound(load({"kind": "url", "urls": [f"{models.url}/{parts[1].name}"]}), "split")


@pytest.mark.parametrize(
    ("change", "kind", "part"),
    [
        ({"status": [404]}, "address", "m.gguf isn't on localhost"),
        ({"content_type": "text/html"}, "file", "a web page instead of m.gguf"),
        ({"data": b"GGUF"}, "file", "m.gguf is truncated or damaged"),
        ({"data": b"<html>" + bytes(1000)}, "file", "m.gguf is not a GGUF file"),
    ],
)
def test_what_keeps_a_model_from_coming(
    load: Any, models: ModelServer, model: bytes, change: dict[str, Any], kind: str, part: str
) -> None:
    models.files["m.gguf"] = Served(**({"data": model} | change))
    found = load({"kind": "url", "urls": [f"{models.url}/m.gguf"]})
    assert found["kind"] == kind and part in found["message"]


def test_a_truncated_file_is_found_out_before_it_is_fetched(load: Any, models: ModelServer, model: bytes) -> None:
    models.files["m.gguf"] = Served(model[:-1000])
    found = load({"kind": "url", "urls": [f"{models.url}/m.gguf"]})
    assert found["kind"] == "file" and "m.gguf is truncated: 1000 bytes are missing" in found["message"]
    assert [asked for _, asked in models.asked] == ["bytes=0-3", f"bytes=0-{PART - 1}"]


def test_a_server_that_fails_in_mid_download(load: Any, models: ModelServer, model: bytes) -> None:
    models.files["m.gguf"] = Served(model, fails_after=1)
    source = bundled("m.gguf", model) | {"base": models.url}
    found = load(source)
    assert found["kind"] == "network" and "try again later" in found["message"]
    models.files["m.gguf"].fails_after = None
    models.asked.clear()
    found = load(source)
    assert sound(found) and found["events"][0]["cached"] == PART
    assert [asked for _, asked in models.asked] == [f"bytes={PART}-{len(model) - 1}"]


def test_a_part_that_is_spoilt_on_the_disk(load: Any, engine: Page, models: ModelServer, model: bytes) -> None:
    models.files["m.gguf"] = Served(model)
    source = bundled("m.gguf", model) | {"base": models.url}
    fetch = """async (source) => {
      const { openSource } = await import("/engine/source.js");
      const [each] = await openSource(source);
      await each.download();
      each.close();
    }"""
    engine.evaluate(fetch, source)
    engine.evaluate("""async () => {
      const root = await navigator.storage.getDirectory();
      const models = await root.getDirectoryHandle("wgpu-engine-models");
      const [entry] = await Array.fromAsync(models.values());
      const file = await entry.getFileHandle("0");
      const stream = await file.createWritable({ keepExistingData: true });
      await stream.write({ type: "write", position: 9_000_000, data: new Uint8Array(1000) });
      await stream.close();
    }""")
    models.asked.clear()
    assert sound(load(source))
    assert [asked for _, asked in models.asked] == [f"bytes=0-{PART - 1}"]


def test_storage_that_is_full(
    load: Any, engine: Page, opened: BrowserContext, models: ModelServer, model: bytes
) -> None:
    """The model comes over the network each time, with a word on it."""
    models.files["m.gguf"] = Served(model)
    session = opened.new_cdp_session(engine)
    session.send("Storage.overrideQuotaForOrigin", {"origin": models.url, "quotaSize": 9 << 20})
    found = load(bundled("m.gguf", model) | {"base": models.url})
    session.send("Storage.overrideQuotaForOrigin", {"origin": models.url})
    [warning] = found["warnings"]
    assert sound(found) and "m.gguf doesn't fit into what this browser lets the page store" in warning
    for start in (0, PART):
        assert sum(asked.startswith(f"bytes={start}-") for _, asked in models.asked) == 1, "once each"


def test_a_download_that_is_stopped(load: Any, models: ModelServer, model: bytes) -> None:
    models.files["m.gguf"] = Served(model, delay=0.02)
    source = bundled("m.gguf", model) | {"base": models.url}
    found = load(source, 4 << 20)
    assert (found["kind"], found["message"]) == ("cancelled", "stopped")
