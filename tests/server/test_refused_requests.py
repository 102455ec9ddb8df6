"""What can't be asked for: its status, and the field that the message names."""

import gzip
import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.server.conftest import CTX, QUEUE, SLOTS
from wgpu_engine.engine.service import Service

MESSAGES = [{"role": "user", "content": "hi"}]
WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("completions", {}, "prompt"),
    ("completions", {"prompt": None}, "prompt"),
    ("completions", {"prompt": 5}, "prompt"),
    ("completions", {"prompt": {}}, "prompt"),
    ("completions", {"prompt": []}, "prompt"),
    ("completions", {"prompt": [[]]}, "prompt"),
    ("completions", {"prompt": [1, "a"]}, "prompt"),
    ("completions", {"prompt": [1.5]}, "prompt"),
    ("completions", {"prompt": [True]}, "prompt"),
    ("completions", {"prompt": [-1]}, "prompt"),
    ("completions", {"prompt": [1 << 31]}, "prompt"),
    ("completions", {"prompt": [10**30]}, "prompt"),
    ("completions", {"prompt": ["a"] * (SLOTS + QUEUE + 1)}, "prompt"),
    ("completions", {"prompt": "a", "suffix": "b"}, "suffix"),
    ("completions", {"prompt": "a", "logprobs": -1}, "logprobs"),
    ("completions", {"prompt": "a", "stop": 5}, "stop"),
    ("completions", {"prompt": "a", "stop": [""]}, "stop"),
    ("completions", {"prompt": "a", "stop": ["a", None]}, "stop"),
    ("completions", {"prompt": "a", "stop": ["a"] * 65}, "stop"),
    ("completions", {"prompt": "a", "stop": ["a" * 1025]}, "stop"),
    ("completions", {"prompt": "a", "stop": "a" * 1025}, "stop"),
    ("completions", {"prompt": "a", "temperature": -1}, "temperature"),
    ("completions", {"prompt": "a", "temperature": "hot"}, "temperature"),
    ("completions", {"prompt": "a", "temperature": [1]}, "temperature"),
    ("completions", {"prompt": "a", "top_p": 1.1}, "top_p"),
    ("completions", {"prompt": "a", "min_p": -0.1}, "min_p"),
    ("completions", {"prompt": "a", "top_k": 1.5}, "top_k"),
    ("completions", {"prompt": "a", "top_k": -2}, "top_k"),
    ("completions", {"prompt": "a", "repetition_penalty": 0}, "repetition_penalty"),
    ("completions", {"prompt": "a", "presence_penalty": 101}, "presence_penalty"),
    ("completions", {"prompt": "a", "frequency_penalty": -101}, "frequency_penalty"),
    ("completions", {"prompt": "a", "seed": "x"}, "seed"),
    ("completions", {"prompt": "a", "max_tokens": -2}, "max_tokens"),
    ("completions", {"prompt": "a", "max_tokens": 10**30}, "max_tokens"),
    ("completions", {"prompt": "a", "n": 0}, "n"),
    ("completions", {"prompt": "a", "n": SLOTS + QUEUE + 1}, "n"),
    ("completions", {"prompt": "a", "stream": "perhaps"}, "stream"),
    ("completions", {"prompt": "a", "stream_options": 3}, "stream_options"),
    ("completions", {"prompt": "a", "stream_options": {"include_usage": []}}, "stream_options.include_usage"),
    ("completions", {"prompt": "a", "model": 3}, "model"),
    ("completions", {"prompt": "a", "logit_bias": {"5": 101}}, "logit_bias.5"),
    ("completions", {"prompt": "a", "logit_bias": {"5": "a"}}, "logit_bias.5"),
    ("completions", {"prompt": "a", "logit_bias": {"five": 1}}, "logit_bias.five.[key]"),
    ("completions", {"prompt": "a", "logit_bias": {"-1": 1}}, "logit_bias.-1.[key]"),
    ("completions", {"prompt": "a", "logit_bias": {str(1 << 20): 1}}, "logit_bias"),
    ("completions", {"prompt": "a", "logit_bias": {str(i): 1 for i in range(301)}}, "logit_bias"),
    ("completions", {"prompt": "a", "logprobs": 6}, "logprobs"),
    ("completions", {"prompt": "a", "logprobs": True}, "logprobs"),
    ("completions", {"prompt": "a", "best_of": 2}, "best_of"),
    ("completions", {"prompt": "a", "cache_prompt": "perhaps"}, "cache_prompt"),
    *(
        ("completions", {"prompt": "a", name: value}, name)
        for name, value in {
            "typical_p": 0.9,
            "mirostat": 2,
            "dry_multiplier": 0.8,
            "xtc_probability": 0.5,
            "tfs_z": 0.5,
            "dynatemp_range": 0.5,
            "top_n_sigma": 1.5,
            "samplers": ["top_k"],
            "repeat_last_n": 64,
            "min_tokens": 3,
            "n_predict": 5,
            "n_probs": 5,
            "grammar": "root ::= a",
            "json_schema": {"type": "object"},
            "guided_regex": "a+",
            "use_beam_search": True,
            "stop_token_ids": [5],
        }.items()
    ),
    ("completions", {"prompt": "a", "logit_bias": [1]}, "logit_bias"),
    ("completions", {"prompt": "a", "max_completion_tokens": -2}, "max_completion_tokens"),
    ("completions", {"prompt": "a", "tools": [{"type": "function"}]}, "tools"),
    ("completions", {"prompt": "a", "response_format": {"type": "json_object"}}, "response_format"),
    ("chat/completions", {}, "messages"),
    ("chat/completions", {"messages": []}, "messages"),
    ("chat/completions", {"messages": "hi"}, "messages"),
    ("chat/completions", {"messages": ["hi"]}, "messages.0"),
    ("chat/completions", {"messages": [{}]}, "messages"),
    ("chat/completions", {"messages": [{"role": 5, "content": "a"}]}, "messages"),
    ("chat/completions", {"messages": [{"role": "user", "content": 5}]}, "messages"),
    ("chat/completions", {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages"),
    ("chat/completions", {"messages": MESSAGES, "tools": [{"type": "function"}]}, "tools"),
    ("chat/completions", {"messages": MESSAGES, "response_format": {"type": "json_object"}}, "response_format"),
    ("chat/completions", {"messages": MESSAGES, "max_completion_tokens": -2}, "max_completion_tokens"),
    ("chat/completions", {"messages": MESSAGES, "top_logprobs": 3}, "top_logprobs"),
    ("chat/completions", {"messages": MESSAGES, "logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    ("chat/completions", {"messages": MESSAGES, "logprobs": 3}, "logprobs"),
    ("chat/completions", {"messages": MESSAGES, "logit_bias": {str(1 << 20): 1}}, "logit_bias"),
    ("chat/completions", {"messages": MESSAGES, "modalities": ["text", "audio"]}, "modalities"),
    ("chat/completions", {"messages": MESSAGES, "functions": [{"name": "f"}]}, "functions"),
    ("chat/completions", {"messages": MESSAGES, "chat_template": "{{ messages }}"}, "chat_template"),
    ("chat/completions", {"messages": MESSAGES, "continue_final_message": True}, "continue_final_message"),
    ("chat/completions", {"messages": MESSAGES, "chat_template_kwargs": {"messages": 1}}, "chat_template_kwargs"),
    ("chat/completions", {"messages": MESSAGES, "chat_template_kwargs": {"self": 1}}, "chat_template_kwargs"),
]


@pytest.mark.parametrize(("route", "body", "field"), WRONG, ids=[f"{w[0][:4]}-{json.dumps(w[1])[:60]}" for w in WRONG])
def test_the_field_is_named(client: TestClient, route: str, body: dict[str, Any], field: str) -> None:
    for stream in (False, True):
        response = client.post(f"/v1/{route}", json={"stream": stream} | body)
        error = response.json()["error"]
        assert response.status_code == 400, response.text
        assert error["type"] == "invalid_request_error" and error["param"] == field
        assert field.split(".")[0] in error["message"]


def test_numbers_that_json_has_not(client: TestClient) -> None:
    for number in ("NaN", "Infinity", "1e999"):
        response = client.post("/v1/completions", content=f'{{"prompt": "a", "temperature": {number}}}')
        assert (response.status_code, response.json()["error"]["param"]) == (400, "temperature")


def test_a_prompt_that_is_too_long(client: TestClient) -> None:
    for route, body in (
        ("completions", {"prompt": [5] * (CTX + 1)}),
        ("chat/completions", {"messages": [{"role": "user", "content": "a" * (2 * CTX)}]}),
    ):
        response = client.post(f"/v1/{route}", json=body | {"max_tokens": 5})
        error = response.json()["error"]
        assert (response.status_code, error["code"]) == (400, "context_length_exceeded")
        assert f"the context holds {CTX}" in error["message"]
    assert f"{CTX + 1} tokens" in client.post("/v1/completions", json={"prompt": [5] * (CTX + 1)}).text


@pytest.mark.parametrize("name", ["gpt-4", "../../etc/passwd", "tiny\nERROR forged", "x" * 5000, "☃"])
def test_other_models(client: TestClient, name: str) -> None:
    response = client.post("/v1/completions", json={"model": name, "prompt": "a"})
    error = response.json()["error"]
    assert (response.status_code, error["code"], error["param"]) == (404, "model_not_found", "model")
    assert len(error["message"]) < 200 and "\n" not in error["message"]
    assert client.get("/v1/models/" + name.replace("\n", "%0A").replace("../", "%2E%2E%2F")).status_code == 404


def test_apis_that_come_later(client: TestClient) -> None:
    for route in ("/v1/responses", "/v1/messages"):
        error = client.post(route, json={"input": "a"}).json()["error"]
        assert error["code"] == "unsupported" and route in error["message"]


def test_routes_that_there_are_not(client: TestClient) -> None:
    for method, route, status in (("GET", "/v1/x", 404), ("GET", "/v1/completions", 405), ("POST", "/health", 405)):
        response = client.request(method, route)
        error = response.json()["error"]
        assert response.status_code == status and route in error["message"] and method in error["message"]
    assert "POST" in client.get("/v1/completions").headers["allow"]


BROKEN = {
    "nothing": b"",
    "no JSON": b"{",
    "no object": b"[]",
    "a number": b"7",
    "null": b"null",
    "no UTF-8": b'{"prompt": "\xff"}',
    "half a surrogate pair": b'{"prompt": "\\ud800"}',
    "deep lists": b'{"prompt": ' + b"[" * 200_000 + b"]" * 200_000 + b"}",
    "deep objects": b'{"prompt": "a", "metadata": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}",
    "a long number": b'{"prompt": "a", "seed": ' + b"9" * 100_000 + b"}",
    "NUL": b"\0" * 1000,
}


@pytest.mark.parametrize("body", BROKEN.values(), ids=BROKEN.keys())
def test_bodies_that_are_none(client: TestClient, body: bytes) -> None:
    for route in ("/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize", "/apply-template"):
        response = client.post(route, content=body)
        assert response.status_code == 400, response.text
        assert 0 < len(response.json()["error"]["message"]) < 500


def test_deep_messages(client: TestClient) -> None:
    deep: Any = "a"
    for _ in range(150):
        deep = {"a": deep}
    for field in ({"messages": [{"role": "user", "content": "a", "x": deep}]}, {"chat_template_kwargs": deep}):
        response = client.post("/apply-template", json={"messages": MESSAGES} | field)
        assert response.status_code in (200, 400)


def test_tokens_that_there_are_not(client: TestClient) -> None:
    for tokens in ([1 << 20], [-1], ["a"], None, [10**30]):
        response = client.post("/detokenize", json={"tokens": tokens})
        assert response.status_code == 400 and "token" in response.json()["error"]["message"]


def test_bodies_that_are_too_large(client: TestClient) -> None:
    for size in (10, 100):
        response = client.post("/v1/completions", content=b'{"prompt": "' + b"a" * (size << 20) + b'"}')
        assert response.status_code == 413 and "8,388,608 bytes" in response.json()["error"]["message"]
    response = client.post("/v1/completions", content=b'{"prompt": "' + b"a" * (7 << 20) + b'"}')
    assert response.status_code == 400


def test_bodies_that_are_compressed(client: TestClient) -> None:
    body = gzip.compress(b'{"prompt": "a"}')
    response = client.post("/v1/completions", content=body, headers={"Content-Encoding": "gzip"})
    assert response.status_code == 415 and "gzip" in response.json()["error"]["message"]


def test_texts_that_cannot_fit_are_not_tokenized(
    client: TestClient, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service.loaded.tokenizer, "_encoder", None)
    text = "a" * 1_000_000
    for route, body in (
        ("completions", {"prompt": text}),
        ("chat/completions", {"messages": [{"role": "user", "content": text}]}),
    ):
        error = client.post(f"/v1/{route}", json=body).json()["error"]
        assert error["code"] == "context_length_exceeded"
        assert "has at least" in error["message"] and f"the context holds {CTX}" in error["message"]
    error = client.post("/tokenize", json={"content": "☃" * 400_000}).json()["error"]
    assert error["param"] == "content" and "1,048,576 bytes" in error["message"]


def test_refusals_are_in_our_words(client: TestClient) -> None:
    for body, words in (
        (b'{"prompt": "a", "logit_bias": {"five": 1}}', "token ids, written in digits"),
        (json.dumps({"prompt": "a", "logit_bias": {str(i): 1 for i in range(301)}}).encode(), "give fewer"),
        (b'{"prompt": "\\ud800"}', "surrogate pair"),
    ):
        assert words in client.post("/v1/completions", content=body).json()["error"]["message"]
