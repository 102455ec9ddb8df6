"""Options that several commands share, each written once.

A command takes a group as one parameter, `options: ModelOptions`; `grouped` shows its fields to typer one by one.
"""

import inspect
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import Annotated, Any, Literal, get_type_hints

import typer

MODEL_PANEL = "Model and device"
SAMPLING_PANEL = "Sampling"

ModelName = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A name that `list` shows, or the path of a GGUF file or a model's folder.",
        show_default=True,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object, for scripts.")]

_KEYWORD = inspect.Parameter.KEYWORD_ONLY
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def parse_size(text: str) -> int:
    """Bytes in `text`, as in "512M", "4G" or "1.5GiB"; units are powers of 1024.

    Raises:
        typer.BadParameter: no such size, or zero.
    """
    match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,9})?) ?([KMGT]?)(?:I?B)?", text.strip().upper(), re.ASCII)
    size = int(float(match[1]) * _UNITS[match[2]]) if match else 0
    if size <= 0:
        raise typer.BadParameter(f"{text!r} is no size: write it like 512M or 4G.")
    return size


@dataclass(frozen=True)
class DeviceOptions:
    """Which adapter runs a model, and how."""

    device: Annotated[
        str | None,
        typer.Option(
            metavar="INDEX|NAME",
            help="Adapter, by its number or a part of its name in `doctor`; by default the fastest kind.",
            rich_help_panel=MODEL_PANEL,
        ),
    ] = None
    precision: Annotated[
        Literal["fast", "exact"],
        typer.Option(
            help="fast: activations in int8 where that is quicker; exact: in float.", rich_help_panel=MODEL_PANEL
        ),
    ] = "fast"
    memory_budget: Annotated[
        int | None,
        typer.Option(
            parser=parse_size,
            metavar="SIZE",
            help="Most memory to take on the adapter, like 4G.",
            rich_help_panel=MODEL_PANEL,
        ),
    ] = None

    def keywords(self) -> dict[str, Any]:
        """The options as keywords of `LLM` or `Embedder`."""
        return asdict(self)


@dataclass(frozen=True)
class ModelOptions(DeviceOptions):
    """Which adapter runs a language model, and how."""

    ctx_size: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="TOKENS",
            help="Room for prompt and answer together; by default the model's own, up to 4096.",
            rich_help_panel=MODEL_PANEL,
        ),
    ] = None
    kv_type: Annotated[
        Literal["f16", "f32"], typer.Option(help="Numbers of the KV cache.", rich_help_panel=MODEL_PANEL)
    ] = "f16"
    quantize: Annotated[
        str | None,
        typer.Option(
            metavar="TYPE",
            help="Quantize weights that are in float as they are loaded, to a type such as Q4_K or Q8_0.",
            rich_help_panel=MODEL_PANEL,
        ),
    ] = None


@dataclass(frozen=True)
class SamplingOptions:
    """How the next token is chosen."""

    max_tokens: Annotated[
        int | None,
        typer.Option("--max-tokens", "-n", min=1, help="Most tokens to answer with.", rich_help_panel=SAMPLING_PANEL),
    ] = None
    temperature: Annotated[
        float,
        typer.Option(
            "--temperature", "-t", min=0.0, max=100.0, help="0 takes the likeliest.", rich_help_panel=SAMPLING_PANEL
        ),
    ] = 0.8
    top_k: Annotated[
        int, typer.Option(min=0, help="Keep the k likeliest; 0 keeps all.", rich_help_panel=SAMPLING_PANEL)
    ] = 40
    top_p: Annotated[
        float,
        typer.Option(
            min=0.0, max=1.0, help="Keep the likeliest that make up this share.", rich_help_panel=SAMPLING_PANEL
        ),
    ] = 0.95
    min_p: Annotated[
        float,
        typer.Option(
            min=0.0,
            max=1.0,
            help="Drop those below this share of the likeliest one's.",
            rich_help_panel=SAMPLING_PANEL,
        ),
    ] = 0.05
    repetition_penalty: Annotated[
        float,
        typer.Option(
            min=0.01, max=100.0, help="Above 1, make seen tokens less likely.", rich_help_panel=SAMPLING_PANEL
        ),
    ] = 1.0
    presence_penalty: Annotated[
        float,
        typer.Option(
            min=-100.0, max=100.0, help="Taken off for each token answered already.", rich_help_panel=SAMPLING_PANEL
        ),
    ] = 0.0
    frequency_penalty: Annotated[
        float,
        typer.Option(
            min=-100.0, max=100.0, help="Taken off for each time it was answered.", rich_help_panel=SAMPLING_PANEL
        ),
    ] = 0.0
    seed: Annotated[int | None, typer.Option(min=0, help="Same seed, same answer.", rich_help_panel=SAMPLING_PANEL)] = (
        None
    )
    stop: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="End before this text; may be repeated.", rich_help_panel=SAMPLING_PANEL),
    ] = None

    def keywords(self) -> dict[str, Any]:
        """The options as sampling keywords of `LLM.generate` and `LLM.chat`."""
        return {**asdict(self), "stop": self.stop or []}


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """`command`, with the fields of its dataclass parameters as parameters of their own in typer's eyes."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, type[Any]] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        hint = hints[parameter.name]
        if is_dataclass(hint) and isinstance(hint, type):
            groups[parameter.name] = hint
            field_hints = get_type_hints(hint, include_extras=True)
            parameters += [
                inspect.Parameter(
                    field.name,
                    inspect.Parameter.KEYWORD_ONLY,
                    default=field.default,
                    annotation=field_hints[field.name],
                )
                for field in fields(hint)
            ]
        else:
            parameters.append(parameter.replace(kind=_KEYWORD, annotation=hint))

    def call(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        command(**values)

    call.__name__, call.__doc__, call.__module__ = command.__name__, command.__doc__, command.__module__
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return call
