"""`/v1/completions` and `/v1/chat/completions`, whole and as streams."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.server.conftest import CTX, NAME, greedy
from wgpu_engine import LLM
from wgpu_engine.server.schemas import ChatRequest

SAMPLING: dict[str, Any] = {"temperature": 0.0, "ignore_eos": True}
MESSAGES = [{"role": "user", "content": "the tin"}]


@pytest.fixture(scope="module")
def llm(path: Path) -> Any:
    with LLM(path, precision="exact", ctx_size=CTX) as opened:
        yield opened


def events(text: str) -> list[Any]:
    """What a stream sent, in the frames that it must have."""
    assert text.endswith("\n\n")
    found: list[Any] = []
    for frame in text.removesuffix("\n\n").split("\n\n"):
        assert frame.startswith("data: ") and "\n" not in frame
        data = frame.removeprefix("data: ")
        found.append(data if data == "[DONE]" else json.loads(data))
    return found


def test_a_text_is_continued(client: TestClient, llm: LLM) -> None:
    response = client.post("/v1/completions", json=greedy(prompt="the tin", max_tokens=12))
    wanted = llm.generate("the tin", max_tokens=12, **SAMPLING)
    answer = response.json()
    assert response.status_code == 200
    assert re.fullmatch(r"cmpl-[0-9a-f]{24}", answer["id"])
    assert (answer["object"], answer["model"]) == ("text_completion", NAME)
    assert answer["choices"] == [{"index": 0, "text": wanted.text, "logprobs": None, "finish_reason": "length"}]
    count = len(llm.tokenize("the tin"))
    usage = {name: answer["usage"][name] for name in ("prompt_tokens", "completion_tokens", "total_tokens")}
    assert usage == {"prompt_tokens": count, "completion_tokens": 12, "total_tokens": count + 12}
    assert answer["timings"]["predicted_n"] == 12 and answer["timings"]["predicted_per_second"] > 0


def test_a_conversation_is_answered(client: TestClient, llm: LLM) -> None:
    body = greedy(messages=MESSAGES, max_completion_tokens=9, max_tokens=3)
    answer = client.post("/v1/chat/completions", json=body).json()
    wanted = llm.chat(MESSAGES, max_tokens=9, **SAMPLING)
    assert re.fullmatch(r"chatcmpl-[0-9a-f]{24}", answer["id"]) and answer["object"] == "chat.completion"
    assert answer["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": wanted.text},
            "logprobs": None,
            "finish_reason": "length",
        }
    ]
    assert answer["usage"]["completion_tokens"] == 9


@pytest.mark.parametrize("wants_usage", [False, True])
def test_a_stream_of_a_conversation(client: TestClient, llm: LLM, wants_usage: bool) -> None:
    options = {"stream_options": {"include_usage": True}} if wants_usage else {}
    with client.stream(
        "POST", "/v1/chat/completions", json=greedy(messages=MESSAGES, max_tokens=9, stream=True, **options)
    ) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["cache-control"] == "no-store"
        found = events(response.read().decode())
    assert found.pop() == "[DONE]"
    if wants_usage:
        last = found.pop()
        assert last["choices"] == [] and last["usage"]["completion_tokens"] == 9
        assert all(each["usage"] is None for each in found)
    else:
        assert not any("usage" in each for each in found)
    assert len({each["id"] for each in found}) == 1
    assert {each["object"] for each in found} == {"chat.completion.chunk"}
    deltas = [each["choices"][0]["delta"] for each in found]
    assert deltas[0]["role"] == "assistant" and not any("role" in delta for delta in deltas[1:])
    text = "".join(delta.get("content", "") for delta in deltas)
    assert text == llm.chat(MESSAGES, max_tokens=9, **SAMPLING).text
    reasons = [each["choices"][0]["finish_reason"] for each in found]
    assert reasons == [None] * (len(found) - 1) + ["length"]


def test_a_stream_of_a_text(client: TestClient, llm: LLM) -> None:
    body = greedy(prompt="the tin", max_tokens=9, stream=True, echo=True)
    found = events(client.post("/v1/completions", json=body).text)
    assert found.pop() == "[DONE]"
    assert {each["object"] for each in found} == {"text_completion"}
    text = "".join(each["choices"][0]["text"] for each in found)
    assert text == "the tin" + llm.generate("the tin", max_tokens=9, **SAMPLING).text


def test_prompts_of_every_form(client: TestClient, llm: LLM) -> None:
    texts = ["the tin", "a hat on the"]
    ids = [llm.tokenize(text) for text in texts]
    wanted = [llm.generate(each, max_tokens=6, **SAMPLING).text for each in ids]
    for prompt in (texts, ids, [texts[0], ids[1]]):
        choices = client.post("/v1/completions", json=greedy(prompt=prompt, max_tokens=6)).json()["choices"]
        assert [(each["index"], each["text"]) for each in choices] == list(enumerate(wanted))
    answer = client.post("/v1/completions", json=greedy(prompt=ids[0], max_tokens=6)).json()
    assert [each["text"] for each in answer["choices"]] == wanted[:1]


def test_several_answers(client: TestClient) -> None:
    body = {"prompt": ["the tin", "a hat"], "n": 2, "seed": 5, "temperature": 1.5, "max_tokens": 8, "ignore_eos": True}
    first, second = (client.post("/v1/completions", json=body).json() for _ in range(2))
    texts = [each["text"] for each in first["choices"]]
    assert [each["index"] for each in first["choices"]] == [0, 1, 2, 3]
    assert texts == [each["text"] for each in second["choices"]], "a seed repeats all answers"
    assert texts[0] != texts[1], "the answers of one request differ"
    # a prompt counts once, however many answers it has
    prompts = sum(len(client.post("/tokenize", json={"content": text}).json()["tokens"]) for text in body["prompt"])
    assert (first["usage"]["prompt_tokens"], first["usage"]["completion_tokens"]) == (prompts, 32)
    streamed = ["", "", "", ""]
    for event in events(client.post("/v1/completions", json=body | {"stream": True}).text)[:-1]:
        streamed[event["choices"][0]["index"]] += event["choices"][0]["text"]
    assert streamed == texts


def test_seeds(client: TestClient) -> None:
    def text(**fields: Any) -> str:
        body = {"messages": MESSAGES, "max_tokens": 20, "temperature": 1.5, "ignore_eos": True} | fields
        found: str = client.post("/v1/chat/completions", json=body).json()["choices"][0]["message"]["content"]
        return found

    assert text(seed=1) == text(seed=1)
    assert len({text(seed=seed) for seed in range(4)}) > 1
    assert len({text() for _ in range(4)}) > 1
    assert text(seed=-1) == text(seed=(1 << 32) - 1), "a seed has 32 bits"
    assert text(seed=3, repeat_penalty=1.5) == text(seed=3, repetition_penalty=1.5) != text(seed=3)


def test_stops(client: TestClient, llm: LLM) -> None:
    whole = llm.generate("the tin", max_tokens=20, **SAMPLING).text
    stop = whole[5:7]
    for given in (stop, [stop], ["never to be found", stop]):
        choice = client.post("/v1/completions", json=greedy(prompt="the tin", max_tokens=20, stop=given)).json()[
            "choices"
        ][0]
        assert choice["text"] == whole[: whole.index(stop)] and choice["finish_reason"] == "stop"
    for given in (None, "", []):
        choice = client.post("/v1/completions", json=greedy(prompt="the tin", max_tokens=20, stop=given)).json()[
            "choices"
        ][0]
        assert choice["text"] == whole and choice["finish_reason"] == "length"


def test_a_prefix_is_found_again(client: TestClient) -> None:
    body = greedy(prompt=list(range(3, 103)), max_tokens=2)
    client.post("/v1/completions", json=body)
    usage = client.post("/v1/completions", json=body).json()["usage"]
    assert usage["prompt_tokens"] == 100
    assert 64 <= usage["prompt_tokens_details"]["cached_tokens"] < 100


def test_a_context_that_fills(client: TestClient) -> None:
    answer = client.post("/v1/completions", json=greedy(prompt=[5] * (CTX - 4), max_tokens=100)).json()
    assert answer["usage"]["completion_tokens"] == 4 and answer["choices"][0]["finish_reason"] == "length"
    nothing = client.post("/v1/completions", json=greedy(prompt="the", max_tokens=0)).json()
    assert nothing["choices"][0]["text"] == "" and nothing["usage"]["completion_tokens"] == 0


def test_what_is_unknown_or_null_is_passed_over(client: TestClient) -> None:
    names = [*ChatRequest.model_fields.keys() - {"model", "messages", "chat_template_kwargs", "max_tokens"}]
    nulls = dict.fromkeys(names)
    more = {"user": "me", "cache_prompt": True, "mirostat": 0, "parallel_tool_calls": False, "metadata": {"a": [1]}}
    more |= {"typical_p": 1.0, "dry_multiplier": 0, "xtc_probability": 0.0, "grammar": "", "min_tokens": None}
    body = greedy(messages=MESSAGES, max_tokens=3) | nulls | more
    assert client.post("/v1/chat/completions", json=body).status_code == 200
    for off in ({"logprobs": False}, {"response_format": {"type": "text"}}, {"tools": []}, {"logit_bias": {}}):
        assert client.post("/v1/chat/completions", json=body | off).status_code == 200
    assert (
        client.post("/v1/completions", json=greedy(prompt="a", max_tokens=1, suffix="", best_of=1)).status_code == 200
    )


def test_control_tokens_in_messages_are_text(client: TestClient) -> None:
    def prompt(content: str) -> list[int]:
        messages = [{"role": "user", "content": content}]
        found: list[int] = client.post("/apply-template", json={"messages": messages}).json()["tokens"]
        return found

    assert prompt("a </s> b").count(2) == prompt("a b").count(2)
    jinja = "{{ 7 * 7 }}{% for x in y %}"
    assert (
        jinja
        in client.post("/apply-template", json={"messages": [{"role": "user", "content": jinja}]}).json()["prompt"]
    )


def test_limits_as_others_write_them(client: TestClient) -> None:
    body = greedy(prompt="the tin")
    given = client.post("/v1/completions", json=body | {"max_tokens": 9, "max_completion_tokens": 3}).json()
    assert given["usage"]["completion_tokens"] == 3
    whole = client.post("/v1/completions", json=body | {"max_tokens": -1, "top_k": -1}).json()
    assert whole["usage"]["total_tokens"] == CTX


def test_an_echo_is_the_prompt_as_it_was_given(client: TestClient) -> None:
    for prompt in ("<s>the tin</s>", " the  tin", "☃"):
        answer = client.post("/v1/completions", json=greedy(prompt=prompt, echo=True, max_tokens=0)).json()
        assert answer["choices"][0]["text"] == prompt


def test_times_that_overlap_are_not_told(client: TestClient) -> None:
    for fields in ({"prompt": ["the", "tin"]}, {"prompt": "the", "n": 2}):
        body = greedy(max_tokens=2, **fields)
        assert "timings" not in client.post("/v1/completions", json=body).json()
        assert '"timings"' not in client.post("/v1/completions", json=body | {"stream": True}).text
