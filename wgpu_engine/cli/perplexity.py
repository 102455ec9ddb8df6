"""`wgpu-engine perplexity`: how well a model predicts a text, and how far that is from what another run predicts."""

import sys
import time
from contextlib import ExitStack
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer

from wgpu_engine.cli import terminal
from wgpu_engine.cli.loading import open_llm
from wgpu_engine.cli.options import AsJson, ModelName, ModelOptions
from wgpu_engine.errors import RequestError

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from wgpu_engine.engine.divergence import Summary
    from wgpu_engine.engine.kl_base import BaseReader
    from wgpu_engine.engine.llm import LLM
    from wgpu_engine.engine.perplexity import Estimate, Scores, Window

_DEFAULT_CONTEXT = 512
_EXIT_INTERRUPTED = 130


def perplexity(
    options: ModelOptions,
    model: ModelName,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Text in UTF-8; `-` reads it from a pipe.")],
    stride: Annotated[
        int | None,
        typer.Option(min=1, metavar="TOKENS", help="Let windows begin so far apart, and count each token once."),
    ] = None,
    chunks: Annotated[int | None, typer.Option(min=1, help="Read no more windows than this.")] = None,
    kl_base: Annotated[
        Path | None,
        typer.Option(metavar="PATH", dir_okay=False, help="Write this run's predictions, to compare others with."),
    ] = None,
    kl: Annotated[
        Path | None,
        typer.Option(metavar="PATH", dir_okay=False, help="Compare with a run that was written by --kl-base."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure how well a model predicts a text: its perplexity, lower being better.

    The text is read in windows of --ctx-size tokens (512, or what the
    model was trained for if that is less), of each of which the second
    half counts. Ctrl-C ends it with what has been found so far.

    Examples:
      wgpu-engine perplexity smollm2 wiki.test.raw
      wgpu-engine perplexity smollm2 book.txt --ctx-size 1024 --stride 256
      wgpu-engine perplexity ./f16.gguf text.txt --kl-base base.kl
      wgpu-engine perplexity ./q4.gguf text.txt --kl base.kl
      cat text.txt | wgpu-engine perplexity smollm2 - --json
    """
    from wgpu_engine.engine.kl_base import BaseHeader, BaseReader, BaseWriter
    from wgpu_engine.engine.perplexity import measure

    if kl_base is not None and kl_base.exists():
        raise RequestError(f"{kl_base} exists already: give --kl-base another name, or remove it first")
    text = _read_text(file)
    with ExitStack() as stack:
        base = stack.enter_context(BaseReader(kl)) if kl is not None else None
        ctx_size = options.ctx_size or (base.header.ctx_size if base else _usual_context(model))
        stride = stride or (base.header.stride if base else None)
        llm = stack.enter_context(open_llm(model, replace(options, ctx_size=ctx_size)))
        # as text: what looks like a marker is none here
        ids = llm.tokenizer.encode(text, parse_special=False)
        plan = _plan(ids, llm, ctx_size, stride, chunks, base)
        writer = None
        if kl_base is not None:
            header = BaseHeader(model, llm.description.vocab, ctx_size, stride, len(ids), len(plan), 0)
            writer = stack.enter_context(BaseWriter(kl_base, header, ids))
        scores: Scores | None = None
        interrupted = False
        start = time.perf_counter()
        with _Bar(len(plan)) as bar:
            try:
                for scores in measure(llm, ids, plan, base=base, writer=writer):
                    bar.show(scores, time.perf_counter() - start)
            except KeyboardInterrupt:
                interrupted = True
        if scores is None or not scores.windows:
            raise KeyboardInterrupt
        if writer is not None:
            writer.commit()
        report = {
            "model": model,
            "adapter": llm.adapter.name,
            "precision": options.precision,
            "ctx_size": ctx_size,
            "stride": stride,
            "windows": scores.windows,
            "windows_wanted": len(plan),
            "tokens": len(scores.nll),
            **_figures(scores, time.perf_counter() - start),
        }
    if as_json:
        terminal.write_json(report)
    else:
        _print(report, scores)
        if kl_base is not None:
            terminal.note(f"the predictions are in {kl_base} ({terminal.size(kl_base.stat().st_size)})")
    if interrupted:
        raise typer.Exit(_EXIT_INTERRUPTED)


def _usual_context(model: str) -> int:
    from wgpu_engine.engine.memory import context_size
    from wgpu_engine.engine.opening import described
    from wgpu_engine.platform.drive import drive

    return min(_DEFAULT_CONTEXT, context_size(drive(described(model)), None))


def _read_text(file: str) -> str:
    if file == "-":
        if sys.stdin is None or sys.stdin.isatty():
            raise RequestError("there is no text on stdin: pipe one in, or give a file")
        data, name = sys.stdin.buffer.read(), "the text on stdin"
    else:
        try:
            data, name = Path(file).read_bytes(), file
        except OSError as error:
            raise RequestError(f"{file} can't be read ({error.strerror}): check the path of the text") from error
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise RequestError(f"{name} is not UTF-8 text (byte {error.start}): convert it first") from error


def _plan(
    ids: list[int], llm: "LLM", ctx_size: int, stride: int | None, chunks: int | None, base: "BaseReader | None"
) -> "list[Window]":
    """The windows to read: as many as there are, as were asked for, or as the base has."""
    from wgpu_engine.engine.perplexity import check_windows, windows

    check_windows(len(ids), ctx_size, stride)
    if base is not None:
        base.check(ids, llm.description.vocab, ctx_size, stride)
        if chunks is not None and chunks > base.header.windows:
            raise RequestError(f"the base has {base.header.windows} windows: give a --chunks of at most so many")
        chunks = chunks or base.header.windows
    return list(islice(windows(len(ids), ctx_size, stride), chunks))


def _figures(scores: "Scores", seconds: float) -> dict[str, Any]:
    from wgpu_engine.engine.perplexity import Estimate

    nll, found = Estimate.of(scores.nll), scores.perplexity
    return {
        "nll": nll.value,
        "nll_error": nll.error,
        "perplexity": found.value,
        "perplexity_error": found.error,
        "seconds": seconds,
        "tokens_per_s": scores.tokens_read / seconds,
        "comparison": asdict(scores.comparison.summary()) if scores.comparison else None,
    }


def _print(report: dict[str, Any], scores: "Scores") -> None:
    console = terminal.console()
    windows = f"{report['windows']} window{'s' if report['windows'] > 1 else ''}"
    if report["windows"] < report["windows_wanted"]:
        windows += f" out of {report['windows_wanted']}"
    how = f"{report['stride']} tokens apart" if report["stride"] else "the second half of each counted"
    console.print(terminal.printable(f"{report['model']} on {report['adapter']}, {report['precision']}"))
    console.print(f"{windows} of {report['ctx_size']} tokens, {how}\n")
    rows = [
        ("perplexity", f"{report['perplexity']:.4f}", f"± {report['perplexity_error']:.4f}"),
        ("nats a token", f"{report['nll']:.5f}", f"± {report['nll_error']:.5f}"),
        ("tokens counted", f"{report['tokens']:,}", ""),
        ("tokens/s", f"{report['tokens_per_s']:.1f}", ""),
    ]
    if scores.comparison is None:
        console.print(terminal.table(["", "value", "error"], rows, right=["value", "error"], header=False))
        return
    found = scores.comparison.summary()
    rows[2:2] = [
        ("perplexity of the base", *_pair(found.base_perplexity, 4)),
        ("ratio to the base", *_pair(found.ratio, 5)),
        ("mean KL from the base, nats", *_pair(found.kl, 6)),
        ("same likeliest token", *_pair((100 * found.same[0], 100 * found.same[1]), 2, " %")),
        ("mean change of probability", *_pair((100 * found.change[0], 100 * found.change[1]), 3, " %")),
        ("RMS change of probability", f"{100 * found.change_rms:.3f} %", ""),
    ]
    console.print(terminal.table(["", "value", "error"], rows, right=["value", "error"], header=False))
    console.print()
    console.print(_quantiles(found))


def _quantiles(found: "Summary") -> Any:
    rows = [
        (name, f"{found.kl_quantiles[name]:.6f}", f"{100 * found.change_quantiles[name]:+.3f} %")
        for name in found.kl_quantiles
    ]
    columns = ["quantile", "KL, nats", "change of probability"]
    return terminal.table(columns, rows, right=columns)


def _pair(values: tuple[float, float], digits: int, unit: str = "") -> tuple[str, str]:
    return f"{values[0]:.{digits}f}{unit}", f"± {values[1]:.{digits}f}{unit}"


class _Bar:
    """A bar on stderr over the windows, with the perplexity so far; silent where nobody looks on."""

    def __init__(self, windows: int) -> None:
        self._windows = windows
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            self._progress = Progress(
                TextColumn("reading"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[found]}"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._progress.start()
            self._task = self._progress.add_task("", total=self._windows, found="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def show(self, scores: "Scores", seconds: float) -> None:
        if self._progress is None or self._task is None:
            return
        found: Estimate = scores.perplexity
        text = f"perplexity {found.value:.3f} ± {found.error:.3f} · {scores.tokens_read / seconds:.0f} tokens/s"
        self._progress.update(self._task, completed=scores.windows, found=text)
