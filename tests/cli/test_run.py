"""`wgpu-engine run`."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import Result

Cli = Callable[..., Result]


def test_streams_the_answer_to_stdout_and_figures_to_stderr(cli: Cli, script: Any) -> None:
    result = cli("run", "smollm2", "Why?")
    assert result.exit_code == 0
    assert result.stdout == "Blue light scatters.\n"
    assert result.stderr == "3 tokens at 12.0 tokens/s · prompt of 5 at 10.0 tokens/s · first token after 0.75 s\n"
    assert script.closed == 1


def test_uses_the_chat_template_where_there_is_one(cli: Cli, script: Any) -> None:
    cli("run", "smollm2", "Why?")
    script.chat_template = None
    cli("run", "stories", "Once")
    assert [(kind, prompt) for kind, prompt, _ in script.asked] == [
        ("chat", [{"role": "user", "content": "Why?"}]),
        ("generate", "Once"),
    ]


def test_raw_leaves_the_template_out(cli: Cli, script: Any) -> None:
    cli("run", "smollm2", "Why?", "--raw")
    assert script.asked[0][:2] == ("generate", "Why?")


def test_options_reach_the_engine(cli: Cli, script: Any) -> None:
    cli("run", "m.gguf", "x", "--device", "1", "--ctx-size", "99", "-t", "0", "-n", "4", "--seed", "7", "--stop", "###")
    [(model, options)] = script.loaded
    assert model == "m.gguf" and options["device"] == "1" and options["ctx_size"] == 99
    sampling = script.asked[0][2]
    assert (sampling["temperature"], sampling["max_tokens"], sampling["seed"]) == (0.0, 4, 7)
    assert sampling["stop"] == ["###"]


@pytest.mark.parametrize("arguments", [("run", "smollm2"), ("run",), ("run", "smollm2", "-")])
def test_reads_the_prompt_from_a_pipe(cli: Cli, script: Any, arguments: tuple[str, ...]) -> None:
    cli(*arguments, input="Zwölf\nZeilen\n")
    assert script.loaded[0][0] == "smollm2"
    assert script.asked[0][1][0]["content"] == "Zwölf\nZeilen"


def test_refuses_a_pipe_that_is_no_text(cli: Cli, script: Any) -> None:
    result = cli("run", "smollm2", input=b"\xff\xfe\x00")
    assert result.exit_code == 2 and "UTF-8" in result.stderr
    assert not script.loaded


@pytest.mark.parametrize("text", ["", "\n"])
def test_refuses_an_empty_pipe(cli: Cli, script: Any, text: str) -> None:
    result = cli("run", "smollm2", input=text)
    assert result.exit_code == 2 and "empty" in result.stderr
    assert not script.loaded


def test_json_is_one_object(cli: Cli, script: Any) -> None:
    script.pieces = ["Blå", '"\n']
    result = cli("run", "smollm2", "Why?", "--json")
    report = json.loads(result.stdout)
    assert report["text"] == 'Blå"\n' and report["tokens"] == [0, 1]
    assert report["model"] == "smollm2" and report["adapter"] == "Fake GPU" and report["finish_reason"] == "stop"
    assert report["timings"] == {
        "prompt_tokens": 5,
        "prompt_s": 0.5,
        "completion_tokens": 2,
        "decode_s": 0.25,
        "first_token_s": 0.75,
        "prompt_per_s": 10.0,
        "decode_per_s": 8.0,
    }
    assert result.stderr == ""


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_refuses_numbers_that_are_none(cli: Cli, script: Any, value: str) -> None:
    result = cli("run", "smollm2", "x", "--presence-penalty", value)
    assert result.exit_code == 2 and "--presence-penalty" in result.stderr
    assert not script.loaded


def test_a_pipe_gets_control_characters_as_they_are(cli: Cli, script: Any) -> None:
    script.pieces = ["a\x1b[2Jb"]
    assert cli("run", "smollm2", "x").stdout == "a\x1b[2Jb\n"


def test_warnings_go_to_stderr(cli: Cli, script: Any) -> None:
    script.warnings = ["the weights of blk.0 hold NaN"]
    result = cli("run", "smollm2", "x", "--json")
    assert result.stderr == "warning: the weights of blk.0 hold NaN\n"
    assert json.loads(result.stdout)["finish_reason"] == "stop"
