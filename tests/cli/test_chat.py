"""`wgpu-engine chat`, and the conversation behind it."""

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import Result

from wgpu_engine.errors import ContextFullError, DeviceLostError, RequestError

Cli = Callable[..., Result]


def _messages(script: Any) -> list[list[str]]:
    """What each question sent, as `role: content`."""
    return [[f"{message['role']}: {message['content']}" for message in asked[1]] for asked in script.asked]


def test_remembers_the_conversation(cli: Cli, script: Any) -> None:
    script.pieces = ["A."]
    result = cli("chat", "smollm2", input="one\n\ntwo\n")
    assert result.exit_code == 0 and result.stdout == "A.\nA.\n"
    assert _messages(script) == [["user: one"], ["user: one", "assistant: A.", "user: two"]]
    assert script.closed == 1


def test_reset_keeps_the_system_prompt_and_system_starts_anew(cli: Cli, script: Any) -> None:
    script.pieces = ["A."]
    cli("chat", input="one\n/system Be brief. \ntwo\n/reset\nthree\n/system\nfour\n")
    assert _messages(script) == [
        ["user: one"],
        ["system: Be brief.", "user: two"],
        ["system: Be brief.", "user: three"],
        ["user: four"],
    ]


def test_exit_and_help_and_unknown_commands(cli: Cli, script: Any) -> None:
    result = cli("chat", input="/help\n/dance now\n/exit\nunheard\n")
    assert "/reset" in result.stderr and "no command /dance" in result.stderr
    assert not script.asked and result.exit_code == 0


def test_ctrl_c_stops_the_answer_and_not_the_program(cli: Cli, script: Any) -> None:
    def press(index: int) -> None:
        if index == 1 and len(script.asked) == 1:
            os.kill(os.getpid(), signal.SIGINT)

    script.during = press
    before = signal.getsignal(signal.SIGINT)
    result = cli("chat", input="one\ntwo\n")
    assert result.exit_code == 0 and "stopped." in result.stderr
    assert result.stdout == "Blue light\nBlue light scatters.\n"
    assert _messages(script)[1] == ["user: one", "assistant: Blue light", "user: two"]
    assert script.streams_closed == 2
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_ctrl_c_does_not_wait_for_the_next_piece(cli: Cli, script: Any) -> None:
    def press(index: int) -> None:
        if len(script.asked) == 1:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
            raise AssertionError("it went on")

    script.during = press
    result = cli("chat", input="one\ntwo\n")
    assert result.exit_code == 0 and result.stdout == "\nBlue light scatters.\n"
    assert _messages(script)[1] == ["user: two"]


def test_a_full_context_is_said_and_forgotten(cli: Cli, script: Any) -> None:
    script.answer_error = ContextFullError("the prompt is too long")
    result = cli("chat", input="one\n")
    assert "the context is full: /reset" in result.stderr and result.exit_code == 0

    script.answer_error, script.finish_reason = None, "length"
    result = cli("chat", input="one\n")
    assert result.stdout == "Blue light scatters.\n" and "the context is full: /reset" in result.stderr


def test_an_answer_cut_by_max_tokens_is_no_full_context(cli: Cli, script: Any) -> None:
    script.finish_reason = "length"
    assert "full" not in cli("chat", "-n", "3", input="one\n").stderr


def test_a_refused_question_leaves_the_conversation_as_it_was(cli: Cli, script: Any) -> None:
    script.answer_error = RequestError("the template takes no system message: /system drops it")
    result = cli("chat", input="one\n")
    assert "takes no system message" in result.stderr and result.exit_code == 0


def test_a_lost_device_ends_the_chat(cli: Cli, script: Any) -> None:
    script.answer_error = DeviceLostError("the device is gone: start again")
    result = cli("chat", input="one\ntwo\n")
    assert result.exit_code == 2 and result.stderr == "error: the device is gone: start again\n"
    assert len(script.asked) == 1 and script.closed == 1


def test_refuses_a_model_without_a_template(cli: Cli, script: Any) -> None:
    script.chat_template = None
    result = cli("chat", "stories260K", input="one\n")
    assert result.exit_code == 2 and "wgpu-engine run" in result.stderr


def test_refuses_input_that_is_no_text(cli: Cli, script: Any) -> None:
    result = cli("chat", input=b"\xff\xfe\n")
    assert result.exit_code == 2 and "UTF-8" in result.stderr


@pytest.mark.parametrize("arguments", [("chat", "smollm2", "--seed", "5"), ("chat", "--seed", "5")])
def test_options_reach_the_engine(cli: Cli, script: Any, arguments: tuple[str, ...]) -> None:
    cli(*arguments, "--ctx-size", "32", input="one\n")
    assert script.loaded[0][0] == "smollm2" and script.loaded[0][1]["ctx_size"] == 32
    assert script.asked[0][2]["seed"] == 5
