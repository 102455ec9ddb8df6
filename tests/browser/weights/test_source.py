"""Models from servers and files: ranges, caching, and everything that can go wrong on the way."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from .servers import ModelServer, Served
from .sources import DATA, PART, READ, SIZE, bundled, run, sha256, url_of


def test_a_bundled_file_is_fetched_once(page: Page, server: ModelServer) -> None:
    entry = bundled("m.gguf", DATA)
    entry["base"] = server.url
    found, events, warnings = run(page, READ, entry)
    assert (found, warnings) == (sha256(DATA), [])
    assert [asked for _, asked in server.asked] == [
        f"bytes={start}-{min(start + PART, SIZE) - 1}" for start in range(0, SIZE, PART)
    ]
    assert all(event["total"] == SIZE and event["cached"] == 0 for event in events)
    done = [event["done"] for event in events]
    assert done == sorted(done) and done[-1] == SIZE
    server.asked.clear()
    found, events, _ = run(page, READ, entry)
    assert found == sha256(DATA) and not server.asked
    assert events[0]["cached"] == events[0]["done"] == SIZE


def test_an_address_is_asked_for_changes_alone(page: Page, server: ModelServer) -> None:
    url = {"kind": "url", "urls": [f"{server.url}/m.gguf"]}
    assert run(page, READ, url)[0] == sha256(DATA)
    server.asked.clear()
    found, events, _ = run(page, READ, url)
    assert found == sha256(DATA) and events[0]["cached"] == SIZE
    assert server.asked == [("m.gguf", "bytes=0-3")]
    server.down = True
    assert run(page, READ, url)[0] == sha256(DATA), "offline"
    server.down = False
    other = DATA[::-1]
    server.files["m.gguf"] = Served(other, etag='"two"')
    found, events, _ = run(page, READ, url)
    assert found == sha256(other) and events[0]["cached"] == 0
    [kept] = run(page, "return cache.listCached();")
    assert kept["complete"] and kept["size"] == SIZE


@pytest.mark.parametrize("kind", ["bundled", "url"])
def test_a_server_without_ranges(page: Page, server: ModelServer, kind: str) -> None:
    server.files["m.gguf"].ranges = False
    what = bundled("m.gguf", DATA) | {"base": server.url} if kind == "bundled" else url_of(server)
    last = "const s = await open(given); const bytes = await s.read(s.size - 5, 5);"
    assert bytes(run(page, last + "return [...bytes];", what)) == DATA[-5:]
    asked = len(server.asked)
    found, events, _ = run(page, READ, what)
    assert found == sha256(DATA) and events[-1]["done"] == SIZE
    assert len(server.asked) == asked + (kind == "url"), "what it passed was kept"


def test_a_cut_stream_begins_anew_and_perhaps_compressed(page: Page, server: ModelServer) -> None:
    """Browsers ask for ranges as they are, for whole files compressed: lengths are then of something else."""
    server.files["m.gguf"] = Served(bytes(SIZE), gzipped=True, ranges=False, cuts=[PART + 1000])
    found, events, _ = run(page, READ, bundled("m.gguf", bytes(SIZE)) | {"base": server.url})
    assert found == sha256(bytes(SIZE)) and events[-1]["done"] == SIZE
    assert [asked is None for _, asked in server.asked] == [False, True]


def test_a_cut_download_goes_on(page: Page, server: ModelServer) -> None:
    server.files["m.gguf"].cuts = [3 << 20, 1 << 20]
    found, events, _ = run(page, READ, url_of(server))
    assert found == sha256(DATA)
    starts = [int(asked.removeprefix("bytes=").split("-")[0]) for _, asked in server.asked if asked]
    assert starts[:2] == [0, 0] and 0 < starts[2] < starts[3] < PART and starts[4:] == [PART]
    done = [event["done"] for event in events]
    assert done == sorted(done)


def test_a_connection_that_stands_still_is_given_up(page: Page, server: ModelServer) -> None:
    server.files["m.gguf"].stalls = [0, 5]
    assert run(page, READ, url_of(server))[0] == sha256(DATA)
    assert [asked for _, asked in server.asked[1:3]] == [f"bytes=0-{PART - 1}"] * 2


def test_a_later_load_goes_on_where_the_network_failed(page: Page, server: ModelServer) -> None:
    what = bundled("m.gguf", DATA) | {"base": server.url}
    server.files["m.gguf"].cuts = [SIZE, 1 << 20]
    page.route("**/m.gguf", lambda route: route.abort() if len(server.asked) > 1 else route.continue_())
    name, kind, message = run(page, "const s = await open(given); return failure(s.download());", what)
    assert (name, kind) == ("SourceError", "network") and "load the model again" in message
    page.unroute("**/m.gguf")
    server.asked.clear()
    page.reload()
    found, events, _ = run(page, READ, what)
    assert found == sha256(DATA) and events[0]["cached"] == PART
    assert [asked for _, asked in server.asked] == [f"bytes={PART}-{SIZE - 1}"]


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ({"status": [404]}, "address", "m.gguf isn't on localhost"),
        ({"status": [403]}, "address", "needs a login"),
        ({"status": [418]}, "address", "answers 418 instead of m.gguf"),
        ({"content_type": "text/html; charset=utf-8"}, "file", "a web page instead of m.gguf"),
        ({"shift": 3}, "network", "gives out other bytes of m.gguf than were asked for"),
        ({"stated": SIZE + 1}, "file", f"m.gguf has {SIZE + 1} bytes on the server instead of {SIZE}"),
        ({"data": DATA[:PART]}, "file", f"m.gguf has {PART} bytes on the server instead of {SIZE}"),
        ({"data": DATA[:PART], "ranges": False}, "file", f"m.gguf has {PART} bytes on the server instead of {SIZE}"),
        ({"data": DATA[::-1]}, "file", "m.gguf on the server is damaged or not the file that this page was made for"),
        (
            {"data": DATA[::-1], "ranges": False},
            "file",
            "m.gguf on the server is damaged or not the file that this page was made for",
        ),
    ],
)
def test_servers_that_give_out_something_else(
    page: Page, server: ModelServer, change: dict[str, Any], kind: str, message: str
) -> None:
    server.files["m.gguf"] = Served(**({"data": DATA} | change))
    what = bundled("m.gguf", DATA) | {"base": server.url}
    found = run(page, "const s = await open(given); return failure(s.read(0, 4));", what)
    assert found[:2] == ["SourceError", kind] and message in found[2]
    assert len(server.asked) <= 3


def test_what_passes_is_tried_again(page: Page, server: ModelServer) -> None:
    server.files["m.gguf"].status = [503, 429]
    assert run(page, READ, url_of(server))[0] == sha256(DATA)


def test_addresses_that_are_none(page: Page, server: ModelServer) -> None:
    for url, message in (("ftp://x/m.gguf", "begins with https://"), ("http://", "isn't an address")):
        found = run(page, "return failure(open(given));", {"kind": "url", "urls": [url]})
        assert found[:2] == ["SourceError", "address"] and message in found[2]


def test_other_sites(page: Page, server: ModelServer) -> None:
    with ModelServer() as other:
        other.files["m.gguf"] = Served(DATA)
        what = {"kind": "url", "urls": [f"{other.url}/m.gguf"]}
        name, kind, message = run(page, "return failure(open(given));", what)
        assert (name, kind) == ("SourceError", "network") and "(CORS)" in message
        # a try more or less would not help
        assert len(other.asked) == 1
        for exposed in (True, False):
            other.files["m.gguf"] = Served(DATA, cors=True, exposed=exposed)
            assert run(page, READ, what)[0] == sha256(DATA)
        server.files["m.gguf"] = Served(b"", redirect=what["urls"][0], cors=True)
        assert run(page, READ, url_of(server))[0] == sha256(DATA)


def test_parts_of_a_split_model_are_found(page: Page, server: ModelServer) -> None:
    parts = [DATA[:1000], DATA[1000:3000]]
    for number, data in enumerate(parts, 1):
        server.files[f"a/m-{number:05}-of-00002.gguf"] = Served(data)
    script = """
        const all = await source.openSource(given, { onProgress });
        const hashes = [];
        for (const each of all) hashes.push(await hash(each));
        const known = (await cache.listCached()).map(({ id }) => id);
        const ids = await (await import("/engine/model_address.js")).cacheIds(given.urls[0]);
        return [all.map((each) => each.name), hashes, events.at(-1), known.sort(), ids.sort()];
    """
    names, hashes, last, known, ids = run(
        page, script, {"kind": "url", "urls": [f"{server.url}/a/m-00002-of-00002.gguf?key=1#part"]}
    )
    assert names == ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"]
    assert hashes == [sha256(data) for data in parts]
    assert (last["done"], last["total"]) == (3000, 3000)
    assert known == ids and len(ids) == 2
    del server.files["a/m-00001-of-00002.gguf"]
    found = run(
        page, "return failure(open(given));", {"kind": "url", "urls": [f"{server.url}/a/m-00002-of-00003.gguf"]}
    )
    assert found[1] == "address" and "m-00001-of-00003.gguf isn't on" in found[2]


def test_the_page_about_a_file_stands_for_the_file(page: Page) -> None:
    script = """
        const { partAddresses } = await import("/engine/model_address.js");
        return given.map((each) => partAddresses(`https://huggingface.co/${each}`));
    """
    found = run(
        page, script, ["a/b/blob/main/x/blob/m.gguf#L1", "a/b/resolve/main/m-00001-of-00002.gguf?download=true"]
    )
    home = "https://huggingface.co/a/b/resolve/main/"
    assert found[0] == [f"{home}x/blob/m.gguf"]
    assert found[1] == [f"{home}m-0000{number}-of-00002.gguf?download=true" for number in (1, 2)]


def test_files_of_the_visitor(page: Page, tmp_path: Path) -> None:
    path = tmp_path / "mine.gguf"
    path.write_bytes(DATA)
    page.set_content("<input type=file>")
    page.set_input_files("input", path)
    script = """
        const s = await open({ kind: "file", files: [...document.querySelector("input").files] });
        const found = [s.name, await hash(s), await failure(s.read(s.size, 1)), await cache.listCached()];
        given && (await window.spoil());
        const changed = await failure(s.read(0, 4));
        s.close();
        return [...found, changed, await failure(s.read(0, 4))];
    """
    page.expose_function("spoil", lambda: path.write_bytes(b"another"))
    name, found, beyond, cached, changed, closed = run(page, script, True)
    assert (name, found, cached) == ("mine.gguf", sha256(DATA), [])
    assert beyond[1] == "file" and "is truncated or damaged" in beyond[2]
    assert changed[1] == "file" and "choose it again" in changed[2]
    assert closed[1] == "request"


def test_loading_can_be_stopped(page: Page, server: ModelServer) -> None:
    server.files["m.gguf"].delay = 0.05
    script = """
        const stop = new AbortController();
        const s = await open(given, { signal: stop.signal });
        setTimeout(() => stop.abort(), 200);
        const started = performance.now();
        const stopped = await failure(s.download());
        return [stopped[0], performance.now() - started, (await failure(s.read(0, 4)))[0]];
    """
    name, took, after = run(page, script, url_of(server))
    assert name == after == "AbortError" and took < 2000


def test_ranges_that_are_none(page: Page, server: ModelServer) -> None:
    script = """
        const s = await open(given);
        const empty = (await s.read(s.size, 0)).length;
        const failed = [];
        for (const [at, length] of [[-1, 2], [0, -1], [s.size, 1], [0, s.size + 1], [NaN, 1]]) {
          failed.push((await failure(s.read(at, length)))?.[1]);
        }
        return [empty, failed];
    """
    assert run(page, script, url_of(server)) == [0, ["file"] * 5]
