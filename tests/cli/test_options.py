"""Options that several commands share."""

import contextlib

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from wgpu_engine.cli.options import ModelOptions, SamplingOptions, grouped, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4G", 4 << 30),
        ("4GiB", 4 << 30),
        ("4 gb", 4 << 30),
        ("1.5M", 3 << 19),
        ("512k", 512 << 10),
        ("1T", 1 << 40),
        ("1000", 1000),
        ("7B", 7),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "G", "-1G", "0", "0.0001", "4X", "1e9", "nan", "4G4", "٤G", "9" * 400])
def test_refuses_what_is_no_size(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="512M or 4G"):
        parse_size(text)


@given(st.text(max_size=12))
def test_any_text_is_a_size_or_refused(text: str) -> None:
    with contextlib.suppress(typer.BadParameter):
        assert parse_size(text) > 0


def _parse(*arguments: str) -> tuple[ModelOptions, SamplingOptions]:
    seen: list[tuple[ModelOptions, SamplingOptions]] = []

    def command(options: ModelOptions, sampling: SamplingOptions) -> None:
        seen.append((options, sampling))

    app = typer.Typer()
    app.command()(grouped(command))
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return seen[0]


def test_defaults_are_those_of_the_engine() -> None:
    options, sampling = _parse()
    assert options == ModelOptions() and sampling == SamplingOptions()
    assert options.keywords() == {
        "device": None,
        "precision": "fast",
        "ctx_size": None,
        "kv_type": "f16",
        "memory_budget": None,
        "quantize": None,
    }
    assert sampling.keywords()["stop"] == []


def test_every_option_arrives() -> None:
    options, sampling = _parse(
        *["--device", "1", "--precision", "exact", "--ctx-size", "512", "--kv-type", "f32", "--memory-budget", "4G"],
        *["--quantize", "Q4_K"],
        *["-t", "0.5", "--top-k", "7", "--top-p", "0.9", "--min-p", "0.1", "--repetition-penalty", "1.1"],
        *["--presence-penalty", "0.2", "--frequency-penalty", "-0.3", "--seed", "3", "-n", "9"],
        *["--stop", "END", "--stop", "###"],
    )
    assert options == ModelOptions("1", "exact", 4 << 30, 512, "f32", "Q4_K")
    assert sampling == SamplingOptions(9, 0.5, 7, 0.9, 0.1, 1.1, 0.2, -0.3, 3, ["END", "###"])


@pytest.mark.parametrize(
    "arguments",
    ["--precision best", "--ctx-size 0", "--top-p 1.5", "--kv-type q8", "--memory-budget much", "-t -1", "-n 0"],
)
def test_refuses_values_out_of_range(arguments: str) -> None:
    def command(options: ModelOptions, sampling: SamplingOptions) -> None:
        raise AssertionError("it got through")

    app = typer.Typer()
    app.command()(grouped(command))
    result = CliRunner().invoke(app, arguments.split())
    assert result.exit_code == 2 and "Invalid value" in result.output
