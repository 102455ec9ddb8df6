"""Downloads that can't be, and what they say."""

import shutil
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.files.downloads import interrupt_after, left
from wgpu_engine.errors import DownloadError, UnsupportedModelError
from wgpu_engine.files import fetch
from wgpu_engine.files.download import pull
from wgpu_engine.files.store import Store


@pytest.mark.parametrize(
    ("status", "match"), [(401, "needs a login"), (403, "needs a login"), (410, "isn't there"), (400, "400")]
)
def test_says_why_it_was_refused(store: Store, server: Any, status: int, match: str) -> None:
    server.faults = [status]
    with pytest.raises(DownloadError, match=match):
        pull(f"{server.url}/m.gguf", store)
    assert len(server.requests) == 1
    assert left(store) == []


def test_says_that_there_is_no_such_file(store: Store, server: Any) -> None:
    with pytest.raises(DownloadError, match=r"/m.gguf isn't there \(404\): check the spelling"):
        pull(f"{server.url}/m.gguf", store)


def test_says_that_there_is_no_network(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        # Long waits would show that it was tried in vain.
        monkeypatch.setattr(fetch, "BACKOFF", (60.0, 60.0))
        with pytest.raises(DownloadError, match=r"127.0.0.1 can't be reached \(.+\): check the network connection"):
            pull(f"http://127.0.0.1:{port}/m.gguf", store)
    with pytest.raises(DownloadError, match=r"no-such-host.invalid can't be reached \(.+\): check the network"):
        pull("http://no-such-host.invalid/m.gguf", store)


def test_says_that_there_is_no_network_any_more(store: Store, server: Any, model: bytes) -> None:
    server.files["/m.gguf"] = model
    server.headers["/m.gguf"] = {"ETag": '"v1"'}
    with pytest.raises(KeyboardInterrupt):
        pull(f"{server.url}/m.gguf", store, interrupt_after(1 << 20))
    server.shutdown()
    server.server_close()
    with pytest.raises(DownloadError, match=r"127.0.0.1 can't be reached"):
        pull(f"{server.url}/m.gguf", store)
    assert left(store) == ["m.gguf.part", "m.gguf.part.json"]


@pytest.mark.parametrize(("name", "value"), [("ALL_PROXY", "nonsense://x"), ("SSL_CERT_FILE", "/absent/file.pem")])
def test_says_that_the_environment_is_wrong(
    store: Store, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(DownloadError, match="check HTTPS_PROXY, ALL_PROXY and SSL_CERT_FILE"):
        pull("https://example.invalid/m.gguf", store)


@pytest.mark.parametrize("page", [b"<!DOCTYPE html><html>log in first</html>", b"<html>" + bytes(5 << 20)])
def test_refuses_a_web_page_early(store: Store, server: Any, page: bytes) -> None:
    server.files["/m.gguf"] = page
    furthest = 0

    def progress(stage: str, done: int, total: int | None) -> None:
        nonlocal furthest
        furthest = max(furthest, done)

    with pytest.raises(DownloadError, match=r"can't be used: m.gguf is not a GGUF file: it is a web page"):
        pull(f"{server.url}/m.gguf", store, progress)
    assert furthest <= 2 << 20
    assert left(store) == []


def test_refuses_a_truncated_model_early(store: Store, server: Any, model: bytes) -> None:
    server.files["/m.gguf"] = model[:-1]
    with pytest.raises(DownloadError, match="truncated: 1 bytes are missing"):
        pull(f"{server.url}/m.gguf", store)
    assert left(store) == []


def test_refuses_an_unsupported_model_early(store: Store, server: Any, draft: Any) -> None:
    server.files["/m.gguf"] = draft(data=bytes(84)).tensor("t", (256,), 9).build()
    with pytest.raises(UnsupportedModelError, match=r"m.gguf can't run: the tensor 't' is of type Q8_1"):
        pull(f"{server.url}/m.gguf", store)
    assert left(store) == []


def test_leaves_room_on_the_disk(store: Store, server: Any, model: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    server.files["/m.gguf"] = model
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(1 << 30, 1 << 30, 1 << 20))
    with pytest.raises(DownloadError, match=r"4 MB more are needed in .* and 1 MB are free: .*WGPU_ENGINE_HOME"):
        pull(f"{server.url}/m.gguf", store)


def test_says_that_the_store_cannot_be_written(tmp_path: Path, server: Any, model: bytes) -> None:
    server.files["/m.gguf"] = model
    (tmp_path / "file").touch()
    with pytest.raises(DownloadError, match=r"can't be written .*WGPU_ENGINE_HOME"):
        pull(f"{server.url}/m.gguf", Store(tmp_path / "file"))
