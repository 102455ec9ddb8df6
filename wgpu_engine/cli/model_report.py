"""What `wgpu-engine info` found out of a model, for people to read."""

from typing import Any

from wgpu_engine.cli import terminal

_UNUSED_SHOWN = 3


def print_report(report: dict[str, Any]) -> None:
    """Prints what `info --json` writes."""
    console = terminal.console()
    for name, fact in _facts(report):
        console.print(f"{name:14}", style="dim", end="")
        console.print(terminal.printable(fact)[:300], soft_wrap=True)
    rows = [
        (name, f"{each['count']:,}", "?" if each["bytes"] is None else terminal.size(each["bytes"]))
        for name, each in report["tensors"].items()
    ]
    if rows:
        console.print()
        console.print(terminal.table(["type", "tensors", "size"], rows, right=["tensors", "size"]))
    if report["memory"] is not None:
        console.print()
        _print_memory(console, report["memory"], report["encodes"])
    console.print()
    for warning in report["warnings"]:
        console.print(terminal.printable(f"! {warning}"), style="yellow", soft_wrap=True)
    if not report["obstacles"]:
        console.print("It runs.", style="green")
        return
    console.print("It does not run:", style="red")
    for obstacle in report["obstacles"]:
        console.print(terminal.printable(f"- {obstacle}"), soft_wrap=True)


def _facts(report: dict[str, Any]) -> list[tuple[str, str]]:
    shape = [f"{report['layers']} layers of {report['width']:,} values"] if report["layers"] else []
    if report["parameters"]:
        shape.append(f"{_number(report['parameters'])} parameters")
        if report["active_parameters"] not in (None, report["parameters"]):
            shape.append(f"{_number(report['active_parameters'])} of them for a token")
    facts = [
        ("path", report["path"]),
        ("files", f"{report['kind']}, {terminal.size(report['file_bytes'])}"),
        ("name", report["name"]),
        ("architecture", ", ".join([str(report["architecture"] or "not named"), *shape])),
        ("context", None if report["encodes"] else report["context"] and f"{report['context']:,} positions"),
        ("embeds", report["encodes"] and f"texts of up to {report['context']:,} tokens"),
        ("tokenizer", report["tokenizer"] and _tokenizer(report["tokenizer"])),
        ("chat template", None if report["encodes"] else _template(report["chat_template"])),
        ("license", report["license"]),
        ("unused", _unused(report["unused_tensors"])),
    ]
    return [(name, str(fact)) for name, fact in facts if fact]


def _number(count: int) -> str:
    for unit, word in ((10**9, "billion"), (10**6, "million")):
        if count >= unit:
            return f"{count / unit:,.1f} {word}"
    return f"{count:,}"


def _tokenizer(tokenizer: dict[str, Any]) -> str:
    if tokenizer["kind"] == "none":
        return "none: token ids can be given, from Python, and no text"
    pre = f" ({tokenizer['pre']})" if tokenizer["pre"] else ""
    tokens = f", {tokenizer['tokens']:,} tokens" if tokenizer["tokens"] else ""
    return f"{tokenizer['kind'] or 'not named'}{pre}{tokens}"


def _template(template: dict[str, Any] | None) -> str:
    if template is None:
        return "none"
    origin = (
        "the file's own" if template["origin"] == "file" else f"none in the file, so the built-in {template['origin']}"
    )
    return f"{origin}, {'takes tools' if template['tools'] else 'without tools'}"


def _unused(names: list[str]) -> str | None:
    if not names:
        return None
    more = f" and {len(names) - _UNUSED_SHOWN} more" if len(names) > _UNUSED_SHOWN else ""
    return f"{', '.join(names[:_UNUSED_SHOWN])}{more}"


def _print_memory(console: Any, memory: dict[str, Any], encodes: bool) -> None:
    room = "texts of" if encodes else "a context of"
    cache = "keys and values of a text" if encodes else "the KV cache"
    console.print(
        f"It takes {terminal.size(memory['total'])} with {room} {memory['ctx_size']:,}{' tokens' if encodes else ''}: "
        f"{terminal.size(memory['weights'])} for weights, {terminal.size(memory['kv'])} for {cache}, the rest to "
        "work in.",
        soft_wrap=True,
    )
    if memory["available"] is not None:
        verdict = "fits" if memory["fits"] else "does NOT fit"
        where, free = memory["adapter"] or "the budget", terminal.size(memory["available"])
        console.print(f"It {verdict} {terminal.printable(where)}: {free} are free.", soft_wrap=True)
    elif memory["adapter"] is not None:
        console.print(f"{terminal.printable(memory['adapter'])} does not tell how much it has.", soft_wrap=True)
    else:
        console.print('There is no adapter to run it on: see "wgpu-engine doctor".', soft_wrap=True)
