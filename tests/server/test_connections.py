"""Clients that hold connections: they are let go of when nothing moves."""

import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.server.conftest import CTX, SLOTS, Live, greedy, wait_for
from wgpu_engine.server import body, connections


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "PATIENCE_S", 0.5)
    monkeypatch.setattr(body, "_PATIENCE_S", 0.5)


@pytest.fixture
def client(live: Live) -> Iterator[socket.socket]:
    """A connection that takes little at a time."""
    with socket.socket() as opened:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        opened.settimeout(30)
        opened.connect(("127.0.0.1", live.port))
        yield opened


def post(route: str, fields: dict[str, Any]) -> bytes:
    data = json.dumps(fields).encode()
    return f"POST {route} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data


def large(stream: bool) -> bytes:
    """Asks for megabytes."""
    fields = greedy(prompt="the tin", max_tokens=CTX - 20, n=SLOTS, logprobs=5, stream=stream)
    return post("/v1/completions", fields)


def alive(live: Live) -> int:
    return len(live.server.server_state.connections)


def ends(client: socket.socket) -> bool:
    try:
        while client.recv(1 << 16):
            pass
    except ConnectionResetError:
        pass
    return True


@pytest.mark.parametrize("stream", [False, True])
def test_who_never_reads_is_cut_off(live: Live, client: socket.socket, stream: bool) -> None:
    client.sendall(large(stream))
    wait_for(lambda: live.service.running)
    wait_for(lambda: not alive(live))
    live.settle()
    assert ends(client)


def test_who_reads_slowly_gets_it_all(live: Live, client: socket.socket) -> None:
    """Longer than the patience lasts, as long as something moves."""
    client.sendall(large(True))
    got, start = b"", time.monotonic()
    while b"[DONE]" not in got:
        if time.monotonic() - start < 3 * connections.PATIENCE_S:
            time.sleep(0.05)
        piece = client.recv(1500 if time.monotonic() - start < 3 * connections.PATIENCE_S else 1 << 16)
        assert piece, "it was cut off"
        got = got[-20:] + piece
    assert time.monotonic() - start > 3 * connections.PATIENCE_S


@pytest.mark.parametrize("head", [b"", b"POST /v1/comp", b"GET /health HTTP/1.1\r\nHost: localhost\r\n"])
def test_half_a_head(live: Live, client: socket.socket, head: bytes) -> None:
    client.sendall(head)
    start = time.monotonic()
    assert ends(client)
    assert 0.3 < time.monotonic() - start < 10
    wait_for(lambda: not alive(live))


def test_half_a_head_after_a_request(live: Live, client: socket.socket) -> None:
    client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert client.recv(4096).startswith(b"HTTP/1.1 200")
    client.sendall(b"GET /hea")
    assert ends(client)
    wait_for(lambda: not alive(live))


def test_half_a_body_is_told_so(live: Live, client: socket.socket) -> None:
    client.sendall(post("/v1/completions", greedy(prompt="the tin"))[:-4])
    answer = b""
    while b"send it faster" not in answer and (piece := client.recv(4096)):
        answer += piece
    assert answer.startswith(b"HTTP/1.1 408")


def test_waiting_for_an_answer_is_no_idling(live: Live) -> None:
    """A whole answer may take longer than the patience lasts, and a connection serves several requests."""
    with httpx.Client(base_url=live.url, timeout=60) as patient:
        for _ in range(2):
            begin = time.monotonic()
            fields = greedy(prompt="the tin", max_tokens=CTX - 20, n=SLOTS)
            while time.monotonic() - begin < 3 * connections.PATIENCE_S:
                assert patient.post("/v1/completions", json=fields).status_code == 200
