"""Where chat templates run: Jinja2's sandbox with what models' templates expect, and bounds on time and memory.

Templates come out of model files, so they are not trusted: the sandbox keeps them from Python's internals, a budget
keeps them from taking the process down. Names and behaviour of the additions: transformers, `apply_chat_template`.
"""

import json
from collections.abc import Iterable, Mapping, Sized
from datetime import datetime
from itertools import islice
from typing import Any, NoReturn

from jinja2 import Template, nodes
from jinja2.exceptions import SecurityError, TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace, pass_context
from jinja2.visitor import NodeTransformer

from wgpu_engine.text.template_budget import budget, check_growth, checked_filter


class RefusedMessages(TemplateError):
    """The template called `raise_exception`."""


class TemplateEnvironment(ImmutableSandboxedEnvironment):
    """Compiles templates with `bounded`; each rendering begins with `start_budget`."""

    intercepted_binops = frozenset(["+", "*", "**", "%"])

    def __init__(self) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, loopcontrols])
        self.filters["tojson"] = _to_json
        self.filters = {name: checked_filter(name, function) for name, function in self.filters.items()}
        self.filters |= {"_counted": _counted, "_joined": _joined}
        self.globals |= {
            "raise_exception": _raise_exception,
            "strftime_now": _strftime_now,
            "namespace": _TemplateNamespace,
        }
        del self.globals["lipsum"]

    def bounded(self, source: str) -> Template:
        """Compiles `source`.

        Raises:
            jinja2.TemplateSyntaxError: it is no template.
        """
        tree = _CountLoops().visit(self.parse(source))
        return Template.from_code(self, self.compile(tree), self.make_globals(None))

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Every call that a template makes comes through here."""
        budget().take_steps(1)
        method = getattr(obj, "__wrapped__", obj)  # the sandbox wraps str.format
        if isinstance(owner := getattr(method, "__self__", None), str):
            check_growth(method.__name__, owner, [*args, *kwargs.values()])
        return budget().take_value(super().call(context, obj, *args, **kwargs))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """The operators that can make much of little come through here."""
        check_growth(operator, left, [right])
        return budget().take_value(super().call_binop(context, operator, left, right))


class _GenerationTag(Extension):
    """`{% generation %}` marks what the model wrote, for training; here its body is rendered as it stands."""

    tags = {"generation"}  # noqa: RUF012, the type that Jinja2 declares

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _CountLoops(NodeTransformer):
    """Has each loop's items and each `~` counted."""

    def visit_For(self, node: nodes.For) -> nodes.Node:
        self.generic_visit(node)
        node.iter = nodes.Filter(node.iter, "_counted", [], [], None, None, lineno=node.lineno)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        parts = nodes.List(node.nodes, lineno=node.lineno)
        return nodes.Filter(parts, "_joined", [], [], None, None, lineno=node.lineno)


class _TemplateNamespace(Namespace):
    """A namespace without the underscored names through which a sandbox could be left."""

    def __init__(*args: Any, **kwargs: Any) -> None:
        self, *rest = args  # as Jinja2 has it, so that an attribute can be called self
        attributes = dict(*rest, **kwargs)
        for name in attributes:
            _check_name(name)
        Namespace.__init__(self, attributes)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_name(name)
        super().__setitem__(name, value)


def _check_name(name: str) -> None:
    if name.startswith("_"):
        raise SecurityError(f"the namespace attribute {name!r} begins with an underscore")


@pass_context  # so that it isn't evaluated once and for all when compiling
def _counted(context: Context, items: Iterable[Any]) -> Iterable[Any]:
    if not isinstance(items, Sized):
        items = list(islice(items, budget().steps + 1))
    budget().take_steps(len(items))
    return items


@pass_context
def _joined(context: Context, parts: list[Any]) -> Any:
    return budget().take_value("".join(map(str, parts)))


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as transformers writes it: neither HTML nor non-ASCII characters are escaped."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise_exception(message: str) -> NoReturn:
    raise RefusedMessages(str(message))


def _strftime_now(format: str) -> str:
    return now().strftime(format)


def now() -> datetime:
    """Local time, which templates may put into the prompt."""
    return datetime.now()


def plain(value: Any, where: str) -> Any:
    """A copy of `value` in JSON's types alone, since methods of anything else could lead out of the sandbox.

    Raises:
        TypeError: something else is in it; the message names the place.
    """
    if value is None or type(value) in (str, int, float, bool):
        return value
    if isinstance(value, str):  # an enum's member, say
        return str.__str__(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, f"{where}[{index}]") for index, item in enumerate(value)]
    raise TypeError(f"{where} is a {type(value).__name__}")
