"""What the README shows of the server, against one."""

import contextlib
import io
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.server.conftest import Program, running

README = (ROOT / "README.md").read_text(encoding="utf-8")
SERVING = README[README.index("## Serving") : README.index("## What it runs")]
ADDRESS = "localhost:8080"


@pytest.fixture(scope="module")
def program(tiny_llama: Callable[..., Path]) -> Iterator[Program]:
    with running(str(tiny_llama()), "--port", "0", "--alias", "smollm2", "--ctx-size", "512") as opened:
        yield opened


@pytest.mark.skipif(not shutil.which("curl"), reason="there is no curl")
def test_curl(program: Program) -> None:
    lines = re.findall(r"^\$ (curl .*)$", SERVING, re.MULTILINE)
    assert lines
    for line in lines:
        command = shlex.split(line.replace(ADDRESS, f"127.0.0.1:{program.port}"))
        done = subprocess.run([*command, "--silent", "--show-error"], capture_output=True, text=True, timeout=60)
        answer = json.loads(done.stdout)
        assert done.returncode == 0 and answer["choices"][0]["message"]["role"] == "assistant", answer


def test_python(program: Program) -> None:
    (block,) = re.findall(r"^```python\n(.*?)^```", SERVING, re.MULTILINE | re.DOTALL)
    code = block.replace(ADDRESS, f"127.0.0.1:{program.port}").replace("stream=True", "stream=True, max_tokens=20")
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(code, {})
    assert said.getvalue()
