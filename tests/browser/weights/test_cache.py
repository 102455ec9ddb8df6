"""What is kept of models between visits: verified, shared by tabs, evicted when room is wanted."""

from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page

from .servers import ModelServer, Served
from .sources import DATA, PART, READ, SIZE, bundled, run, sha256, url_of

SPOIL = """
    const root = await navigator.storage.getDirectory();
    const models = await root.getDirectoryHandle("wgpu-engine-models");
    for await (const entry of models.values()) {
      const file = await entry.getFileHandle(given.file);
      const bytes = new Uint8Array(await (await file.getFile()).arrayBuffer());
      const stream = await file.createWritable();
      if (given.how === "flip") { bytes[5] ^= 1; await stream.write(bytes); }
      if (given.how === "cut") await stream.write(bytes.subarray(0, 100));
      if (given.how === "text") await stream.write(given.text);
      await stream.close();
      if (given.how === "remove") await entry.removeEntry(given.file);
    }
"""


@pytest.mark.parametrize("kind", ["bundled", "url"])
@pytest.mark.parametrize("how", ["flip", "cut", "remove"])
def test_a_spoilt_part_is_fetched_again(page: Page, server: ModelServer, kind: str, how: str) -> None:
    what = bundled("m.gguf", DATA) | {"base": server.url} if kind == "bundled" else url_of(server)
    run(page, READ, what)
    run(page, SPOIL, {"file": "1", "how": how})
    for again in (True, False):
        server.asked.clear()
        found, events, _ = run(page, READ, what)
        assert found == sha256(DATA) and events[-1]["done"] == SIZE
        fetched = [asked for _, asked in server.asked if asked != "bytes=0-3"]
        assert fetched == ([f"bytes={PART}-{SIZE - 1}"] if again else [])


@pytest.mark.parametrize("text", ["", "{", "null", "[]", '{"version":1,"size":-1}', '{"version":1,"parts":[7]}'])
def test_a_spoilt_index_is_begun_anew(page: Page, server: ModelServer, text: str) -> None:
    what = bundled("m.gguf", DATA[:5000]) | {"base": server.url}
    server.files["m.gguf"] = Served(DATA[:5000])
    run(page, READ, what)
    run(page, SPOIL, {"file": "index.json", "how": "text", "text": text})
    assert run(page, "return (await cache.listCached())[0].bytes;") == 0
    server.asked.clear()
    assert run(page, READ, what)[0] == sha256(DATA[:5000])
    assert len(server.asked) == 1


def test_listing_and_removing(page: Page, server: ModelServer) -> None:
    for name in ("one.gguf", "two.gguf"):
        server.files[name] = Served(DATA[:5000] if name == "one.gguf" else DATA[:6000])
    whats = [bundled(name, served.data) | {"base": server.url} for name, served in server.files.items()]
    script = """
        const [unread, one, two] = await Promise.all(given.map((what) => open(what)));
        await one.download();
        await two.read(0, 1);
        const before = await cache.listCached();
        const inUse = await failure(cache.removeCached(given[1].files[0].sha256));
        for (const each of [unread, one, two]) each.close();
        await new Promise((resolve) => setTimeout(resolve, 50));
        for (const each of given.slice(1)) await cache.removeCached(each.files[0].sha256);
        await cache.removeCached("unknown");
        return [before, inUse, await cache.listCached(), await cache.storageEstimate()];
    """
    before, in_use, after, estimate = run(page, script, whats)
    assert {entry["name"]: (entry["bytes"], entry["size"], entry["complete"]) for entry in before} == {
        "m.gguf": (0, SIZE, False),
        "one.gguf": (5000, 5000, True),
        "two.gguf": (6000, 6000, True),
    }
    assert in_use[:2] == ["SourceError", "in_use"] and "is being loaded" in in_use[2]
    assert [entry["name"] for entry in after] == ["m.gguf"]
    assert estimate["quota"] > 0 and estimate["persistent"] in (True, False)


def test_the_least_recently_used_makes_room(page: Page, server: ModelServer, context: BrowserContext) -> None:
    data = {name: DATA[i * 1000 : i * 1000 + (3 << 20)] for i, name in enumerate(("a", "b", "c", "d"))}
    server.files = {name: Served(content) for name, content in data.items()}
    whats = {name: bundled(name, content) | {"base": server.url} for name, content in data.items()}
    for name in "abc":
        run(page, READ, whats[name])
        page.wait_for_timeout(5)
    run(page, READ, whats["a"])
    held = "window.held = await open(given); await window.held.read(0, 1);"
    run(page, held, whats["b"])
    page.wait_for_timeout(5)
    run(page, READ, whats["a"])
    _set_quota(page, context, 11 << 20)
    assert run(page, READ, whats["d"])[2] == []
    names = run(page, "return (await cache.listCached()).map((entry) => entry.name);")
    assert names == ["b", "a", "d"], "c was used before a, and b is in use"
    server.asked.clear()
    for name in "bad":
        assert run(page, READ, whats[name])[0] == sha256(data[name])
    assert not server.asked


@pytest.mark.parametrize("ranges", [True, False])
def test_storage_that_is_full(page: Page, server: ModelServer, context: BrowserContext, ranges: bool) -> None:
    """The model comes over the network, with a word on it; nobody else is evicted in vain."""
    server.files = {"small": Served(DATA[:1000]), "m.gguf": Served(DATA, ranges=ranges)}
    run(page, READ, bundled("small", DATA[:1000]) | {"base": server.url})
    what = bundled("m.gguf", DATA) | {"base": server.url}
    _set_quota(page, context, 10 << 20)
    found, events, [warning] = run(page, READ, what)
    assert found == sha256(DATA) and events[-1]["done"] == SIZE
    assert "m.gguf doesn't fit into what this browser lets the page store" in warning
    bytes_of = {entry["name"]: entry["bytes"] for entry in run(page, "return cache.listCached();")}
    assert bytes_of == {"small": 1000, "m.gguf": 0}
    server.asked.clear()
    assert run(page, READ, what)[0] == sha256(DATA)
    assert len(server.asked) == (2 if ranges else 1)


def test_storage_that_is_known_to_be_too_small(page: Page, server: ModelServer) -> None:
    small = "navigator.storage.estimate = async () => ({ quota: 17 << 20, usage: 0 });"
    found, _, [warning] = run(page, small + READ, bundled("m.gguf", DATA) | {"base": server.url})
    assert found == sha256(DATA) and "doesn't fit" in warning
    assert [entry["bytes"] for entry in run(page, "return cache.listCached();")] == [0]


@pytest.mark.parametrize("ranges", [True, False])
def test_a_browser_that_keeps_nothing(page: Page, server: ModelServer, ranges: bool) -> None:
    server.files["m.gguf"].ranges = ranges
    private = 'navigator.storage.getDirectory = async () => { throw new DOMException("no", "SecurityError"); };'
    found, _, [warning] = run(page, private + READ, url_of(server))
    assert found == sha256(DATA) and "keeps no files for this page" in warning
    assert run(page, private + "return [await cache.listCached(), (await cache.storageEstimate()).usage];") == [[], 0]


def test_too_large_for_memory(page: Page, server: ModelServer) -> None:
    """In one piece only, and nowhere to put it."""
    server.files["m.gguf"].ranges = False
    entry: dict[str, Any] = {"path": "m.gguf", "bytes": 600 << 20, "sha256": "0" * 64}
    entry["parts"] = [sha256(DATA[:PART])] * -(-(600 << 20) // PART)
    script = """
        navigator.storage.getDirectory = undefined;
        const s = await open(given);
        return failure(s.read(0, 4));
    """
    what = {"kind": "bundled", "files": [entry], "base": server.url}
    found = run(page, script, what)
    assert found[1] == "file", "the server's length is another"
    server.files["m.gguf"].stated_length = 600 << 20
    found = run(page, script, what)
    assert found[:2] == ["SourceError", "quota"] and "gives it out in one piece only" in found[2]


def test_several_tabs_at_once(context: BrowserContext, page: Page, server: ModelServer) -> None:
    """Two tabs and a worker load the same file: all get it, and what they leave behind is sound."""
    server.files["m.gguf"].delay = 0.002
    what = bundled("m.gguf", DATA) | {"base": server.url}
    other = context.new_page()
    other.goto(server.url)
    start = f"window.found = (async () => {{ {READ} }})(); return null;"
    worker = """
        const code = `
          import { openSource } from "${location.origin}/engine/source.js";
          import { sha256 } from "${location.origin}/engine/digest.js";
          onmessage = async ({ data }) => {
            const [each] = await openSource(data);
            await each.download();
            const bytes = await each.read(0, each.size);
            postMessage(await sha256(bytes));
          };
        `;
        const url = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
        const worker = new Worker(url, { type: "module" });
        window.worked = new Promise((resolve) => { worker.onmessage = ({ data }) => resolve(data); });
        worker.postMessage(given);
        return null;
    """
    run(page, start, what)
    run(other, start, what)
    run(page, worker, what)
    for tab in (page, other):
        assert tab.evaluate("window.found")[0] == sha256(DATA)
    assert page.evaluate("window.worked") == sha256(DATA)
    server.asked.clear()
    assert run(page, READ, what)[0] == sha256(DATA)
    assert not server.asked


def test_a_browser_that_writes_in_workers_alone(page: Page, server: ModelServer) -> None:
    """As Safari before version 26."""
    worker = """
        const code = `
          import { openSource } from "${location.origin}/engine/source.js";
          delete FileSystemFileHandle.prototype.createWritable;
          onmessage = async ({ data }) => {
            const [each] = await openSource(data);
            await each.download();
            const bytes = await each.read(each.size - 3, 3);
            each.close();
            postMessage([[...bytes], each.warnings]);
          };
        `;
        const url = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
        const worker = new Worker(url, { type: "module" });
        worker.postMessage(given);
        return new Promise((resolve) => { worker.onmessage = ({ data }) => resolve(data); });
    """
    what = bundled("m.gguf", DATA) | {"base": server.url}
    for asked in (2, 0):
        server.asked.clear()
        assert run(page, worker, what) == [list(DATA[-3:]), []]
        assert len(server.asked) == asked
    in_page = "delete FileSystemFileHandle.prototype.createWritable; await cache.removeCached(given.files[0].sha256);"
    found, _, [warning] = run(page, in_page + READ, what)
    assert found == sha256(DATA) and "keeps no files for this page" in warning


def test_storage_that_is_cleared_meanwhile(page: Page, server: ModelServer) -> None:
    script = """
        const s = await open(given);
        await s.download();
        const before = await hash(s);
        const root = await navigator.storage.getDirectory();
        await root.removeEntry("wgpu-engine-models", { recursive: true });
        const found = [before, await hash(s)];
        s.close();
        return found;
    """
    what = bundled("m.gguf", DATA) | {"base": server.url}
    assert run(page, script, what) == [sha256(DATA)] * 2
    assert run(page, READ, what)[0] == sha256(DATA)


def test_what_a_crash_leaves_is_cleared_away(page: Page, server: ModelServer) -> None:
    what = bundled("m.gguf", DATA) | {"base": server.url}
    names = """
        const root = await navigator.storage.getDirectory();
        const models = await root.getDirectoryHandle("wgpu-engine-models");
        const [entry] = await Array.fromAsync(models.values());
    """
    leave = (
        names
        + """
        for (const name of ["7", "1.crswap"]) await entry.getFileHandle(name, { create: true });
        const index = await entry.getFileHandle("index.json");
        const values = JSON.parse(await (await index.getFile()).text());
        values.parts[1] = null;
        const stream = await index.createWritable();
        await stream.write(JSON.stringify(values));
        await stream.close();
    """
    )
    run(page, READ, what)
    run(page, leave)
    server.asked.clear()
    run(page, "(await open(given)).close();", what)
    assert run(page, names + "return (await Array.fromAsync(entry.keys())).sort();") == ["0", "index.json"]
    assert run(page, READ, what)[0] == sha256(DATA) and len(server.asked) == 1


def test_no_more_than_a_part_is_kept_in_memory(page: Page, server: ModelServer) -> None:
    script = """
        const s = await open(given);
        await s.download();
        for (const at of [0, s.size - 5, 1 << 20]) await s.read(at, 5);
        return [...s._kept.values()].reduce((sum, bytes) => sum + bytes.buffer.byteLength, 0);
    """
    what = bundled("m.gguf", DATA) | {"base": server.url}
    assert run(page, script, what) <= PART


def _set_quota(page: Page, context: BrowserContext, quota: int) -> None:
    session = context.new_cdp_session(page)
    origin = page.evaluate("location.origin")
    session.send("Storage.overrideQuotaForOrigin", {"origin": origin, "quotaSize": quota})
