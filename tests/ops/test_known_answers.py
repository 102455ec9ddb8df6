"""Known answers: that the references are right, that sound kernels pass, and that broken ones are found."""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from random import Random

import gguf
import numpy as np
import pytest
from gguf.quants import dequantize
from typer.testing import CliRunner

from tests.ops.own_types import own_values
from wgpu_engine.cli.main import app
from wgpu_engine.errors import DeviceError, DeviceLostError, OutOfMemoryError
from wgpu_engine.files.quants import QUANT_TYPES
from wgpu_engine.gpu import wgsl
from wgpu_engine.gpu.native import NativeDevice
from wgpu_engine.ops.known_answers import run_known_answers
from wgpu_engine.ops.known_answers.blocks import FORMATS, decoded, random_rows
from wgpu_engine.ops.known_answers.sampling import STEPS, Expected
from wgpu_engine.ops.known_answers.small import SmallChecks
from wgpu_engine.ops.known_answers.trial import KnownAnswer, Trial, answer, largest_error
from wgpu_engine.platform.drive import drive
from wgpu_engine.resources import resource_dir

Run = Callable[[Callable[[str], bool]], dict[str, KnownAnswer]]
Break = Callable[[str, str, str], None]

OWN = [name for name in FORMATS if QUANT_TYPES[name].ggml_id is None]
GGUF_PY_READS = [name for name in FORMATS if name not in ("Q1_0", "Q2_0", *OWN)]


@pytest.fixture
def run(device: NativeDevice) -> Iterator[Run]:
    """Runs the small checks whose names are wanted; their answers by name."""
    trial = Trial(device)
    small = SmallChecks(trial)

    def chosen(wanted: Callable[[str], bool]) -> dict[str, KnownAnswer]:
        checks = [check for check in small.checks() if wanted(check.kernel)]
        return {check.kernel: drive(answer(check.kernel, check.attempt)) for check in checks}

    yield chosen
    small.free()
    trial.free()


def some_types(kernel: str) -> bool:
    """All kernels, but of the types of weights only two."""
    return not any(name in kernel.split() for name in set(FORMATS) - {"F32", "Q4_0"})


@pytest.mark.parametrize("name", GGUF_PY_READS)
def test_blocks_mean_what_gguf_py_makes_of_them(name: str) -> None:
    raw = random_rows(QUANT_TYPES[name], 3, 512, Random(1))
    blocks = np.frombuffer(raw, np.uint8).reshape(3, -1)
    wanted = dequantize(blocks, gguf.GGMLQuantizationType[name]).astype(np.float64).ravel()
    found = np.array(decoded(QUANT_TYPES[name], raw))
    assert np.isfinite(found).all() and 0.02 < found.std() < 1
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", OWN)
def test_blocks_of_our_own_types(name: str) -> None:
    raw = random_rows(QUANT_TYPES[name], 3, 480, Random(1))
    wanted = own_values(QUANT_TYPES[name], np.frombuffer(raw, np.uint8).reshape(3, -1)).astype(np.float64).ravel()
    found = np.array(decoded(QUANT_TYPES[name], raw))
    assert np.isfinite(found).all() and 0.02 < found.std() < 1
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=0)


@pytest.mark.conformance
def test_blocks_mean_what_the_zoo_says(conformance) -> None:
    wanted = np.load(conformance / "quants" / "quant-zoo-dequant-ref.npz")
    found = 0
    for tensor in gguf.GGUFReader(conformance / "quants" / "quant-zoo.gguf").tensors:
        name = tensor.tensor_type.name
        if name in FORMATS:
            values = decoded(QUANT_TYPES[name], tensor.data.tobytes())
            np.testing.assert_allclose(values, wanted[name].ravel(), rtol=1e-6, err_msg=name)
            found += 1
    assert found == 27


def test_draws_are_no_close_calls() -> None:
    for vocab in (1, 2, 50, 211, 1003, 49152):
        expected = Expected(vocab)
        assert min(expected.draw_with_margin(count)[1] for count in range(STEPS)) > 1e-3
        assert all(0 <= token < vocab for token in expected.logits)
    expected = Expected(1003)
    assert len({expected.draw(count) for count in range(STEPS)}) > 2
    assert len(set(expected.penalised())) > 2 and expected.penalised() != [expected.order[0]] * STEPS


def test_errors_are_measured_beyond_what_rounding_may_do() -> None:
    assert largest_error([1.0, 2.5], [1.0, 2.0], 4.0) == 0.125
    assert largest_error([1.0, 2.5], [1.0, 2.0], 4.0, [0.0, 0.25]) == 0.0625
    assert largest_error([math.nan, 2.0], [1.0, 2.0], 2.0) == math.inf
    assert largest_error([math.inf], [1.0], 2.0) == math.inf
    # weights that are no numbers make results that are none
    assert largest_error([5.0, 2.0], [math.nan, 2.0], math.nan) == 0.0


@pytest.mark.parametrize("kind", ["cpu", "discrete"])
@pytest.mark.parametrize("subgroups", [True, False])
def test_every_kernel_passes_and_nothing_is_left(
    device: NativeDevice, lab, run: Run, monkeypatch: pytest.MonkeyPatch, kind: str, subgroups: bool
) -> None:
    size = device.subgroup_size
    if subgroups and not size:
        pytest.skip("this adapter has no subgroups")
    rendered = set()
    render = wgsl._render
    monkeypatch.setattr(wgsl, "_render", lambda name, *rest: rendered.add(name) or render(name, *rest))
    with lab.posing(kind, size if subgroups else 0):
        answers = run(some_types)
    wrong = [each for each in answers.values() if not each.passed]
    assert not wrong and len(answers) > 30
    # whoever writes a kernel gives it a known answer
    lanes = kind == "cpu" and subgroups and size >= 8
    folder = resource_dir("shaders")
    kernels = {str(path.relative_to(folder)) for path in folder.rglob("*.wgsl") if "@compute" in path.read_text()}
    assert kernels - rendered <= {
        "probe/subgroup.wgsl",
        "attention/workgroup.wgsl" if lanes else "attention/lanes.wgsl",
        "matmul/team.wgsl" if kind == "cpu" else "matmul/lanes.wgsl",
    }


@pytest.mark.any_compiler
def test_what_was_made_is_freed(device: NativeDevice, spoil: Break) -> None:
    def everything() -> None:
        trial = Trial(device)
        small = SmallChecks(trial)
        for check in small.checks():
            if some_types(check.kernel):
                drive(answer(check.kernel, check.attempt))
        small.free()
        trial.free()

    everything()
    before = device.buffers
    everything()
    spoil("rope/", "fn main", "fn main main")
    everything()
    assert device.buffers == before


@pytest.mark.any_compiler
def test_broken_decoder_is_found(run: Run, spoil: Break) -> None:
    spoil("", "-16.0 * d", "-15.0 * d")
    answers = run(lambda kernel: "Q5_0" in kernel or "Q8_0" in kernel)
    wrong = {kernel for kernel, each in answers.items() if not each.passed}
    assert wrong == {kernel for kernel in answers if "Q5_0" in kernel and not kernel.startswith("repack")}
    assert len(wrong) == 5
    assert all("off by " in answers[kernel].error for kernel in wrong)


@pytest.mark.any_compiler
@pytest.mark.parametrize(
    ("template", "old", "new", "starts"),
    [
        ("repack/", "= value;", "= value ^ 1u;", ["repack"]),
        ("repack/", "pack2x16float(", "pack2x16float(1.01 * ", ["halve"]),
        ("embed/", "* 1.5", "* 1.4999", ["embed"]),
        ("matmul/", "1.0 + exp(-v)", "1.0 + exp(-2.0 * v)", ["gate", "gated"]),
        ("matmul/", "1.0 / sqrt(", "1.01 / sqrt(", ["gate", "gated", "activated", "matmul", "residual"]),
        ("norm/", "1.0 / sqrt(", "1.0001 / sqrt(", ["norm"]),
        ("experts/route", "exp(", "exp2(", ["route"]),
        ("pool/", "1.0 / sqrt(", "1.0001 / sqrt(", ["pool"]),
        ("rope/", "angles[", "1.001 * angles[", ["rope"]),
        ("attention/", "exp(", "exp2(", ["attention"]),
        ("sample/", "1664525u", "1664527u", ["sample"]),
        ("sample/peaks", "logit / repetition", "logit * repetition", ["sample"]),
        ("sample/bias", "biases[middle].x < token", "biases[middle].x <= token", ["bias"]),
        ("sample/top_tokens", "tokens[entry] < token", "tokens[entry] > token", ["likeliest"]),
        ("sample/top_tokens", "exp(", "exp2(", ["likeliest"]),
    ],
)
def test_broken_kernel_is_found(
    run: Run, spoil: Break, rng: np.random.Generator, template: str, old: str, new: str, starts: Sequence[str]
) -> None:
    """By all that have it in them, and by none of the others, of which some are drawn."""
    spoil(template, old, new)
    answers = run(lambda kernel: some_types(kernel) and (kernel.split()[0] in starts or rng.random() < 0.25))
    wrong = {kernel for kernel, each in answers.items() if not each.passed}
    assert wrong == {kernel for kernel in answers if kernel.split()[0] in starts}


@pytest.mark.any_compiler
def test_broken_int8_is_found_in_fast_kernels_alone(run: Run, spoil: Break) -> None:
    spoil("", "scale * half", "scale * (half + 1.0)")
    answers = run(some_types)
    wrong = {kernel for kernel, each in answers.items() if not each.passed}
    # what reads int8 that contradicts itself can't be judged
    writers = ("embed", "residual", "sum of experts", "norm", "attention", "short convolution")
    assert wrong == {kernel for kernel in answers if "fast" in kernel and kernel.startswith(writers)}


def test_refused_kernel_counts_as_wrong_and_says_why(run: Run, spoil: Break) -> None:
    spoil("rope/", "fn main", "fn main main")
    answers = run(lambda kernel: kernel.startswith(("rope", "sample")))
    assert {kernel for kernel, each in answers.items() if not each.passed} == set(answers) - {"sample"}
    assert "refused" in answers["rope neox f16"].error


@pytest.mark.parametrize("lost", [DeviceLostError, OutOfMemoryError])
def test_loss_of_the_device_is_no_answer(lost: type[DeviceError]) -> None:
    async def attempt() -> float:
        raise lost("gone")

    with pytest.raises(lost):
        drive(answer("rope", attempt))


@pytest.mark.parametrize(("broken", "code"), [(False, 0), (True, 2)])
def test_doctor_tells_by_its_exit_code(spoil: Break, monkeypatch: pytest.MonkeyPatch, broken: bool, code: int) -> None:
    checks = SmallChecks.checks
    few = ("rope", "sample")
    monkeypatch.setattr(SmallChecks, "checks", lambda self: (c for c in checks(self) if c.kernel.startswith(few)))
    if broken:
        spoil("rope/", "angles[", "1.01 * angles[")
    result = CliRunner().invoke(app, ["doctor"], env={"COLUMNS": "200"})
    assert result.exit_code == code
    verdict = re.search(r"(\d) of (\d) kernels give wrong answers on ", result.stdout)
    assert bool(verdict) == broken
    assert verdict is None or int(verdict[1]) == int(verdict[2]) - 1, "all but the sampler"
    assert ("rope neox f32" in result.stdout) == broken


@pytest.mark.slow
def test_all_kernels_of_all_types(device: NativeDevice) -> None:
    steps: list[tuple[str, int, int | None]] = []
    answers = drive(run_known_answers(device, lambda *step: steps.append(step)))
    assert not [each for each in answers if not each.passed]
    assert steps == [("kernels", number + 1, len(answers)) for number in range(len(answers))]
    names = [each.kernel for each in answers]
    assert len(set(names)) == len(names)
    for name, precision, rows in (("Q6_K", "fast", "1 row"), ("BF16", "exact", "8 rows"), ("Q4_0", "exact", "1 row")):
        assert f"matmul {name} {precision}, {rows}" in names
