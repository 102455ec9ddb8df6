"""`wgpu-engine bench`."""

import json
import os
import stat
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import Result

from wgpu_engine.cli.memory import PeakMemory, anonymous_bytes

Cli = Callable[..., Result]


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A program that takes the place of the fresh process: notes its arguments and says a word."""
    program = tmp_path / "python"
    lines = ("#!/bin/sh", f'printf "%s\\n" "$@" > {tmp_path}/arguments', f'echo "$XDG_CACHE_HOME" >> {tmp_path}/caches')
    program.write_text("\n".join([*lines, "sleep 0.1", "printf word"]))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(sys, "executable", str(program))
    return program


def test_json_has_the_agreed_fields(cli: Cli, script: Any, process: Path) -> None:
    report = json.loads(cli("bench", "smollm2", "-p", "128", "-n", "64", "-r", "3", "--json").stdout)
    assert list(report) == [
        *["model", "path", "adapter", "results", "dispatches_per_token", "host_us_per_step"],
        *["weight_bytes_per_token", "peak_anonymous_mb", "ttft_s", "ttft_cold_s"],
    ]
    assert report["model"] == "smollm2" and report["path"] == "/models/fake.gguf" and report["adapter"] == "Fake GPU"
    assert report["dispatches_per_token"] == 241 and report["host_us_per_step"] == 900.5
    assert report["weight_bytes_per_token"] == 97_000_000
    assert [result["test"] for result in report["results"]] == ["pp128", "tg64"]
    assert 0.1 < report["ttft_s"] < 5


def test_median_and_spread_leave_the_warm_up_out(cli: Cli, script: Any, process: Path) -> None:
    seconds = iter([100.0, 1.0, 4.0, 2.0])
    script.timings = lambda prompt, _: SimpleNamespace(prompt_per_s=prompt / next(seconds))
    [result] = json.loads(cli("bench", "-p", "8", "-n", "0", "-r", "3", "--json").stdout)["results"]
    assert result["samples"] == [8.0, 2.0, 4.0] and result["tokens_per_s"] == 4.0
    assert result["stddev"] == pytest.approx(3.0551, abs=1e-4)


def test_prompts_have_their_length_and_never_repeat(cli: Cli, script: Any, process: Path) -> None:
    cli("bench", "-p", "500", "-n", "7", "-r", "2", "--json")
    prompts = [(tuple(prompt), sampling) for _, prompt, sampling in script.asked]
    assert [len(prompt) for prompt, _ in prompts] == [500, 500, 500, 1, 1, 1]
    assert len({prompt[0] for prompt, _ in prompts[:3]}) == 3
    assert [sampling["max_tokens"] for _, sampling in prompts] == [1, 1, 1, 7, 7, 7]
    assert all(sampling["ignore_eos"] for _, sampling in prompts)


def test_the_fresh_process_runs_the_same_way(cli: Cli, script: Any, process: Path) -> None:
    cli("bench", "-r", "1", "--precision", "exact", "--memory-budget", "1G", "--device", "0", "--json")
    arguments = process.with_name("arguments").read_text().splitlines()
    assert arguments[:3] == ["-m", "wgpu_engine", "run"] and "--raw" in arguments
    assert arguments[-2] == "/models/fake.gguf" and len(arguments[-1]) == 20
    pairs = dict(pairwise(arguments))
    assert (pairs["--precision"], pairs["--memory-budget"], pairs["--device"]) == ("exact", str(1 << 30), "0")
    assert "--ctx-size" not in arguments


def test_the_second_process_finds_empty_caches(cli: Cli, script: Any, process: Path) -> None:
    cli("bench", "-r", "1", "--json", env={"XDG_CACHE_HOME": "/warm"})
    warm, cold = process.with_name("caches").read_text().splitlines()
    assert warm == "/warm" and cold not in ("", "/warm") and not Path(cold).exists()


@pytest.mark.parametrize("body", ["exit 0", "printf word; exit 2"])
def test_a_fresh_process_that_fails_has_no_time(cli: Cli, script: Any, process: Path, body: str) -> None:
    process.write_text(f"#!/bin/sh\n{body}\n")
    assert json.loads(cli("bench", "-r", "1", "--json").stdout)["ttft_s"] is None
    assert "failed" in cli("bench", "-r", "1").stdout


def test_people_get_a_table(cli: Cli, script: Any, process: Path) -> None:
    result = cli("bench", "smollm2", "-r", "1")
    assert "pp128" in result.stdout and "256.00" in result.stdout and "± 0.00" in result.stdout
    assert "241" in result.stdout and "92.5 MiB" in result.stdout


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells")
def test_peak_memory_sees_what_was_given_back() -> None:
    before = anonymous_bytes()
    assert before is not None
    with PeakMemory() as peak:
        block = bytearray(os.urandom(1 << 16) * 1024)
        time.sleep(0.1)
        del block
    assert peak.megabytes is not None and peak.megabytes * 1e6 > before + 60 * (1 << 20)


def test_peak_memory_is_none_where_the_system_does_not_tell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("wgpu_engine.cli.memory._STATUS", tmp_path / "absent")
    with PeakMemory() as peak:
        pass
    assert peak.megabytes is None
