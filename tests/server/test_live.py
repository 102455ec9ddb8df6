"""A server on a port: clients that leave, dawdle and crowd, and a device that goes away."""

import json
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.server.conftest import CTX, QUEUE, SLOTS, Live, greedy, wait_for
from wgpu_engine.engine.service import Service
from wgpu_engine.server import completions

LONG = CTX - 20


def raw(body: bytes, *, length: int | None = None, route: str = "/v1/completions") -> bytes:
    size = len(body) if length is None else length
    return f"POST {route} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n\r\n".encode() + body


def stream_body(**fields: Any) -> bytes:
    return json.dumps(greedy(prompt="the tin", max_tokens=LONG, stream=True, **fields)).encode()


def text(live: Live, **fields: Any) -> str:
    answer = httpx.post(
        f"{live.url}/v1/completions", json=greedy(prompt="the tin", **{"max_tokens": 12, **fields}), timeout=60
    )
    assert answer.status_code == 200, answer.text
    found: str = answer.json()["choices"][0]["text"]
    return found


def hold_steps(live: Live, patch: pytest.MonkeyPatch) -> threading.Event:
    """Keeps the engine from going on until the event is set."""
    go = threading.Event()
    step = live.service.scheduler.step

    async def held() -> None:
        assert go.wait(60)
        await step()

    patch.setattr(live.service.scheduler, "step", held)
    return go


def test_clients_that_vanish_free_their_slots(live: Live) -> None:
    wanted = text(live)
    for reset in (False, True):
        for _ in range(2 * (SLOTS + QUEUE)):
            with live.connection() as client:
                client.sendall(raw(stream_body()))
                assert client.recv(4096)
                if reset:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        live.settle()
    # one that waits for a whole answer
    with live.connection() as client:
        client.sendall(raw(json.dumps(greedy(prompt="the", max_tokens=LONG)).encode()))
        wait_for(lambda: live.service.running)
    live.settle()
    assert live.service.scheduler.engine.blocks.used == 0
    assert text(live) == wanted


def test_half_a_request_holds_up_nobody(live: Live) -> None:
    wanted = text(live)
    halves = (raw(b'{"prompt": "a', length=500), raw(b"", length=1 << 40), b"POST /v1/comp", raw(stream_body())[:-1])
    for half in halves:
        with live.connection() as client:
            client.sendall(half)
            assert text(live) == wanted
    live.settle()
    for wrong in (b"\0\1\2\r\n\r\n", b"GET / HTP\r\n\r\n", raw(b"", length=-5), b"GET /" + b"a" * 100_000):
        with live.connection() as client:
            client.sendall(wrong)
            client.shutdown(socket.SHUT_WR)
            assert client.recv(4096)[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 414", b"HTTP/1.1 431", b"")
    assert text(live) == wanted


def test_a_slow_reader_gets_everything_and_holds_no_slot(live: Live) -> None:
    with live.connection() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        client.sendall(raw(stream_body()))
        wait_for(lambda: live.service.running)
        live.settle()
        assert text(live)
        got = b""
        while b"[DONE]" not in got:
            piece = client.recv(1000)
            assert piece
            got += piece
    pieces = [json.loads(line[6:]) for line in got.split(b"\n") if line.startswith(b"data: {")]
    whole = text(live, max_tokens=LONG)
    assert "".join(each["choices"][0]["text"] for each in pieces) == whole


def test_ten_megabytes(live: Live) -> None:
    big = json.dumps({"prompt": "a" * (10 << 20)}).encode()
    assert httpx.post(f"{live.url}/v1/completions", content=big, timeout=60).status_code == 413
    with live.connection() as client:
        client.sendall(raw(big))
        assert client.recv(4096).startswith(b"HTTP/1.1 413")
    assert text(live)


def test_a_crowd(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = text(live)

    def ask(stream: bool) -> httpx.Response:
        body = greedy(prompt="the tin", max_tokens=12, stream=stream)
        return httpx.post(f"{live.url}/v1/completions", json=body, timeout=60)

    with monkeypatch.context() as patch, ThreadPoolExecutor(64) as pool:
        go = hold_steps(live, patch)
        fitting = [pool.submit(ask, False) for _ in range(SLOTS + QUEUE)]
        wait_for(lambda: len(live.service._requests) == SLOTS + QUEUE)
        refused = [each.result() for each in [pool.submit(ask, stream) for stream in (False, True) * 3]]
        figures = httpx.get(f"{live.url}/metrics").text
        health = httpx.get(f"{live.url}/health").status_code
        go.set()
        answers = [each.result() for each in fitting]
    assert health == 200, "the event loop is free meanwhile"
    assert "wgpu_engine_requests_waiting" in figures
    for each in refused:
        assert each.status_code == 503 and int(each.headers["retry-after"]) > 0
        assert each.json()["error"]["code"] == "overloaded"
    assert {each.json()["choices"][0]["text"] for each in answers} == {wanted}
    live.settle()


def test_a_stream_that_has_to_wait_is_kept_open(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """By comments, from the time on that proxies might give it up; also what goes wrong is an event then."""
    wanted = text(live)
    monkeypatch.setattr(completions, "PING_S", 0.2)
    body = greedy(prompt="the tin", max_tokens=12, stream=True)
    for fails in (False, True):
        with monkeypatch.context() as patch:
            go = hold_steps(live, patch)
            with httpx.stream("POST", f"{live.url}/v1/completions", json=body, timeout=60) as response:
                assert response.status_code == 200
                lines = response.iter_lines()
                pings = 0
                while pings < 3:
                    pings += next(lines).startswith(": ping")
                if fails:
                    patch.setattr(live.service.scheduler.engine, "step", None)
                go.set()
                found = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
        if fails:
            assert found[-1]["error"]["type"] == "server_error"
        else:
            assert "".join(each["choices"][0]["text"] for each in found) == wanted
    live.settle()
    # who leaves meanwhile leaves nothing behind
    with monkeypatch.context() as patch:
        go = hold_steps(live, patch)
        for wait_s in (0.0, 0.5):
            with live.connection() as client:
                client.sendall(raw(stream_body()))
                wait_for(lambda: live.service._requests)
                time.sleep(wait_s)
        go.set()
    live.settle()
    assert live.service.scheduler.engine.blocks.used == 0
    assert text(live) == wanted


def test_a_device_that_is_lost_amid_a_stream(live: Live, lose: Callable[[Service], None]) -> None:
    wanted = text(live)
    lines: list[str] = []
    with httpx.stream("POST", f"{live.url}/v1/completions", content=stream_body(), timeout=60) as response:
        for line in response.iter_lines():
            if not lines:
                lose(live.service)
            lines.append(line)
    last = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")][-1]
    assert "[DONE]" not in "".join(lines)
    assert last["error"]["code"] == "device" and last["error"]["type"] == "server_error"
    assert text(live) == wanted


def test_bodies_that_are_too_large_are_answered_before_they_are_whole(live: Live) -> None:
    refused = b"HTTP/1.1 413"
    with live.connection() as client:
        client.sendall(raw(b"{", length=9 << 20))
        assert client.recv(4096).startswith(refused)
    with live.connection() as client:
        client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(9):
            client.sendall(b"100000\r\n" + b"a" * (1 << 20) + b"\r\n")
        assert client.recv(4096).startswith(refused)
    # one that looks only after sending everything
    assert httpx.post(f"{live.url}/v1/completions", content=b"a" * (30 << 20), timeout=60).status_code == 413
    with live.connection() as client:
        client.sendall(b"POST /v1/completions HTTP/1.0\r\nContent-Length: 31457280\r\n\r\n" + b"a" * (30 << 20))
        assert client.recv(4096).startswith(refused)
