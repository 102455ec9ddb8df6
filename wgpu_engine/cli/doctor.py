"""`wgpu-engine doctor`: what adapters there are, whether they compute rightly, and what to do where they don't."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wgpu_engine.cli import terminal
from wgpu_engine.cli.drivers import gpu_remedy, remedy
from wgpu_engine.cli.options import AsJson
from wgpu_engine.cli.progress import ProgressDisplay
from wgpu_engine.errors import EngineError, NoAdapterError

if TYPE_CHECKING:
    from wgpu_engine.gpu.device import AdapterInfo, Limits
    from wgpu_engine.ops.known_answers import KnownAnswer

EXIT_TROUBLE = 2
_NUMBERS = ("tried", "right", "largest error")


@dataclass(frozen=True)
class Verdict:
    """What it all comes to."""

    ok: bool
    summary: str
    remedy: str | None = None


def doctor(
    device: Annotated[
        str | None, typer.Option(metavar="INDEX|NAME", help="Adapter to test; by default the one that models run on.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the adapters, test every kernel on one of them, and say what to do where something is wrong.

    Leaves with 0 where models will run rightly, else with 2.

    Examples:
      wgpu-engine doctor
      wgpu-engine doctor --device 1
      wgpu-engine doctor --json > report.json
    """
    from wgpu_engine.gpu.adapters import choose_adapter, list_adapters

    adapters = list_adapters()
    if not adapters:
        verdict = Verdict(False, "no WebGPU adapter was found", remedy())
        if as_json:
            terminal.write_json(_report([], None, [], verdict))
            raise typer.Exit(EXIT_TROUBLE)
        raise NoAdapterError(f"{verdict.summary}: {verdict.remedy}")
    chosen, _ = choose_adapter(device)
    if not as_json:
        _print_adapters(adapters, chosen)
    answers: list[KnownAnswer] = []
    try:
        answers = _known_answers(chosen)
        verdict = judge(chosen, answers)
    except EngineError as error:
        verdict = Verdict(False, str(error), f"update the driver of {chosen.name}, or choose another with --device")
    if as_json:
        terminal.write_json(_report(adapters, chosen, answers, verdict))
    else:
        _print_answers(answers, verdict)
    if not verdict.ok:
        raise typer.Exit(EXIT_TROUBLE)


def judge(adapter: "AdapterInfo", answers: "list[KnownAnswer]") -> Verdict:
    """Whether models run rightly on `adapter`, and what to do where they don't or where they are slow."""
    wrong = [answer.kernel for answer in answers if not answer.passed]
    if wrong:
        return Verdict(
            False,
            f"{len(wrong)} of {len(answers)} kernels give wrong answers on {adapter.name}, first {wrong[0]}",
            f"update the driver ({adapter.driver}), choose another adapter with --device, or report it with `--json`",
        )
    summary = f"models run rightly on {adapter.name}: all {len(answers)} kernels give the known answers"
    if adapter.kind == "cpu":
        return Verdict(True, summary, f"it is no GPU but the processor, and slow; if there is a GPU, {gpu_remedy()}")
    return Verdict(True, summary)


def _known_answers(adapter: "AdapterInfo") -> "list[KnownAnswer]":
    from wgpu_engine.gpu.native import open_device
    from wgpu_engine.ops.known_answers import run_known_answers
    from wgpu_engine.platform.drive import drive

    device = drive(open_device(adapter.index))
    try:
        with ProgressDisplay() as progress:
            return drive(run_known_answers(device, progress))
    finally:
        device.close()


def _report(
    adapters: "list[AdapterInfo]", chosen: "AdapterInfo | None", answers: "list[KnownAnswer]", verdict: Verdict
) -> dict[str, Any]:
    return {
        "adapters": [{**asdict(adapter), "features": sorted(adapter.features)} for adapter in adapters],
        "chosen": chosen.index if chosen else None,
        "known_answers": [asdict(answer) for answer in answers],
        "verdict": asdict(verdict),
    }


def _print_adapters(adapters: "list[AdapterInfo]", chosen: "AdapterInfo") -> None:
    console = terminal.console()
    rows = [
        ("*" if adapter.index == chosen.index else "", adapter.index, adapter.name, adapter.kind, adapter.backend)
        for adapter in adapters
    ]
    console.print(terminal.table(["", "#", "adapter", "kind", "backend"], rows))
    console.print(f"\n* {chosen.name}")
    facts = [
        ("driver", chosen.driver or "unknown"),
        ("features", ", ".join(sorted(chosen.features)) or "none of the optional ones"),
        *_limits(chosen.limits),
    ]
    console.print(terminal.table(["", ""], facts, header=False))


def _limits(limits: "Limits") -> list[tuple[str, str]]:
    return [
        ("largest buffer", terminal.size(limits.buffer_bytes)),
        ("largest binding", terminal.size(limits.binding_bytes)),
        ("storage buffers a kernel", str(limits.storage_buffers)),
        ("invocations a workgroup", str(limits.invocations)),
        ("shared memory a workgroup", terminal.size(limits.workgroup_bytes)),
    ]


def _print_answers(answers: "list[KnownAnswer]", verdict: Verdict) -> None:
    console = terminal.console()
    if answers:
        console.print()
        console.print(
            terminal.table(["kernel", "tried", "right", "largest error"], _by_kernel(answers), right=_NUMBERS)
        )
    wrong = [(answer.kernel, answer.error) for answer in answers if not answer.passed]
    if wrong:
        console.print()
        console.print(terminal.table(["WRONG", "how"], wrong))
    style, word = ("green", "OK") if verdict.ok else ("red", "NOT OK")
    console.print(f"\n{word}: {verdict.summary}.", style=style, soft_wrap=True)
    if verdict.remedy:
        console.print(f"{verdict.remedy[0].upper()}{verdict.remedy[1:]}.", soft_wrap=True)


def _by_kernel(answers: "list[KnownAnswer]") -> list[tuple[str, int, int, str]]:
    """A line for each kernel, whose forms (types of weights, rows…) are told apart by the other words of the name."""
    groups: dict[str, list[KnownAnswer]] = {}
    for answer in answers:
        groups.setdefault(answer.kernel.split()[0], []).append(answer)
    rows = []
    for kernel, forms in groups.items():
        right = [answer.error for answer in forms if answer.passed]
        rows.append((kernel, len(forms), len(right), max(right, key=float, default="")))
    return rows
