"""How fast a model runs in every quantization type, beside Q4_0: `make bench-types`.

The model is widened with zeros so that its rows are whole blocks of all types, and all its matrices are of the type
that is measured. Each type takes turns with Q4_0, so that a ratio is of figures from the same minutes.

Usage: python benchmarks/quant_types.py [MODEL] [--types Q4_K,IQ2_S] [-p 128] [-n 32] [--rounds 3] [--json FILE]
"""

import json
import statistics
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from script import Device, run
from widened import widened, write_in

from wgpu_engine import LLM
from wgpu_engine.cli import terminal
from wgpu_engine.cli.bench import _decode_speed, _prefill_speed
from wgpu_engine.errors import RequestError
from wgpu_engine.files.model_file import ModelFile
from wgpu_engine.files.opening import open_any
from wgpu_engine.files.quants import BY_GGML_ID, QUANT_TYPES
from wgpu_engine.files.store import Store
from wgpu_engine.platform.drive import drive
from wgpu_engine.quantize.convert import QUANTIZERS

_BASE = "Q4_0"
_LEAST = 1 / 3
"""of Q4_0's speed: what no type should fall below"""
_TYPES = [t.name for t in BY_GGML_ID.values() if t.name not in ("F64", "I8", "I16", "I32", "I64")]


@dataclass
class Speeds:
    """Tokens/s of each round."""

    prefill: list[float] = field(default_factory=list)
    decode: list[float] = field(default_factory=list)


@dataclass
class Measured:
    """A type and Q4_0, in turns."""

    name: str
    speeds: Speeds
    base: Speeds

    def ratio(self, test: Literal["prefill", "decode"]) -> float:
        """Median of the rounds' ratios, since a machine's speed drifts from round to round."""
        pairs = zip(getattr(self.speeds, test), getattr(self.base, test), strict=True)
        return statistics.median(speed / base for speed, base in pairs)


def measure(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A llama: a path, or a name in the store.")] = "smollm2",
    types: Annotated[str, typer.Option(metavar="LIST", help="Types, by default all.")] = ",".join(_TYPES),
    prompt_tokens: Annotated[int, typer.Option("-p", min=1, help="Tokens to read.")] = 128,
    new_tokens: Annotated[int, typer.Option("-n", min=2, help="Tokens to generate.")] = 32,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; medians are printed.")] = 3,
    precision: Annotated[str, typer.Option(help="fast or exact.")] = "fast",
    device: Device = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the figures there too.")
    ] = None,
) -> None:
    """Print the decode and prefill speeds of a model in every type, with the ratio to Q4_0."""
    names = types.split(",")
    unknown = [name for name in names if name not in _TYPES]
    if unknown:
        raise RequestError(f"{unknown[0]!r:.40} is no type to measure: choose among {', '.join(_TYPES)}")
    options = {"precision": precision, "device": device, "ctx_size": max(prompt_tokens, new_tokens) + 32}
    found = []
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        source = widened(stack.enter_context(drive(open_any(Store().find(model)))))
        base = stack.enter_context(_opened(source, _BASE, Path(folder), options))
        _take(base, Speeds(), prompt_tokens, new_tokens, 0)
        for number, name in enumerate(names):
            terminal.note(f"{number + 1} of {len(names)}: {name} ...")
            measured = Measured(name, Speeds(), Speeds())
            with _opened(source, name, Path(folder), options) as llm:
                _take(llm, Speeds(), prompt_tokens, new_tokens, 0)
                for turn in range(1, rounds + 1):
                    _take(llm, measured.speeds, prompt_tokens, new_tokens, turn)
                    # other tokens each time, since it finds a prompt that it has read in its cache
                    _take(base, measured.base, prompt_tokens, new_tokens, number * rounds + turn)
            found.append(measured)
            if json_file is not None:
                report = {"model": model, "adapter": base.adapter.name, "precision": precision, "rounds": rounds}
                report |= {"prompt_tokens": prompt_tokens, "new_tokens": new_tokens}
                json_file.write_text(
                    json.dumps(report | {"types": [_as_json(each) for each in found]}, indent=2) + "\n"
                )
        _print(f"{model}, widened, on {base.adapter.name}, {precision}", prompt_tokens, new_tokens, found)


def _opened(source: ModelFile, name: str, folder: Path, options: dict[str, Any]) -> LLM:
    """The model in a type; its file is gone again when it has been loaded."""
    path = folder / f"{name}.gguf"
    write_in(source, QUANT_TYPES[name], path)
    try:
        return LLM(path, **options)
    finally:
        path.unlink()


def _take(llm: LLM, speeds: Speeds, prompt_tokens: int, new_tokens: int, turn: int) -> None:
    speeds.prefill.append(_prefill_speed(llm, prompt_tokens, turn))
    speeds.decode.append(_decode_speed(llm, new_tokens, turn))


def _bits(name: str) -> float:
    return 8 * QUANT_TYPES[name].block_bytes / QUANT_TYPES[name].block


def _as_json(measured: Measured) -> dict[str, Any]:
    return {
        "type": measured.name,
        "bits_per_weight": _bits(measured.name),
        "random_blocks": measured.name not in QUANTIZERS,
        **{
            test: {
                "tokens_per_s": statistics.median(getattr(measured.speeds, test)),
                "samples": getattr(measured.speeds, test),
                "of_q4_0": measured.ratio(test),
            }
            for test in ("prefill", "decode")
        },
    }


def _print(title: str, prompt_tokens: int, new_tokens: int, found: list[Measured]) -> None:
    columns = ["type", "bits", f"tg{new_tokens}", f"of {_BASE}", f"pp{prompt_tokens}", f"of {_BASE} ", "weights"]
    rows = [
        (
            each.name,
            f"{_bits(each.name):.2f}",
            f"{statistics.median(each.speeds.decode):.2f}",
            f"{each.ratio('decode'):.2f}",
            f"{statistics.median(each.speeds.prefill):.1f}",
            f"{each.ratio('prefill'):.2f}",
            "the model's" if each.name in QUANTIZERS else "random",
        )
        for each in found
    ]
    console = terminal.console()
    console.print(f"{title}; tokens/s\n")
    console.print(terminal.table(columns, rows, right=columns[1:-1]))
    slow = [each.name for each in found if min(each.ratio("decode"), each.ratio("prefill")) < _LEAST]
    console.print(f"\nSlower than a third of {_BASE}: {', '.join(slow) or 'none'}.", soft_wrap=True)


if __name__ == "__main__":
    run(measure)
