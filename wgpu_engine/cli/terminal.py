"""What goes to the terminal: answers to stdout, everything else to stderr.

Rich is imported only where something is drawn for a person, so that a script's `run` does not wait for it.
"""

import json
import re
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    """`text` without control characters, which could drive the reader's terminal; keeps tabs and line breaks."""
    return _CONTROL.sub("", text)


def write(text: str) -> None:
    """Write a piece of an answer to stdout at once; a terminal gets no control characters, a pipe gets all."""
    sys.stdout.write(printable(text) if sys.stdout.isatty() else text)
    sys.stdout.flush()


def write_json(value: Any) -> None:
    """Write `value` to stdout as JSON, indented."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def note(text: str) -> None:
    """Tell something beside the answer on stderr, dimmed on a terminal."""
    _stderr_line(text, "dim")


def complain(text: str) -> None:
    """Tell what went wrong on stderr."""
    _stderr_line(f"error: {text}", "red")


def _stderr_line(text: str, style: str) -> None:
    if sys.stderr.isatty():
        from rich.console import Console

        Console(stderr=True, markup=False, highlight=False, emoji=False).print(
            printable(text), style=style, soft_wrap=True
        )
    else:
        print(printable(text), file=sys.stderr, flush=True)


def console() -> "Console":
    """Rich console on stdout, for tables; never interprets markup in names out of files."""
    from rich.console import Console

    return Console(markup=False, highlight=False, emoji=False)


def table(
    columns: Iterable[str], rows: Iterable[Iterable[object]], right: Iterable[str] = (), header: bool = True
) -> "Table":
    """Rich table of `rows`; columns named in `right` are numbers."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    result = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, show_header=header)
    for column in columns:
        result.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        result.add_row(*(printable(str(cell)) for cell in row))
    return result


def size(count: int) -> str:
    """`count` bytes for people, in powers of 1024."""
    value, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            break
        value /= 1024
    return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"
