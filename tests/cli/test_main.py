"""How the program starts and how it ends: help, exit codes, broken pipes, interrupts."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest
from typer.testing import Result

from wgpu_engine import __version__

Cli = Callable[..., Result]

COMMANDS = ["pull", "list", "rm", "info", "run", "chat", "bench", "doctor"]

ENGINE = """
import sys, time, types
from types import SimpleNamespace as N
class LLM:
    adapter, chat_template, ctx_size, warnings = N(name="Fake"), None, 64, []
    def __init__(self, model, *, progress, **options):
        progress("weights", 1 << 20, 2 << 20)
    def __enter__(self): return self
    def __exit__(self, *_): print("closed", file=sys.stderr)
    def generate(self, prompt, stream, **_):
        {body}
        yield N(text="done", tokens=[1], finish_reason="stop", timings=None)
module = types.ModuleType("wgpu_engine.engine.llm")
module.LLM = LLM
sys.modules["wgpu_engine.engine.llm"] = module
from wgpu_engine.errors import EngineError
from wgpu_engine.cli.main import main
main()
"""


def _start(body: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """The program in a process of its own, its engine doing `body` for an answer."""
    return subprocess.Popen(
        [sys.executable, "-c", ENGINE.replace("{body}", body), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


def test_help_names_every_command(cli: Cli) -> None:
    result = cli("--help")
    assert result.exit_code == 0
    assert all(command in result.stdout for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_each_commands_help_shows_examples_line_by_line(cli: Cli, command: str) -> None:
    result = cli(command, "--help", env={"COLUMNS": "160", "TERM": "dumb"})
    assert result.exit_code == 0
    lines = [line.strip() for line in result.stdout.splitlines()]
    assert "Examples:" in lines
    assert any(line.startswith(f"wgpu-engine {command}") for line in lines)


def test_help_comes_at_once() -> None:
    """Within four times what the library for command lines takes to be imported."""

    def seconds(*arguments: str) -> float:
        """Processor time, since a busy machine is not the program's fault."""
        before = os.times()
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    tries = [(seconds("-m", "wgpu_engine", "--help"), seconds("-c", "import typer")) for _ in range(5)]
    assert min(ours for ours, _ in tries) < 4 * min(library for _, library in tries)


def test_run_starts_without_what_it_does_not_need() -> None:
    program = _start("import json; print(json.dumps(sorted(sys.modules)))", "run", "m", "x")
    modules, _ = program.communicate(timeout=30)
    for unwanted in ("httpx", "typer.rich_utils", "rich.progress", "numpy", "wgpu", "gguf"):
        assert f'"{unwanted}"' not in modules


def test_version(cli: Cli) -> None:
    assert cli("--version").stdout == f"wgpu-engine {__version__}\n"


def test_an_unknown_command_is_refused(cli: Cli) -> None:
    result = cli("dance")
    assert result.exit_code == 2 and result.stderr.startswith("error: no such command 'dance'")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("run --precision odd m x", "--precision': 'odd' is not one of 'fast', 'exact'"),
        ("info --memory-budget much", "'much' is no size: write it like 512M or 4G"),
        ("bench -n -1", "--new-tokens must be a whole number of at least 0;"),
        ("run m x --top-p 1.5", "--top-p must be a number from 0 to 1;"),
        ("serve m --port much", "--port must be a whole number from 0 to 65535;"),
        ("run m x -t nan", "--temperature must be a number from 0 to 100;"),
        ("chat --nonsense", "no such option: --nonsense"),
        ("perplexity m", "missing argument 'FILE'"),
    ],
)
def test_a_wrong_call_is_one_sentence(cli: Cli, arguments: str, said: str) -> None:
    result = cli(*arguments.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ") and result.stderr.count("\n") == 1 and said in result.stderr
    assert f"{arguments.split()[0]} --help` shows" in result.stderr


def test_without_a_command_there_is_help(cli: Cli) -> None:
    result = cli()
    assert result.exit_code == 2 and "Usage:" in result.stdout and "doctor" in result.stdout


def test_an_engine_error_is_one_sentence_and_exit_code_2() -> None:
    program = _start('raise EngineError("it broke: mend it")', "run", "m", "x")
    out, err = program.communicate(timeout=30)
    assert (program.returncode, out, err) == (2, "", "closed\nerror: it broke: mend it\n")


def test_debug_shows_where_it_came_from() -> None:
    program = _start('raise EngineError("it broke: mend it")', "run", "m", "x", WGPU_ENGINE_DEBUG="1")
    _, err = program.communicate(timeout=30)
    assert program.returncode == 2 and "Traceback" in err and err.endswith("error: it broke: mend it\n")


def test_a_reader_that_leaves_ends_it_quietly() -> None:
    program = _start('yield from (N(text="x" * 10000, timings=None) for _ in range(1000))', "run", "m", "x")
    assert program.stdout is not None and program.stderr is not None
    program.stdout.read(1)
    program.stdout.close()
    assert program.stderr.read() == "closed\n"
    assert program.wait(30) == 2


def test_ctrl_c_ends_run_with_130_and_closes_the_model() -> None:
    program = _start('yield N(text="a", timings=None); time.sleep(60)', "run", "m", "x")
    assert program.stdout is not None and program.stderr is not None
    assert program.stdout.read(1) == "a"
    program.send_signal(signal.SIGINT)
    assert program.stderr.read() == "closed\n"
    assert program.wait(30) == 130


def test_an_answer_that_the_encoding_lacks_is_no_crash() -> None:
    program = _start('yield N(text="caf\\u00e9 \\U0001f600", timings=None)', "run", "m", "x", PYTHONIOENCODING="ascii")
    out, _ = program.communicate(timeout=30)
    assert (program.returncode, out) == (0, "caf? ?done\n")


def test_the_module_is_the_command() -> None:
    command = [sys.executable, "-m", "wgpu_engine", "--version"]
    assert subprocess.run(command, capture_output=True, text=True).stdout == f"wgpu-engine {__version__}\n"


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are of Unix")
def test_a_terminal_gets_bars_and_no_control_characters_of_the_model() -> None:
    terminal, inside = os.openpty()
    program = subprocess.Popen(
        [sys.executable, "-c", ENGINE.replace("{body}", r'yield N(text="a\x1b[2Jb\r", timings=None)'), "run", "m", "x"],
        stdin=inside,
        stdout=inside,
        stderr=inside,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(inside)
    seen = b""
    # a pseudo-terminal ends with an error on Linux, with no bytes elsewhere
    with contextlib.suppress(OSError):
        while piece := os.read(terminal, 4096):
            seen += piece
    os.close(terminal)
    text = seen.decode()
    assert program.wait(30) == 0
    assert "loading weights" in text and "1.0/2.0 MiB" in text
    assert "a[2Jbdone" in text


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")  # noqa: PTH110
@pytest.mark.parametrize("arguments", [["list"], ["run", "x", "hello"]])
def test_a_full_disk_behind_stdout(arguments: list[str]) -> None:
    code = ENGINE.replace("{body}", "pass")
    with open("/dev/full", "w") as full:  # noqa: PTH123
        ran = subprocess.run([sys.executable, "-c", code, *arguments], stdout=full, stderr=subprocess.PIPE, text=True)
    assert ran.returncode == 2
    assert ran.stderr.splitlines()[-1].startswith("error: the system refuses the output (No space left on device)")


@pytest.mark.skipif(os.name == "nt", reason="needs a shell that closes descriptors")
def test_a_closed_stdout_takes_nothing() -> None:
    code = ENGINE.replace("{body}", "pass")
    command = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-c", code, "run", "x", "hello"]
    ran = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    assert (ran.returncode, ran.stderr.split()) == (0, ["closed"])
