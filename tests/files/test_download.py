import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from tests.files.downloads import interrupt_after, left, sha256
from wgpu_engine.errors import DownloadError
from wgpu_engine.files import fetch
from wgpu_engine.files.download import pull
from wgpu_engine.files.store import Record, Store, partial_path, record_path


def test_pulls_a_url(store: Store, server: Any, model: bytes) -> None:
    server.files["/m.gguf"] = model
    seen: list[tuple[str, int, int | None]] = []
    path = pull(f"{server.url}/m.gguf", store, lambda *report: seen.append(report))
    assert path == store.path_for("m")
    assert path.read_bytes() == model
    assert left(store) == ["m.gguf", "m.gguf.json"]
    (stored,) = store.models()
    assert (stored.sha256, stored.source, stored.size) == (sha256(model), f"{server.url}/m.gguf", len(model))
    assert seen[0] == ("download", 0, len(model))
    assert ("download", len(model), len(model)) in seen
    assert seen[-1] == ("verify", len(model), len(model))


def test_pulls_only_once(store: Store, server: Any, model: bytes) -> None:
    server.files["/m.gguf"] = model
    pull(f"{server.url}/m.gguf", store)
    assert pull(f"{server.url}/m.gguf", store) == store.path_for("m")
    assert len(server.requests) == 1


def test_fetches_a_damaged_file_again(store: Store, server: Any, model: bytes) -> None:
    server.files["/m.gguf"] = model
    path = pull(f"{server.url}/m.gguf", store)
    path.write_bytes(model[:-1] + bytes([model[-1] ^ 1]))
    assert pull(f"{server.url}/m.gguf", store).read_bytes() == model


@pytest.mark.parametrize("validator", [{"ETag": '"v1"'}, {"ETag": '"v1"', "Last-Modified": "whatever"}])
def test_resumes_after_an_interruption(store: Store, server: Any, model: bytes, validator: dict[str, str]) -> None:
    server.files["/m.gguf"] = model
    server.headers["/m.gguf"] = validator
    with pytest.raises(KeyboardInterrupt):
        pull(f"{server.url}/m.gguf", store, interrupt_after(1 << 20))
    assert left(store) == ["m.gguf.part", "m.gguf.part.json"]
    have = partial_path(store.path_for("m")).stat().st_size
    assert 1 << 20 <= have < len(model)
    assert pull(f"{server.url}/m.gguf", store).read_bytes() == model
    headers = server.requests[-1][1]
    assert (headers["range"], headers["if-range"]) == (f"bytes={have}-", '"v1"')
    assert left(store) == ["m.gguf", "m.gguf.json"]


def test_starts_over_when_the_file_changed(store: Store, server: Any, model: bytes, draft: Any) -> None:
    server.files["/m.gguf"] = model
    server.headers["/m.gguf"] = {"ETag": '"v1"'}
    with pytest.raises(KeyboardInterrupt):
        pull(f"{server.url}/m.gguf", store, interrupt_after(1 << 20))
    changed = draft(data=bytes(2 << 20)).tensor("other", (1 << 19,)).build()
    server.files["/m.gguf"] = changed
    server.headers["/m.gguf"] = {"ETag": '"v2"'}
    assert pull(f"{server.url}/m.gguf", store).read_bytes() == changed


@pytest.mark.parametrize("headers", [{}, {"ETag": 'W/"weak"'}])
def test_starts_over_when_the_server_cannot_vouch_for_the_file(
    store: Store, server: Any, model: bytes, headers: dict[str, str]
) -> None:
    server.files["/m.gguf"] = model
    server.headers["/m.gguf"] = headers
    with pytest.raises(KeyboardInterrupt):
        pull(f"{server.url}/m.gguf", store, interrupt_after(1 << 20))
    assert pull(f"{server.url}/m.gguf", store).read_bytes() == model
    assert "range" not in server.requests[-1][1]


def test_starts_over_from_another_source(store: Store, server: Any, model: bytes) -> None:
    server.files |= {"/one/m.gguf": bytes(model), "/two/m.gguf": model}
    server.headers |= {path: {"ETag": '"same"'} for path in server.files}
    with pytest.raises(KeyboardInterrupt):
        pull(f"{server.url}/one/m.gguf", store, interrupt_after(1 << 20))
    pull(f"{server.url}/two/m.gguf", store)
    assert "range" not in server.requests[-1][1]


def test_finishes_what_was_only_not_checked(store: Store, server: Any, model: bytes) -> None:
    server.files["/m.gguf"] = model
    server.headers["/m.gguf"] = {"ETag": '"v1"'}
    with pytest.raises(KeyboardInterrupt):
        pull(f"{server.url}/m.gguf", store, interrupt_after(len(model)))
    assert pull(f"{server.url}/m.gguf", store).read_bytes() == model
    assert len(server.requests) == 1


@pytest.mark.parametrize("ranges", [True, False])
def test_goes_on_when_the_server_dies_midway(store: Store, server: Any, model: bytes, ranges: bool) -> None:
    server.files["/m.gguf"] = model
    server.headers["/m.gguf"] = {"ETag": '"v1"'}
    server.ranges = ranges
    server.faults = ["die", "die"]
    assert pull(f"{server.url}/m.gguf", store).read_bytes() == model
    asked = [headers.get("range") for _, headers in server.requests]
    assert asked == [None, f"bytes={len(model) // 2}-", asked[2]]
    assert ranges == (asked[2] == f"bytes={len(model) - len(model) // 4}-")


def test_gives_up_on_a_server_that_always_dies(store: Store, server: Any, model: bytes) -> None:
    server.files["/m.gguf"] = model
    server.headers["/m.gguf"] = {"ETag": '"v1"'}
    server.ranges = False
    server.faults = ["die"] * 100
    with pytest.raises(DownloadError, match=r"127.0.0.1 was interrupted after 2.1 MB \(.*\): pull again to resume it"):
        pull(f"{server.url}/m.gguf", store)
    assert len(server.requests) == 1 + len(fetch.BACKOFF)
    server.faults = []
    server.ranges = True
    assert pull(f"{server.url}/m.gguf", store).read_bytes() == model
    assert server.requests[-1][1]["range"] == f"bytes={len(model) // 2}-"


@pytest.mark.parametrize("status", [429, 500, 503])
def test_tries_again_when_the_server_is_busy(store: Store, server: Any, model: bytes, status: int) -> None:
    server.files["/m.gguf"] = model
    server.faults = [status, status]
    assert pull(f"{server.url}/m.gguf", store).exists()
    server.faults = [status] * 100
    with pytest.raises(DownloadError, match=f"can't be reached .the server answers {status}"):
        pull(f"{server.url}/other.gguf", store)


def test_lives_with_a_file_that_became_shorter(store: Store, server: Any, model: bytes, draft: Any) -> None:
    server.files["/m.gguf"] = model
    server.headers["/m.gguf"] = {"ETag": '"v1"'}
    with pytest.raises(KeyboardInterrupt):
        pull(f"{server.url}/m.gguf", store, interrupt_after(1 << 20))
    server.files["/m.gguf"] = draft(data=bytes(64)).tensor("t", (16,)).build()
    pull(f"{server.url}/m.gguf", store)
    assert store.path_for("m").read_bytes() == server.files["/m.gguf"]


def test_checks_the_hash_in_the_address(store: Store, server: Any, model: bytes) -> None:
    server.files["/m.gguf"] = model
    pull(f"{server.url}/m.gguf#sha256={sha256(model)}", store)
    server.files["/n.gguf"] = model
    with pytest.raises(DownloadError, match=f"its SHA-256 is {sha256(model)} instead of {'0' * 64}, so it was deleted"):
        pull(f"{server.url}/n.gguf#sha256={'0' * 64}", store)
    assert left(store) == ["m.gguf", "m.gguf.json"]


def test_does_not_mix_up_files_of_one_name(store: Store, server: Any, model: bytes) -> None:
    server.files |= {"/one/m.gguf": model, "/two/m.gguf": model}
    pull(f"{server.url}/one/m.gguf", store)
    with pytest.raises(
        DownloadError, match=r"another m.gguf, from .*/one/m.gguf: remove it first with `wgpu-engine rm m`"
    ):
        pull(f"{server.url}/two/m.gguf", store)
    record_path(store.path_for("m")).unlink()
    with pytest.raises(DownloadError, match="was put there by hand"):
        pull(f"{server.url}/one/m.gguf", store)
    pull(f"{server.url}/one/m.gguf#sha256={sha256(model)}", store)
    assert store.record("m.gguf") == Record(len(model), sha256(model), f"{server.url}/one/m.gguf")


def test_pulls_all_parts(store: Store, server: Any, draft: Any) -> None:
    for number in range(3):
        made = draft(data=bytes(32)).put("split.no", "u16", number).put("split.count", "u16", 3)
        server.files[f"/m-{number + 1:05}-of-00003.gguf"] = made.tensor(f"t{number}", (8,)).build()
    stages = set()
    path = pull(f"{server.url}/m-00002-of-00003.gguf", store, lambda stage, done, total: stages.add(stage))
    assert path.name == "m-00001-of-00003.gguf"
    assert len(store.models()) == 1
    assert "download part 3 of 3" in stages
    del server.files["/m-00003-of-00003.gguf"]
    store.remove("m")
    with pytest.raises(DownloadError, match=r"m-00003-of-00003.gguf isn't there"):
        pull(f"{server.url}/m-00001-of-00003.gguf", store)


PULLER = """
import sys
from pathlib import Path
from wgpu_engine.files import fetch
from wgpu_engine.files.download import pull
from wgpu_engine.files.store import Store

def progress(stage, done, total):
    print(stage, done, flush=True)
    sys.stdin.readline()

pull(sys.argv[1], Store(Path(sys.argv[2])), progress)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="sends signals")
@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGINT])
def test_survives_being_killed(store: Store, server: Any, model: bytes, stop: signal.Signals) -> None:
    server.files["/m.gguf"] = model
    server.headers["/m.gguf"] = {"ETag": '"v1"'}
    command = [sys.executable, "-c", PULLER, f"{server.url}/m.gguf", str(store.home)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdin is not None and process.stdout is not None
        for line in process.stdout:
            if int(line.split()[1]) >= 1 << 20:
                break
            process.stdin.write(b"\n")
            process.stdin.flush()
        with pytest.raises(DownloadError, match="is being pulled by another process"):
            pull(f"{server.url}/m.gguf", store)
        process.send_signal(stop)
        deadline = time.monotonic() + 30
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
    assert process.returncode
    assert store.models() == []
    assert pull(f"{server.url}/m.gguf", store).read_bytes() == model
    assert "range" in server.requests[-1][1]
