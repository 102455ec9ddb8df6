"""The commands on the real engine, with a random model small enough to load at once."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

Cli = Callable[..., Result]
TinyLlama = Callable[..., Path]


@pytest.fixture(scope="module")
def model(tiny_llama: TinyLlama) -> str:
    return str(tiny_llama())


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "wgpu_engine", *arguments]


def test_run_streams_what_json_reports(cli: Cli, model: str) -> None:
    sampling = ("-n", "12", "--seed", "3", "-t", "1.5", "--raw")
    streamed = cli("run", model, "the tin", *sampling)
    report = json.loads(cli("run", model, "the tin", *sampling, "--json").stdout)
    assert streamed.exit_code == 0 and streamed.stdout == report["text"] + "\n"
    assert "12 tokens at" in streamed.stderr
    assert len(report["tokens"]) == 12 and report["finish_reason"] == "length"
    assert report["timings"]["completion_tokens"] == 12 and report["timings"]["decode_per_s"] > 0


def test_a_prompt_in_a_pipe_is_the_prompt(model: str) -> None:
    arguments = ("-n", "8", "-t", "0", "--json")
    piped = subprocess.run(_command("run", model, *arguments), input="the tin\n", capture_output=True, text=True)
    given = subprocess.run(_command("run", model, "the tin", *arguments), capture_output=True, text=True)
    assert piped.returncode == given.returncode == 0
    assert json.loads(piped.stdout)["tokens"] == json.loads(given.stdout)["tokens"]


def test_chat_starts_anew_after_reset(cli: Cli, model: str) -> None:
    result = cli("chat", model, "-t", "0", "-n", "6", input="the tin\n/reset\nthe tin\nthe tin\n")
    assert result.exit_code == 0
    first, second, third = (
        line.split(" · prompt of ")[1].split()[0] for line in result.stderr.splitlines() if "·" in line
    )
    assert first == second and int(third) > int(first), "the third question carries the second along"


def test_chat_says_that_the_context_is_full_and_goes_on(cli: Cli, model: str) -> None:
    result = cli("chat", model, "--ctx-size", "40", input="the tin\n/reset\n" + "the tin " * 40 + "\n/reset\nthe\n")
    assert result.exit_code == 0 and result.stderr.count("the context is full: /reset") >= 2


def test_ctrl_c_stops_an_answer_and_the_next_one_comes(model: str) -> None:
    program = subprocess.Popen(
        _command("chat", model, "-t", "0", "--ctx-size", "2048"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert program.stdin is not None and program.stdout is not None
    program.stdin.write(b"the tin\n")
    program.stdin.flush()
    os.read(program.stdout.fileno(), 1)
    program.send_signal(signal.SIGINT)
    program.stdin.write(b"/reset\n" + b"the " * 3000 + b"\n")
    _, err = program.communicate(timeout=120)
    assert program.returncode == 0, err
    assert b"stopped." in err and b"starts anew" in err and b"context is full" in err


def test_ctrl_c_ends_run(model: str) -> None:
    program = subprocess.Popen(
        _command("run", model, "the tin", "-t", "0"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert program.stdout is not None
    os.read(program.stdout.fileno(), 1)
    program.send_signal(signal.SIGINT)
    _, err = program.communicate(timeout=60)
    assert program.returncode == 130 and b"Traceback" not in err


def test_bench_measures(cli: Cli, model: str) -> None:
    report = json.loads(cli("bench", model, "-p", "40", "-n", "8", "-r", "2", "--json").stdout)
    assert report["path"] == model and [result["test"] for result in report["results"]] == ["pp40", "tg8"]
    assert all(result["tokens_per_s"] > 0 and len(result["samples"]) == 2 for result in report["results"])
    assert report["dispatches_per_token"] > 0 and report["host_us_per_step"] > 0
    assert report["weight_bytes_per_token"] > 0
    assert 0 < report["ttft_s"] < 60 and 0 < report["ttft_cold_s"] < 120


def test_info_knows_what_it_takes(cli: Cli, model: str) -> None:
    report = json.loads(cli("info", model, "--json", "--ctx-size", "64").stdout)
    assert report["supported"] is True and report["memory"]["ctx_size"] == 64
    assert report["memory"]["total"] > report["memory"]["weights"] > 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--memory-budget", "1M"), "--memory-budget"),
        (("--device", "99"), "adapter"),
        (("--device", "no such card"), "no such card"),
        (("--ctx-size", "4"), "--ctx-size"),
        (("--repetition-penalty", "0"), "--repetition-penalty"),
    ],
)
def test_refusals_are_one_sentence_and_exit_code_2(
    cli: Cli, model: str, arguments: tuple[str, ...], words: str
) -> None:
    result = cli("run", model, "the tin can is on the sea shore", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ") and result.stderr.count("\n") == 1 and words in result.stderr


@pytest.mark.parametrize("prompt", ["", "\udcff"])
def test_odd_prompts_are_answered_or_refused(cli: Cli, model: str, prompt: str) -> None:
    result = cli("run", model, prompt, "-n", "2")
    assert result.exit_code in (0, 2), result.exception
    assert result.exit_code == 0 or result.stderr.count("\n") == 1


def test_no_adapter_at_all(model: str) -> None:
    nowhere = {**os.environ, "VK_ICD_FILENAMES": "/nowhere.json", "VK_DRIVER_FILES": "/nowhere.json"}
    if sys.platform != "linux":
        pytest.skip("adapters are hidden through Vulkan's loader")
    for arguments in (("run", model, "the"), ("doctor",)):
        result = subprocess.run(_command(*arguments), env=nowhere, capture_output=True, text=True)
        assert (result.returncode, result.stdout) == (2, "")
        assert result.stderr.startswith("error: no ") and result.stderr.count("\n") == 1


def test_a_model_without_a_template_continues_text_and_holds_no_chat(cli: Cli, tiny_llama: TinyLlama) -> None:
    bare = str(tiny_llama(chat_template=None))
    assert cli("run", bare, "the tin", "-n", "4").exit_code == 0
    result = cli("chat", bare, input="the\n")
    assert result.exit_code == 2 and "wgpu-engine run" in result.stderr


def test_an_architecture_that_is_not_known(cli: Cli, tiny_llama: TinyLlama) -> None:
    result = cli("run", str(tiny_llama(architecture="novel")), "the")
    assert result.exit_code == 2 and "novel" in result.stderr and "llama" in result.stderr


@pytest.mark.slow
def test_doctor_finds_all_kernels_right(cli: Cli) -> None:
    result = cli("doctor", "--json")
    report = json.loads(result.stdout)
    assert result.exit_code == 0 and report["verdict"]["ok"] is True
    assert len(report["known_answers"]) > 20 and all(answer["passed"] for answer in report["known_answers"])


@pytest.mark.model
def test_the_default_model_knows_a_capital(cli: Cli, smollm2: Path) -> None:
    result = cli("run", "smollm2", "The capital of France is", "--raw", "-t", "0", "-n", "6")
    assert result.exit_code == 0 and "Paris" in result.stdout
