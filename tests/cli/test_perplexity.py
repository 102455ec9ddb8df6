"""`wgpu-engine perplexity`, on a stand-in for which each letter has a likelihood of its own."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from tests.cli.conftest import Script

Cli = Callable[..., Result]
TEXT = "abcdefghij" * 3


@pytest.fixture
def text(tmp_path: Path) -> str:
    (tmp_path / "text.txt").write_text(TEXT)
    return str(tmp_path / "text.txt")


def test_json(cli: Cli, script: Script, text: str) -> None:
    result = cli("perplexity", "model", text, "--ctx-size", "10", "--json")
    report = json.loads(result.stdout)
    assert result.exit_code == 0 and script.loaded[0][1]["ctx_size"] == 10
    assert script.asked == [("log_probs", list(TEXT[:10].encode()), {"first": 6})] * 3
    nll = sum(map(ord, "ghij")) / 4 / 100
    assert report["nll"] == pytest.approx(nll) and report["perplexity"] == pytest.approx(math.exp(nll))
    assert (report["windows"], report["windows_wanted"], report["tokens"]) == (3, 3, 12)
    assert report["nll_error"] > 0 and report["comparison"] is None and report["stride"] is None


def test_people_get_a_table(cli: Cli, script: Script, text: str) -> None:
    result = cli("perplexity", "model", text, "--ctx-size", "10", "--stride", "5", "--chunks", "2")
    assert result.exit_code == 0 and "2 windows of 10 tokens, 5 tokens apart" in result.stdout
    assert "perplexity" in result.stdout and "±" in result.stdout and result.stderr == ""
    assert [asked[2]["first"] for asked in script.asked] == [1, 5]


def test_from_a_pipe(cli: Cli, script: Script) -> None:
    result = cli("perplexity", "model", "-", "--ctx-size", "15", "--json", input=TEXT)
    assert json.loads(result.stdout)["windows"] == 2


def test_a_context_of_512_by_default(cli: Cli, script: Script) -> None:
    result = cli("perplexity", "model", "-", input="x" * 1024)
    assert result.exit_code == 0 and script.loaded[0][1]["ctx_size"] == 512 and len(script.asked) == 2
    script.trained_for = 256
    result = cli("perplexity", "model", "-", input="x" * 1024)
    assert result.exit_code == 0 and script.loaded[1][1]["ctx_size"] == 256 and len(script.asked) == 2 + 4


@pytest.mark.parametrize(
    ("arguments", "text", "said"),
    [
        ((), b"abc", "at least 1024 tokens"),
        (("--ctx-size", "16"), TEXT.encode(), "at least 32 tokens, or a --ctx-size of at most 15"),
        (("--ctx-size", "8", "--stride", "9"), TEXT.encode(), "from 1 to the context of 8"),
        ((), b"\xff\xfe", "is not UTF-8 text (byte 0)"),
        (("--kl", "absent.kl"), TEXT.encode(), "there is no file absent.kl"),
        (("--ctx-size", "8", "--kl-base", "no/folder/x.kl"), TEXT.encode(), "can't be written"),
    ],
)
def test_refusals(cli: Cli, script: Script, arguments: tuple[str, ...], text: bytes, said: str) -> None:
    result = cli("perplexity", "model", "-", *arguments, input=text)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr and result.stderr.count("\n") == 1


def test_a_text_that_is_not_there(cli: Cli, script: Script, tmp_path: Path) -> None:
    for path in (tmp_path / "absent.txt", tmp_path):
        result = cli("perplexity", "model", str(path))
        assert result.exit_code == 2 and "check the path of the text" in result.stderr


def test_ctrl_c_shows_what_there_is(cli: Cli, script: Script, text: str) -> None:
    def interrupt(index: int) -> None:
        if index == 2:
            raise KeyboardInterrupt

    script.during = interrupt
    result = cli("perplexity", "model", text, "--ctx-size", "10")
    assert result.exit_code == 130 and "2 windows out of 3" in result.stdout and script.closed == 1
    script.asked.clear()
    script.during = lambda index: interrupt(2)
    assert (cli("perplexity", "model", text, "--ctx-size", "10").exit_code, script.closed) == (130, 2)


def test_comparing_with_a_base(cli: Cli, script: Script, text: str, tmp_path: Path) -> None:
    base = str(tmp_path / "base.kl")
    wrote = cli("perplexity", "model", text, "--ctx-size", "10", "--kl-base", base)
    assert wrote.exit_code == 0 and "the predictions are in" in wrote.stderr
    same = json.loads(cli("perplexity", "model", text, "--kl", base, "--json").stdout)
    assert same["ctx_size"] == 10 and same["comparison"]["kl"][0] == pytest.approx(0, abs=1e-7)
    assert same["comparison"]["same"] == [1, 0] and same["comparison"]["positions"] == 12
    script.boldness = -3.0
    result = cli("perplexity", "model", text, "--kl", base)
    assert result.exit_code == 0 and "mean KL from the base" in result.stdout and "99.9 %" in result.stdout
    assert "0.00 %" in result.stdout, "no likeliest token is the same"
    for arguments, said in (
        (("--chunks", "4"), "the base has 3 windows"),
        (("--ctx-size", "12"), "a context of 10 and no stride"),
    ):
        refused = cli("perplexity", "model", text, "--kl", base, *arguments)
        assert refused.exit_code == 2 and said in refused.stderr


def test_a_base_never_replaces_a_file(cli: Cli, tmp_path: Path) -> None:
    """Such as the text that was meant."""
    text = tmp_path / "text.txt"
    text.write_text("precious")
    result = cli("perplexity", "model", str(text), "--kl-base", str(text))
    assert result.exit_code == 2 and "exists already" in result.stderr
    assert text.read_text() == "precious"
