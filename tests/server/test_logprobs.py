"""How likely tokens were, in the shapes of OpenAI's API."""

import json
import math
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from tests.server.conftest import CTX, greedy
from wgpu_engine import LLM
from wgpu_engine.engine.answers import Chunk
from wgpu_engine.ops.top_tokens import TokenLogProbs
from wgpu_engine.server.choices import ChatChoice, TextChoice

MESSAGES = [{"role": "user", "content": "the tin"}]
WAY: dict[str, Any] = {"temperature": 0.0, "ignore_eos": True}


@pytest.fixture(scope="module")
def llm(path: Any) -> Any:
    with LLM(path, precision="exact", ctx_size=CTX) as opened:
        yield opened


def events(text: str) -> list[Any]:
    found = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    assert found.pop() == "[DONE]"
    return [json.loads(each) for each in found]


def test_of_a_conversation(client: TestClient, llm: LLM) -> None:
    body = greedy(messages=MESSAGES, max_tokens=9, logprobs=True, top_logprobs=4)
    choice = client.post("/v1/chat/completions", json=body).json()["choices"][0]
    wanted = llm.chat(MESSAGES, max_tokens=9, logprobs=4, **WAY)
    assert wanted.logprobs is not None
    content = choice["logprobs"]["content"]
    assert choice["logprobs"]["refusal"] is None and len(content) == 9
    for entry, each in zip(content, wanted.logprobs, strict=True):
        assert entry.keys() == {"token", "logprob", "bytes", "top_logprobs"}
        assert entry["logprob"] == each.log_prob
        assert [other["logprob"] for other in entry["top_logprobs"]] == [value for _, value in each.top]
        best = entry["top_logprobs"][0]
        assert {name: entry[name] for name in best} == best, "greedy takes the likeliest"
        assert bytes(entry["bytes"]).decode(errors="replace") == entry["token"]
    said = b"".join(bytes(entry["bytes"]) for entry in content)
    assert said.decode(errors="replace").removeprefix(" ") == choice["message"]["content"]
    streamed = [
        entry
        for event in events(client.post("/v1/chat/completions", json=body | {"stream": True}).text)
        for entry in event["choices"][0]["logprobs"]["content"]
    ]
    assert streamed == content


def test_only_the_tokens_own(client: TestClient) -> None:
    body = greedy(messages=MESSAGES, max_tokens=3, logprobs=True)
    content = client.post("/v1/chat/completions", json=body).json()["choices"][0]["logprobs"]["content"]
    assert len(content) == 3 and all(entry["top_logprobs"] == [] for entry in content)
    choice = client.post("/v1/completions", json=greedy(prompt="the", max_tokens=3, logprobs=0)).json()["choices"][0]
    assert [list(each.values()) for each in choice["logprobs"]["top_logprobs"]] == [
        [value] for value in choice["logprobs"]["token_logprobs"]
    ]


def test_of_a_text(client: TestClient, llm: LLM) -> None:
    body = greedy(prompt="the tin", max_tokens=9, logprobs=3)
    choice = client.post("/v1/completions", json=body).json()["choices"][0]
    wanted = llm.generate("the tin", max_tokens=9, logprobs=3, **WAY)
    assert wanted.logprobs is not None
    found = choice["logprobs"]
    assert found.keys() == {"tokens", "token_logprobs", "top_logprobs", "text_offset"}
    assert {len(each) for each in found.values()} == {9}
    assert found["token_logprobs"] == [each.log_prob for each in wanted.logprobs]
    for top, token, each in zip(found["top_logprobs"], found["tokens"], wanted.logprobs, strict=True):
        assert next(iter(top.values())) == each.top[0][1] and next(iter(top)) == token
        assert len(top) <= 3
    for token, offset in zip(found["tokens"], found["text_offset"], strict=True):
        assert token.startswith("bytes:") or choice["text"][offset:].startswith(token)
    streamed: dict[str, list[Any]] = {name: [] for name in found}
    for event in events(client.post("/v1/completions", json=body | {"stream": True}).text):
        for name, values in event["choices"][0]["logprobs"].items():
            streamed[name] += values
    assert streamed == found


def test_of_an_echo(client: TestClient, llm: LLM) -> None:
    """As harnesses ask for how likely a text is: by token ids, and greedily for one token more or none."""
    ids = llm.tokenize("the tin on a hat")
    for prompt, most in (("the tin on a hat", 4), (ids, 1), (ids, 0), ([ids, ids[:1]], 0)):
        body = greedy(prompt=prompt, echo=True, logprobs=2, max_tokens=most)
        answer = client.post("/v1/completions", json=body).json()
        choice = answer["choices"][0]
        found = choice["logprobs"]
        assert answer["usage"]["completion_tokens"] == most
        assert {len(each) for each in found.values()} == {len(ids) + most}
        assert found["token_logprobs"][0] is found["top_logprobs"][0] is None
        np.testing.assert_allclose(found["token_logprobs"][1 : len(ids)], llm.log_probs(ids), atol=4e-6)
        wanted = llm.generate(ids, logprobs=2, max_tokens=most, **WAY).logprobs
        assert found["token_logprobs"][len(ids) :] == [each.log_prob for each in wanted or ()]
        rows = llm.logits(ids)
        for i, (token, top, value) in enumerate(
            zip(found["tokens"], found["top_logprobs"], found["token_logprobs"], strict=True)
        ):
            if 0 < i < len(ids):
                assert len(top) in (2, 3) and abs(top[token] - value) < 1e-6
                assert (max(top, key=top.__getitem__) == token) == (rows[i - 1].argmax() == ids[i])
        for token, offset in zip(found["tokens"], found["text_offset"], strict=True):
            shown = "" if token == "<s>" else token.removeprefix(" ") if offset == 0 else token
            assert token.startswith("bytes:") or choice["text"][offset:].startswith(shown)
        streamed: dict[str, list[Any]] = {name: [] for name in found}
        for event in events(client.post("/v1/completions", json=body | {"stream": True}).text):
            for name, values in event["choices"][0]["logprobs"].items():
                if event["choices"][0]["index"] == 0:
                    streamed[name] += values
        assert streamed == found


def test_markers_in_an_echo(client: TestClient) -> None:
    choice = client.post(
        "/v1/completions", json=greedy(prompt="<s>the tin</s> on", echo=True, logprobs=0, max_tokens=0)
    ).json()["choices"][0]
    told = list(zip(choice["logprobs"]["tokens"], choice["logprobs"]["text_offset"], strict=True))
    text = choice["text"]
    assert text == "<s>the tin</s> on" and told[0] == ("<s>", 0) and ("</s>", text.index("</s>")) in told
    for token, offset in told:
        assert text[offset:].startswith((token, token.removeprefix(" ")))


def test_several_answers_have_each_their_own(client: TestClient) -> None:
    body = {"prompt": ["the", "a hat"], "n": 2, "seed": 3, "temperature": 1.5, "max_tokens": 5, "logprobs": 2}
    choices = client.post("/v1/completions", json=body | {"ignore_eos": True}).json()["choices"]
    assert [len(choice["logprobs"]["tokens"]) for choice in choices] == [5] * 4
    for choice in choices:
        for top, token, value in zip(
            choice["logprobs"]["top_logprobs"],
            choice["logprobs"]["tokens"],
            choice["logprobs"]["token_logprobs"],
            strict=True,
        ):
            assert top[token] == value and len(top) in (2, 3)


def test_a_bias(client: TestClient, llm: LLM) -> None:
    token = llm.tokenize("the")[-1]
    for bias, holds in ((100, True), (-100, False)):
        body = greedy(prompt="the tin", max_tokens=4, logit_bias={str(token): bias}, logprobs=1)
        tokens = client.post("/v1/completions", json=body).json()["choices"][0]["logprobs"]["tokens"]
        assert (set(tokens) == {" the"}) == holds
    body = greedy(messages=MESSAGES, max_tokens=4, logit_bias={str(token): 100})
    assert (
        client.post("/v1/chat/completions", json=body).json()["choices"][0]["message"]["content"] == "the the the the"
    )


# the writers alone


def chunk(text: str, tokens: list[int], reason: Any = None) -> Chunk:
    likely = [TokenLogProbs(-0.5, [(token, -0.5), (5, -1.0)]) for token in tokens]
    return Chunk(text, tokens, reason, None, likely)


def test_what_is_not_shown_is_not_told(llm: LLM) -> None:
    """The token that ended the answer, and those of a stop string."""
    vocabulary = llm.tokenizer.vocabulary
    ids = [vocabulary.id_of[piece] for piece in ("th", "e", "on", "in")]

    def told(piece: Chunk) -> list[str]:
        content = ChatChoice(0, vocabulary).piece(piece)["logprobs"]["content"]
        return [entry["token"] for entry in content]

    assert told(chunk("the", [*ids[:2], 2], "stop")) == ["th", "e"]
    assert told(chunk("", [2], "stop")) == []
    scored = TextChoice(0, vocabulary, "", (ids[:1], [])).piece(chunk("the", [*ids[:2], 2], "stop"))["logprobs"]
    assert scored["tokens"] == ["th", "th", "e", "</s>"], "harnesses leave out the last one"
    assert told(chunk("theon", ids, "stop")) == ["th", "e", "on"], "a stop string in"
    assert told(chunk("theo", ids, "stop")) == ["th", "e", "on"], "it began within a token"
    assert told(chunk("theonin", ids, "length")) == ["th", "e", "on", "in"]


def test_bytes_of_a_character_and_markers(llm: LLM) -> None:
    vocabulary = llm.tokenizer.vocabulary
    snow = [vocabulary.id_of[f"<0x{byte:02X}>"] for byte in "☃".encode()]
    piece = chunk("☃e", [*snow, vocabulary.id_of["e"]])
    found = ChatChoice(0, vocabulary).piece(piece)["logprobs"]["content"]
    assert [entry["bytes"] for entry in found] == [[0xE2], [0x98], [0x83], [ord("e")]]
    found = TextChoice(0, vocabulary, "").piece(piece)["logprobs"]
    assert found["tokens"] == ["bytes:\\xe2", "bytes:\\x98", "bytes:\\x83", "e"]
    assert found["text_offset"] == [0, 1, 1, 1]
    marker = ChatChoice(0, vocabulary).piece(chunk("", [1]))["logprobs"]["content"][0]
    assert (marker["token"], marker["bytes"]) == ("<s>", None)
    after = TextChoice(0, vocabulary, "an echo ").piece(piece)
    assert after["logprobs"]["text_offset"][0] == 8 and after["text"] == "an echo ☃e"


@pytest.mark.parametrize("value", [-math.inf, math.nan, -1e5])
def test_numbers_that_json_has_not(llm: LLM, value: float) -> None:
    piece = Chunk("e", [5], None, None, [TokenLogProbs(value, [(6, value)])])
    for choice in (ChatChoice(0, llm.tokenizer.vocabulary), TextChoice(0, llm.tokenizer.vocabulary, "")):
        assert json.dumps(choice.piece(piece), allow_nan=False).count("-9999.0") >= 2


def test_they_add_up(client: TestClient) -> None:
    body = greedy(messages=MESSAGES, max_tokens=2, logprobs=True, top_logprobs=20)
    for entry in client.post("/v1/chat/completions", json=body).json()["choices"][0]["logprobs"]["content"]:
        values = [other["logprob"] for other in entry["top_logprobs"]]
        assert len(values) == 20 and values == sorted(values, reverse=True)
        assert 0 < np.exp(values).sum() <= 1 + 1e-6
