"""What one rendering of a chat template may cost in time and memory.

A sandbox keeps a template from Python's internals, but not from building a string of a gigabyte. Here loop turns and
calls are counted, and what operators, methods and filters make is checked, before it is made where little makes much.
"""

import re
from collections.abc import Callable, Sequence, Sized
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import Any

from jinja2.exceptions import SecurityError

_MOST_STEPS = 500_000
"""turns of loops and calls"""
_LONGEST_VALUE = 16 << 20
"""characters of a string, or items of a list"""
_MOST_BUILT = 1 << 30
"""the same, of all values together"""
_WIDEST_NUMBER = 4096
"""bits of an integer"""

_WIDTHS = ("center", "ljust", "rjust", "zfill", "expandtabs", "batch", "slice")
"""methods and filters that pad to as much as they are told"""


_WIDE_FORMAT = re.compile(r"%[-+ #0-9.]*(?:\*|\d{6})|\{[^{}]*:[^{}]*(?:\d{6}|\{)")
"""a width or precision of six digits, or one that is a value"""


@dataclass
class Budget:
    """Raises SecurityError once more is taken than a rendering may."""

    steps: int = _MOST_STEPS
    built: int = _MOST_BUILT

    def take_steps(self, count: int) -> None:
        self.steps -= count
        if self.steps < 0:
            raise SecurityError(f"more than {_MOST_STEPS:,} loop turns and calls")

    def take_value(self, value: Any) -> Any:
        if isinstance(value, str | list | tuple):
            _check_size(len(value))
            self.built -= len(value)
            if self.built < 0:
                raise SecurityError("too many long strings")
        elif isinstance(value, int) and value.bit_length() > _WIDEST_NUMBER:
            raise SecurityError(f"a number of more than {_WIDEST_NUMBER:,} bits")
        return value


_budget: ContextVar[Budget] = ContextVar("budget")


def start_budget() -> None:
    """Gives the rendering that follows, in this context, a budget of its own."""
    _budget.set(Budget())


def budget() -> Budget:
    """That of the rendering under way."""
    return _budget.get()


def check_growth(name: str, value: Any, arguments: Sequence[Any]) -> None:
    """Refuses an operator, method or filter `name` of `value` that would make far too much.

    Raises:
        SecurityError: it would.
    """
    first = arguments[0] if arguments else None
    if name == "*":
        for many, times in ((value, first), (first, value)):
            if isinstance(many, str | list | tuple) and isinstance(times, int):
                _check_size(len(many) * times)
    elif name == "**":
        if not all(isinstance(number, int | float) and abs(number) < 1024 for number in (value, first)):
            raise SecurityError("a power of numbers over 1,023")
    elif name in _WIDTHS:
        _check_size(max((number for number in arguments if isinstance(number, int)), default=0))
    elif name == "indent" and isinstance(value, str) and isinstance(first, int):
        _check_size(first * (value.count("\n") + 1))
    elif name == "join" and isinstance(value, str):  # the method: of the separator
        _check_size(len(value) * _items(first))
    elif name == "join" and isinstance(first, str):  # the filter: of the items
        _check_size(len(first) * _items(value))
    elif name == "replace" and isinstance(value, str) and all(isinstance(text, str) for text in arguments[:2]):
        _check_size(value.count(arguments[0]) * len(arguments[1]))
    elif name in ("%", "format") and isinstance(value, str) and _WIDE_FORMAT.search(value):
        raise SecurityError("a format with a width of six digits or more, or from a value")


def checked_filter(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A Jinja2 filter with its growth checked and its result counted."""
    skip = 1 if hasattr(function, "jinja_pass_arg") else 0

    @wraps(function)
    def checked(*arguments: Any, **named: Any) -> Any:
        check_growth(name, arguments[skip], [*arguments[skip + 1 :], *named.values()])
        return budget().take_value(function(*arguments, **named))

    return checked


def _items(value: Any) -> int:
    """How many items `value` has, at most; a generator doesn't say."""
    return len(value) if isinstance(value, Sized) else _MOST_STEPS


def _check_size(size: int) -> None:
    if size > _LONGEST_VALUE:
        raise SecurityError(f"a value of more than {_LONGEST_VALUE:,} characters or items")
