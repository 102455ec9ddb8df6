"""Ids of requests, and logs that are lines of JSON whatever requests hold."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.server.conftest import NAME, greedy
from wgpu_engine.engine.service import Service
from wgpu_engine.server import create_app
from wgpu_engine.server.log import JsonLines

FORGED = 'a\r\n{"level": "error", "message": "forged"}\u2028\x1b[31m\x00'


@pytest.fixture
def lines() -> Iterator[Any]:
    """What has been logged since, line by line."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    logger = logging.getLogger("wgpu_engine")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    logger.removeHandler(handler)
    logger.setLevel(level)


def test_every_reply_has_an_id(service: Service) -> None:
    client = TestClient(create_app(service, NAME, api_keys=["key"], cors=["*"]), raise_server_exceptions=False)
    key = {"Authorization": "Bearer key"}
    ids = [
        client.get("/health").headers["x-request-id"],
        client.get("/v1/models").headers["x-request-id"],  # no key
        client.get("/nowhere", headers=key).headers["x-request-id"],
        client.post("/v1/completions", headers=key, content=b"{").headers["x-request-id"],
        client.post("/v1/completions", headers=key, json=greedy(prompt="a", max_tokens=1)).headers["x-request-id"],
        client.options(
            "/v1/models", headers={"Origin": "https://a.example", "Access-Control-Request-Method": "GET"}
        ).headers["x-request-id"],
    ]
    assert len(set(ids)) == len(ids) and all(len(each) == 32 for each in ids)
    body = greedy(prompt="a", max_tokens=2, stream=True)
    with client.stream("POST", "/v1/completions", headers=key | {"X-Request-Id": "mine-1"}, json=body) as response:
        assert response.headers["x-request-id"] == "mine-1"
        assert "X-Request-Id" in client.get("/health", headers={"Origin": "a"}).headers["access-control-expose-headers"]


@pytest.mark.parametrize("given", ["", "a b", "x" * 129, "a\tb", "é", '"', "<script>"])
def test_ids_that_are_none_are_replaced(client: TestClient, given: str) -> None:
    found = client.get("/health", headers={"X-Request-Id": given.encode("latin-1")}).headers["x-request-id"]  # type: ignore[dict-item]
    assert found != given and len(found) == 32


def test_a_fault_of_ours_has_its_id_too(service: Service, monkeypatch: pytest.MonkeyPatch, lines: Any) -> None:
    client = TestClient(create_app(service, NAME), raise_server_exceptions=False)

    def broken(*_: Any) -> None:
        raise ValueError("an inner secret")

    monkeypatch.setattr(service.loaded.tokenizer, "encode", broken)
    response = client.post("/tokenize", json={"content": "a"}, headers={"X-Request-Id": "seven"})
    assert (response.status_code, response.headers["x-request-id"]) == (500, "seven")
    (line,) = lines()
    assert (line["request_id"], line["status"]) == ("seven", 500)


def test_a_request_is_a_line(client: TestClient, lines: Any) -> None:
    body = greedy(prompt="the tin", max_tokens=5)
    client.post("/v1/completions", json=body, headers={"X-Request-Id": "one"})
    client.post("/v1/completions", json=body | {"stream": True}, headers={"X-Request-Id": "two"})
    client.post("/v1/completions", json={}, headers={"X-Request-Id": "three"})
    one, two, three = lines()
    assert [each["request_id"] for each in (one, two, three)] == ["one", "two", "three"]
    for each in (one, two):
        assert (each["message"], each["level"], each["logger"]) == ("request", "info", "wgpu_engine.server")
        assert (each["method"], each["path"], each["status"]) == ("POST", "/v1/completions", 200)
        assert each["completion_tokens"] == 5 and each["prompt_tokens"] > 2
        assert each["duration_ms"] > 0 and each["complete"] is True
        assert each["time"].endswith("+00:00")
        assert "tin" not in json.dumps(each), "texts are nobody's business"
    assert three["status"] == 400 and "prompt_tokens" not in three


def test_nothing_can_be_forged(client: TestClient, lines: Any) -> None:
    client.get("/" + "".join(f"%{byte:02X}" for byte in FORGED.encode()))
    client.post("/v1/completions", json={"model": FORGED, "prompt": FORGED})
    found = lines()
    assert [each["message"] for each in found] == ["request", "request"]
    assert found[0]["path"] == "/" + FORGED


def test_a_line_is_printable_whatever_happens() -> None:
    try:
        raise ValueError(FORGED)
    except ValueError as error:
        info = (type(error), error, error.__traceback__)
    record = logging.LogRecord("a\nb", logging.ERROR, "", 0, "%s and %s", (FORGED, object()), info)
    line = JsonLines().format(record)
    assert line.isascii() and line.isprintable()
    found = json.loads(line)
    assert FORGED in found["message"] and "ValueError" in found["error"] and found["level"] == "error"
