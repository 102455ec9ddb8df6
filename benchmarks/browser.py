"""How fast a model runs in a page, beside the same adapter from Python and beside wllama: `make bench-browser`.

Headless Chromium and wgpudawn, both on SwiftShader out of Debian's chromium, take turns; each has chosen its kernels
before. Then comes wllama (llama.cpp in WASM on the CPU, without its GPU): its threads wait by spinning, which would
slow the others down. What the page's own thread spends is measured apart: a GPU would change nothing of it.

Usage: python benchmarks/browser.py [MODEL] [-n 32] [--rounds 3] [--no-tune] [--json FILE]
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Annotated, Any

import typer
from playwright.sync_api import Browser, Page, sync_playwright
from script import Model, run

from wgpu_engine.bundle.folder import build
from wgpu_engine.bundle.models import choose
from wgpu_engine.bundle.npm import fetch, pinned
from wgpu_engine.cli import terminal
from wgpu_engine.errors import RequestError
from wgpu_engine.files.store import Store

ICD = "/usr/lib/chromium/vk_swiftshader_icd.json"
FLAGS = (
    "--no-sandbox",
    "--enable-unsafe-webgpu",
    "--use-webgpu-adapter=swiftshader",
    "--disable-background-networking",
)
PROMPT = "Once upon a time"
CTX_SIZE = 1024
REPLAYS = 100

START = """async () => {
  const start = performance.now();
  const { Engine } = await import("/engine/engine.js");
  window.engine = await Engine.start();
  return (performance.now() - start) / 1000;
}"""
LOAD = """async ([ctx_size, tune]) => {
  const start = performance.now();
  const { models } = await (await fetch("/bundle.json")).json();
  await engine.load({ kind: "bundled", files: models[0].files, base: location.href }, { ctx_size });
  if (tune) await engine.tune();
  return (performance.now() - start) / 1000;
}"""
DECODE = """async ([prompt, count]) => {
  const sampling = { temperature: 0, max_tokens: count, ignore_eos: true };
  let last;
  for await (const chunk of engine.generate(prompt, sampling)) last = chunk;
  return last.timings.predicted_per_second;
}"""
WLLAMA_LOAD = """async ([threads, ctx_size]) => {
  const { Wllama } = await import("/peers/wllama.js");
  window.wllama = new Wllama({ default: "/peers/wllama.wasm" });
  const { models } = await (await fetch("/bundle.json")).json();
  const parts = await Promise.all(models[0].files.map(async ({ path }) => (await fetch("/" + path)).blob()));
  await wllama.loadModel(parts, { n_threads: threads, n_ctx: ctx_size, n_gpu_layers: 0 });
  return wllama.getNumThreads();
}"""
WLLAMA_DECODE = """async ([prompt, count]) => {
  let first = null, tokens = 0, now = 0;
  const asked = { prompt, max_tokens: count, temperature: 0, ignore_eos: true, cache_prompt: false, stream: true };
  for await (const chunk of await wllama.createCompletion(asked)) {
    if (!chunk.choices?.[0]?.text) continue;
    now = performance.now();
    first ??= now;
    tokens += 1;
  }
  return (1000 * (tokens - 1)) / (now - first);
}"""
DESKTOP = """
import sys
from wgpu_engine import LLM
model, prompt, count, ctx_size, tune = sys.argv[1:]
with LLM(model, ctx_size=int(ctx_size)) as llm:
    if tune:
        llm.tune()
    print("ready", flush=True)
    for _ in sys.stdin:
        answer = llm.generate(prompt, temperature=0, max_tokens=int(count), ignore_eos=True)
        print(answer.timings.decode_per_s, flush=True)
"""


class Desktop:
    """The same model on the same adapter, in a process of its own that has it loaded."""

    def __init__(self, model: str, count: int, tune: bool) -> None:
        env = {**os.environ, "WGPU_ENGINE_BACKEND": "dawn", "VK_ICD_FILENAMES": ICD, "VK_DRIVER_FILES": ICD}
        command = [sys.executable, "-c", DESKTOP, model, PROMPT, str(count), str(CTX_SIZE), "tune" if tune else ""]
        self._process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._line()

    def decode(self) -> float:
        """Tokens/s of an answer."""
        assert self._process.stdin
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        return float(self._line())

    def _line(self) -> str:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise RequestError("the engine on Dawn ended: see its message above")
        return line

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()


class _Isolated(SimpleHTTPRequestHandler):
    """Static files, with the headers without which wllama has one thread."""

    def end_headers(self) -> None:
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        super().end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Where a folder is served."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Isolated, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://localhost:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


def starts(browser: Browser, url: str) -> tuple[float, float]:
    """Seconds to a ready engine without a model: with nothing kept, and on the next visit."""
    context = browser.new_context()
    seconds = []
    for _ in range(2):
        page = context.new_page()
        page.goto(url + "blank.html")
        seconds.append(float(page.evaluate(START)))
        page.close()
    context.close()
    return seconds[0], seconds[1]


def main(
    model: Model = "smollm2",
    tokens: Annotated[int, typer.Option("-n", help="Tokens to write.", min=2)] = 32,
    rounds: Annotated[int, typer.Option(help="Rounds, in each of which all take their turn.", min=1)] = 3,
    tune: Annotated[bool, typer.Option(help="First find the fastest kernels, in the page and on Dawn.")] = True,
    output: Annotated[Path | None, typer.Option("--json", help="Keep every sample in this file.")] = None,
) -> None:
    chromium = shutil.which("chromium")
    if chromium is None or not Path(ICD).exists():
        raise RequestError("chromium and its SwiftShader are needed: install Debian's package chromium")
    found: dict[str, list[float]] = {name: [] for name in ("page", "dawn", "wllama", "replay_us", "python_us")}
    threads = os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as playwright:
        folder = Path(temporary) / "bundle"
        build(folder, [choose(model, Store())], Path("build") / "bundle-cache")
        fetch(pinned("benchmarks"), folder / "peers")
        (folder / "blank.html").write_text("<!doctype html><title>benchmark</title>")
        browser = playwright.chromium.launch(executable_path=chromium, args=[*FLAGS])
        with served(folder) as url:
            cold, warm = starts(browser, url)
            page = _page(browser, url)
            page.evaluate(START)
            load = page.evaluate(LOAD, [CTX_SIZE, tune])
            desktop = Desktop(model, tokens, tune)
            asked = [PROMPT, tokens]
            _take_turns(rounds, {"page": lambda: page.evaluate(DECODE, asked), "dawn": desktop.decode}, found)
            desktop.close()
            for _ in range(rounds):
                cost = page.evaluate(f"engine.cost({REPLAYS})")
                found["replay_us"].append(cost["replay_us"])
                found["python_us"].append(cost["python_us"])
            page.close()
            other = _page(browser, url)
            threads = other.evaluate(WLLAMA_LOAD, [threads, CTX_SIZE])
            _take_turns(rounds, {"wllama": lambda: other.evaluate(WLLAMA_DECODE, asked)}, found)
        browser.close()
    if output:
        samples = {"cold_s": cold, "warm_s": warm, "load_s": load, "threads": threads, **found}
        output.write_text(json.dumps(samples, indent=2))
    median = {name: statistics.median(samples) for name, samples in found.items()}
    console = terminal.console()
    console.print(
        terminal.table(
            ["", "tokens/s", "the page's ratio"],
            [
                ("page", f"{median['page']:.2f}", ""),
                ("Dawn from Python", f"{median['dawn']:.2f}", f"{median['page'] / median['dawn']:.2f}"),
                (f"wllama, {threads} threads", f"{median['wllama']:.2f}", f"{median['page'] / median['wllama']:.3f}"),
            ],
            right=("tokens/s", "the page's ratio"),
        )
    )
    console.print(
        terminal.table(
            ["", ""],
            [
                ("engine ready, nothing kept", f"{cold:.1f} s"),
                ("engine ready, next visit", f"{warm:.1f} s"),
                ("model loaded and kernels compiled", f"{load:.1f} s"),
                (f"a step's replay, mean of {REPLAYS}", f"{median['replay_us']:.0f} µs"),
                ("a step's Python beside it", f"{median['python_us']:.0f} µs"),
            ],
            header=False,
        )
    )


def _take_turns(rounds: int, turns: dict[str, Callable[[], float]], found: dict[str, list[float]]) -> None:
    for number in range(rounds + 1):
        for name, turn in turns.items():
            speed = turn()
            if number:  # the first one warms up
                found[name].append(speed)


def _page(browser: Browser, url: str) -> Page:
    page = browser.new_context().new_page()
    page.set_default_timeout(0)
    page.goto(url + "blank.html")
    return page


if __name__ == "__main__":
    run(main)
