"""The other routes, keys and CORS."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.server.conftest import CTX, NAME, SLOTS, greedy
from wgpu_engine.cli.serve import _keys
from wgpu_engine.engine.loading import LoadOptions
from wgpu_engine.engine.service import Service
from wgpu_engine.errors import RequestError
from wgpu_engine.server import create_app
from wgpu_engine.server.page import is_open

CALLS = [
    ("GET", "/v1/models"),
    ("GET", f"/v1/models/{NAME}"),
    ("GET", "/props"),
    ("GET", "/slots"),
    ("GET", "/metrics"),
    ("GET", "/openapi.json"),
    ("GET", "/docs"),
    ("POST", "/tokenize"),
    ("POST", "/v1/completions"),
    ("GET", "/nowhere"),
]


def test_models(client: TestClient) -> None:
    listed = client.get("/v1/models").json()
    assert listed["object"] == "list" and [each["id"] for each in listed["data"]] == [NAME]
    assert client.get(f"/v1/models/{NAME}").json() == listed["data"][0]
    assert listed["data"][0]["meta"]["n_ctx"] == CTX and listed["data"][0]["meta"]["architecture"] == "llama"


def test_health_props_and_slots(client: TestClient) -> None:
    assert client.get("/health").json() == {"status": "ok"}
    props = client.get("/props").json()
    assert (props["total_slots"], props["precision"], props["chat_template"]) == (SLOTS, "exact", True)
    slots = client.get("/slots").json()
    assert [each["id"] for each in slots] == list(range(SLOTS))
    assert not any(each["is_processing"] for each in slots)
    assert "/v1/chat/completions" in client.get("/docs").text


def test_texts_and_tokens(client: TestClient) -> None:
    ids = client.post("/tokenize", json={"content": "the tin ☃"}).json()["tokens"]
    assert client.post("/detokenize", json={"tokens": ids}).json() == {"content": "the tin ☃"}
    bare = client.post("/tokenize", json={"content": "the tin ☃", "add_special": False}).json()["tokens"]
    assert [1, *bare] == ids
    found = client.post("/apply-template", json={"messages": [{"role": "user", "content": "hi"}]}).json()
    assert found["prompt"].endswith("[user] hi\n[assistant] ")


def test_metrics_count(client: TestClient) -> None:
    def figure(name: str) -> float:
        found = re.search(rf"^{re.escape(name)} (\S+)$", client.get("/metrics").text, re.MULTILINE)
        return float(found[1]) if found else 0.0

    tokens, requests = "wgpu_engine_completion_tokens_total", 'wgpu_engine_requests_total{reason="length"}'
    before = figure(tokens), figure(requests), figure("wgpu_engine_time_to_first_token_seconds_count")
    client.post("/v1/completions", json=greedy(prompt="the tin", max_tokens=7))
    assert figure(tokens) == before[0] + 7
    assert figure(requests) == before[1] + 1
    assert figure("wgpu_engine_time_to_first_token_seconds_count") == before[2] + 1
    assert figure("wgpu_engine_requests_running") == figure("wgpu_engine_kv_usage_ratio") == 0


def test_the_description_has_every_route(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    routes = {route.path.replace(":path", "") for route in client.app.routes}  # type: ignore[attr-defined]
    later = {"/v1/responses", "/v1/messages"}
    undescribed = {path for path in routes - set(document["paths"]) if not is_open(path)}
    # the last ones where the page was built
    assert undescribed - {"/page", "/vendor", "/icons"} == {"/docs", "/openapi.json", *later}
    schema = document["components"]["schemas"]["ChatRequest"]
    assert {"messages", "temperature", "repetition_penalty"} <= schema["properties"].keys()


def test_keys(service: Service) -> None:
    keys = ["first", "zweiter Schlüssel"]
    client = TestClient(create_app(service, NAME, api_keys=keys))
    for method, route in CALLS:
        for headers in ({}, {"Authorization": "Bearer firs"}, {"Authorization": "first"}, {"x-api-key": "firstt"}):
            response = client.request(method, route, headers=headers)
            assert response.status_code == 401, route
            assert response.headers["www-authenticate"] == "Bearer"
            error = response.json()["error"]
            assert (error["type"], error["code"]) == ("authentication_error", "invalid_api_key")
    for key in keys:
        for name, value in (
            ("Authorization", f"Bearer {key}"),
            ("authorization", f"bearer  {key}"),
            ("X-Api-Key", key),
        ):
            assert client.get("/v1/models", headers={name: value.encode()}).status_code == 200  # type: ignore[dict-item]
    assert client.get("/health").status_code == 200


def test_where_keys_come_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "keys"
    file.write_text("one\n\n  two \n")
    monkeypatch.setenv("WGPU_ENGINE_API_KEY", "three,four, ")
    assert set(_keys(["five"], file)) == {"one", "two", "three", "four", "five"}
    monkeypatch.delenv("WGPU_ENGINE_API_KEY")
    assert _keys([], None) == []
    for blank in ("", " ", "\t"):
        with pytest.raises(RequestError, match="--api-key is empty"):
            _keys(["one", blank], None)
    for blank in ("", " ", ", ,"):
        monkeypatch.setenv("WGPU_ENGINE_API_KEY", blank)
        with pytest.raises(RequestError, match="WGPU_ENGINE_API_KEY is empty"):
            _keys(["one"], None)
    monkeypatch.delenv("WGPU_ENGINE_API_KEY")
    file.write_text("\n \n")
    for wrong in (file, tmp_path, tmp_path / "absent"):
        with pytest.raises(RequestError, match="file of API keys"):
            _keys([], wrong)


def test_pages_of_other_origins_may_call_only_where_asked(service: Service, client: TestClient) -> None:
    ask = {"Origin": "https://a.example", "Access-Control-Request-Method": "POST"}
    for response in (client.options("/v1/completions", headers=ask), client.get("/v1/models", headers=ask)):
        assert response.status_code == 403
        assert not any(name.startswith("access-control") for name in response.headers)
    allowing = TestClient(create_app(service, NAME, api_keys=["key"], cors=["https://a.example"]))
    response = allowing.options("/v1/completions", headers=ask)
    assert response.status_code == 200
    assert response.headers["access-control-allow-origin"] == "https://a.example"
    assert response.headers["access-control-allow-methods"] == "GET, POST"
    assert allowing.get("/v1/models", headers=ask).headers["access-control-allow-origin"] == "https://a.example"
    other = allowing.get("/health", headers={"Origin": "https://b.example"})
    assert "access-control-allow-origin" not in other.headers
    assert (
        TestClient(create_app(service, NAME, cors=["*"]))
        .get("/health", headers=ask)
        .headers["access-control-allow-origin"]
        == "*"
    )


def test_a_model_without_a_template(no_kernel_check: None, tiny_llama: Callable[..., Path]) -> None:
    service = Service(tiny_llama(chat_template=None), LoadOptions(ctx_size=64))
    with TestClient(create_app(service, NAME)) as client:
        messages: Any = {"messages": [{"role": "user", "content": "hi"}]}
        response = client.post("/v1/chat/completions", json=messages)
        assert response.status_code == 400 and "no chat template: ask /v1/completions" in response.text
        assert client.get("/props").json()["chat_template"] is False


def test_a_fault_of_ours_is_no_secret_and_no_end(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    client = TestClient(create_app(service, NAME), raise_server_exceptions=False)

    def broken(*_: Any) -> None:
        raise ValueError("an inner secret")

    with monkeypatch.context() as patch:
        patch.setattr(service.loaded.tokenizer, "encode", broken)
        response = client.post("/tokenize", json={"content": "a"})
    assert response.status_code == 500 and "secret" not in response.text
    assert response.json()["error"]["type"] == "server_error"
    assert client.post("/tokenize", json={"content": "a"}).status_code == 200
