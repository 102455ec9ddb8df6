"""How a wrong call of a command is told: in one sentence, like every other error."""

import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import typer
from typer.core import TyperGroup

from wgpu_engine.cli.terminal import complain


class Commands(TyperGroup):
    """The commands, with errors of the parser said in our way."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        call = partial(super().main, args, prog_name, complete_var, False, windows_expand_args, **extra)
        if not standalone_mode:
            return call()
        try:
            code = call()
        except typer.Abort:
            sys.exit(1)
        except Exception as error:
            # their class lies elsewhere from version to version of the parser
            if not hasattr(error, "format_message") or not hasattr(error, "exit_code"):
                raise
            context = getattr(error, "ctx", None)
            if type(error).__name__ == "NoArgsIsHelpError" and context is not None:
                print(context.get_help())
            else:
                complain(_sentence(error, context))
            sys.exit(error.exit_code)
        sys.exit(code or 0)


def _sentence(error: Any, context: Any) -> str:
    # the words before a value's own are the parser's
    said = " ".join(error.format_message().split()).rstrip(".").replace(": Value error, ", ": ")
    said = _bounds(getattr(error, "param", None)) or said
    command = context.command_path if context is not None else "wgpu-engine"
    return f"{said[:1].lower()}{said[1:]}; `{command} --help` shows what there is"


def _bounds(option: Any) -> str | None:
    """What the number of an option must be; None where it has no bounds, and so another thing is wrong with it."""
    # where they lie differs from version to version of the parser
    low, high = (getattr(option, name, getattr(getattr(option, "type", None), name, None)) for name in ("min", "max"))
    if low is None and high is None:
        return None
    kind = "a whole number" if isinstance(low, int) else "a number"
    place = f"from {low:g} to {high:g}" if high is not None else f"of at least {low:g}"
    return f"{max(option.opts, key=len)} must be {kind} {place}"
