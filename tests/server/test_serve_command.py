"""`wgpu-engine serve` as a process, with the clients that people use."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import openai
import pytest

from tests.server.conftest import Program, greedy, running

ENDING = "the answer that runs comes to its end first; Ctrl-C again ends it at once\n"
MESSAGES: list[openai.types.chat.ChatCompletionMessageParam] = [{"role": "user", "content": "the tin"}]


@pytest.fixture(scope="module")
def path(tiny_llama: Callable[..., Path]) -> Path:
    return tiny_llama()


@pytest.fixture(scope="module")
def program(path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text("from-a-file\n")
    more = ("--alias", "tiny", "--ctx-size", "512", "--slots", "4", "--api-key", "given", "--api-key-file", str(keys))
    with running(str(path), "--port", "0", *more, WGPU_ENGINE_API_KEY="from-outside") as opened:
        yield opened


@pytest.fixture(scope="module")
def client(program: Program) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{program.url}/v1", api_key="given", max_retries=0) as opened:
        yield opened


def test_what_is_said_at_the_start(program: Program) -> None:
    assert program.port and f"http://127.0.0.1:{program.port} " in program.said
    assert program.said.startswith("tiny on ") and "Ctrl-C" in program.said
    assert httpx.get(f"{program.url}/health").status_code == 200


def test_openai_chat(client: openai.OpenAI) -> None:
    extra = {"ignore_eos": True}
    whole = client.chat.completions.create(
        model="tiny", messages=MESSAGES, temperature=0, max_tokens=12, extra_body=extra
    )
    assert whole.choices[0].finish_reason == "length" and whole.choices[0].message.role == "assistant"
    assert whole.usage is not None and whole.usage.completion_tokens == 12
    stream = client.chat.completions.create(
        model="tiny",
        messages=MESSAGES,
        temperature=0,
        max_tokens=12,
        stream=True,
        stream_options={"include_usage": True},
        extra_body=extra,
    )
    pieces = list(stream)
    text = "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)
    assert text == whole.choices[0].message.content
    assert pieces[-1].usage is not None and pieces[-1].usage.completion_tokens == 12
    assert stream.response.headers["x-request-id"] and whole._request_id
    with client.chat.completions.create(model="tiny", messages=MESSAGES, stream=True) as left:
        next(iter(left))


def test_openai_logprobs(client: openai.OpenAI) -> None:
    found = client.chat.completions.create(
        model="tiny", messages=MESSAGES, temperature=0, max_tokens=4, logprobs=True, top_logprobs=2
    ).choices[0]
    assert found.logprobs is not None and found.logprobs.content is not None
    assert [len(entry.top_logprobs) for entry in found.logprobs.content] == [2] * len(found.logprobs.content)
    first = found.logprobs.content[0]
    assert (
        first.logprob == first.top_logprobs[0].logprob < 0
        and bytes(first.bytes or ()).decode(errors="replace") == first.token
    )
    text = client.completions.create(model="tiny", prompt="the", temperature=0, max_tokens=4, logprobs=2).choices[0]
    assert (
        text.logprobs is not None
        and text.logprobs.tokens
        and text.logprobs.text_offset == [0, *text.logprobs.text_offset[1:]]
    )
    ids = httpx.post(
        f"{str(client.base_url).removesuffix('/v1/')}/tokenize",
        json={"content": " the", "add_special": False},
        headers={"Authorization": "Bearer given"},
    ).json()["tokens"]
    biased = client.completions.create(
        model="tiny", prompt="the", temperature=0, max_tokens=3, logit_bias={str(ids[-1]): 100}
    )
    assert biased.choices[0].text == " the the the"


def test_openai_completions_and_models(client: openai.OpenAI) -> None:
    found = client.completions.create(model="tiny", prompt=["the", "tin"], n=2, max_tokens=4, echo=True, seed=1)
    assert [choice.index for choice in found.choices] == [0, 1, 2, 3]
    assert found.choices[0].text.startswith("the") and found.choices[2].text.startswith("tin")
    streamed = client.completions.create(model="tiny", prompt="the", max_tokens=4, temperature=0, stream=True)
    whole = client.completions.create(model="tiny", prompt="the", max_tokens=4, temperature=0)
    assert "".join(piece.choices[0].text for piece in streamed) == whole.choices[0].text
    assert [model.id for model in client.models.list()] == ["tiny"]
    assert client.models.retrieve("tiny").id == "tiny"


def test_openai_errors(client: openai.OpenAI, program: Program) -> None:
    with pytest.raises(openai.NotFoundError, match="there is no model 'other'"):
        client.chat.completions.create(model="other", messages=MESSAGES)
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("other")
    with pytest.raises(openai.BadRequestError, match="temperature") as caught:
        client.chat.completions.create(model="tiny", messages=MESSAGES, temperature=-1)
    assert caught.value.param == "temperature"
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(model="tiny", prompt=[5] * 600)
    assert caught.value.code == "context_length_exceeded"
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="wrong").models.list()
    for key in ("from-a-file", "from-outside"):
        assert client.with_options(api_key=key).models.list().data


def test_as_curl_asks(program: Program) -> None:
    body = json.dumps({"messages": MESSAGES, "max_tokens": 3}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {program.url[7:]}\r\nUser-Agent: curl/8\r\nAccept: */*\r\n"
    head += (
        f"Authorization: Bearer given\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {len(body)}"
    )
    with socket.create_connection(("127.0.0.1", program.port), timeout=30) as opened:
        opened.sendall(f"{head}\r\nExpect: 100-continue\r\n\r\n".encode())
        assert opened.recv(4096).startswith(b"HTTP/1.1 100")
        opened.sendall(body)
        assert opened.recv(4096).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_lets_answers_end(path: Path, number: signal.Signals) -> None:
    with running(str(path), "--port", "0", "--ctx-size", "2048") as program:
        with socket.create_connection(("127.0.0.1", program.port), timeout=30) as opened:
            opened.sendall(b"\x16\x03\x01 no HTTP\r\n\r\n")  # of which the log says nothing unless it is asked to
            assert opened.recv(4096).startswith(b"HTTP/1.1 400")
        body = greedy(prompt="the tin", max_tokens=600, stream=True) | {"model": None}
        with httpx.stream("POST", f"{program.url}/v1/completions", json=body, timeout=60) as response:
            lines = response.iter_lines()
            next(lines)
            program.process.send_signal(number)
            time.sleep(0.3)
            with pytest.raises(httpx.ConnectError):
                httpx.get(f"{program.url}/health")
            rest = list(lines)
        assert rest[-2:] == ["data: [DONE]", ""] or rest[-1] == "data: [DONE]"
        assert '"finish_reason":"length"' in "".join(rest)
        assert program.process.wait(30) == 0
        assert program.process.stderr is not None
        assert program.process.stderr.read() == (ENDING if number == signal.SIGINT else "")


def test_answers_that_take_too_long_are_broken_off(path: Path) -> None:
    hurry = "import wgpu_engine.server.app as app; app.PATIENCE_S = 1.0"
    with running(str(path), "--port", "0", "--ctx-size", "2048", beforehand=hurry) as program:
        body = greedy(prompt="the tin", max_tokens=2000, n=8, stream=True) | {"model": None}
        with httpx.stream("POST", f"{program.url}/v1/completions", json=body, timeout=60) as response:
            lines = response.iter_lines()
            next(lines)
            start = time.monotonic()
            program.process.send_signal(signal.SIGTERM)
            with pytest.raises(httpx.RemoteProtocolError):
                list(lines)
            assert program.process.wait(20) == 0
            assert 0.9 < time.monotonic() - start < 10
        assert program.process.stderr is not None
        assert "Traceback" not in program.process.stderr.read()


def test_killed_and_started_again(path: Path) -> None:
    """Nothing on disk is the worse for it, and the next start answers the same."""
    body = greedy(prompt="the tin", max_tokens=20) | {"model": None}
    texts = []
    for _ in range(2):
        with running(str(path), "--port", "0", "--ctx-size", "2048") as program:
            texts.append(httpx.post(f"{program.url}/v1/completions", json=body, timeout=60).json()["choices"])
            with httpx.stream(
                "POST", f"{program.url}/v1/completions", json=body | {"stream": True, "max_tokens": 2000}, timeout=60
            ) as response:
                next(response.iter_lines())
                program.process.send_signal(signal.SIGKILL)
                assert program.process.wait(10) == -signal.SIGKILL
    assert texts[0] == texts[1]


def test_requests_are_logged_where_asked_for(path: Path) -> None:
    with running(str(path), "--port", "0", "--ctx-size", "320", "--log-requests") as program:
        forged = "%0D%0A%7B%22level%22%3A%22error%22%7D"
        assert httpx.get(f"{program.url}/{forged}", headers={"X-Request-Id": "mine"}).status_code == 404
        assert httpx.post(f"{program.url}/v1/completions", json={"prompt": "a", "max_tokens": 2}).status_code == 200
        program.process.send_signal(signal.SIGTERM)
        assert program.process.wait(30) == 0
        assert program.process.stderr is not None
        lines = [json.loads(line) for line in program.process.stderr.read().splitlines()]
    assert [(line["path"], line["status"]) for line in lines] == [
        ('/\r\n{"level":"error"}', 404),
        ("/v1/completions", 200),
    ]
    assert lines[0]["request_id"] == "mine" and lines[1]["completion_tokens"] == 2


def test_a_second_ctrl_c_ends_it_at_once(path: Path) -> None:
    with running(str(path), "--port", "0", "--ctx-size", "2048") as program:
        body = greedy(prompt="the tin", max_tokens=2000, stream=True) | {"model": None}
        with httpx.stream("POST", f"{program.url}/v1/completions", json=body, timeout=60) as response:
            lines = response.iter_lines()  # which would close the connection if it were let go of
            next(lines)
            start = time.monotonic()
            for _ in range(2):
                program.process.send_signal(signal.SIGINT)
                time.sleep(0.3)
            assert program.process.wait(10) == 130
            assert time.monotonic() - start < 8
        assert program.process.stderr is not None
        assert program.process.stderr.read() == ENDING


def test_addresses_that_cannot_be(path: Path, program: Program) -> None:
    for arguments in (
        ("--port", str(program.port)),
        ("--host", "192.0.2.1"),
        ("--host", "no such host.invalid"),
        ("--host", "x" * 300),
        ("--port", "70000"),
        ("--slots", "0"),
        ("--api-key-file", "absent"),
        ("--api-key", " "),
        ("--cors", "https://a.example/page"),
    ):
        command = [sys.executable, "-m", "wgpu_engine", "serve", str(path), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=os.environ | {"COLUMNS": "500"})
        assert done.returncode == 2, arguments
        assert done.stdout == "" and len(done.stderr.splitlines()) == 1, done.stderr
        assert done.stderr.startswith("error: ")
