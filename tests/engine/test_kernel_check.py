"""The check of a model's kernels before its first token: verdicts, what they do, and how they are kept."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from wgpu_engine.engine import kernel_check
from wgpu_engine.engine.engine import Engine
from wgpu_engine.engine.kernel_check import check_kernels
from wgpu_engine.errors import DeviceError, DeviceLostError
from wgpu_engine.files.model_file import ModelFile, open_model
from wgpu_engine.gpu.native import NativeDevice
from wgpu_engine.models.registry import load_model
from wgpu_engine.ops.repack import Loader
from wgpu_engine.ops.state import Row
from wgpu_engine.platform.drive import drive

QUANTIZED = {"attn": "Q8_0", "ffn": "Q4_1", "token_embd": "Q8_0", "output": "Q4_0"}


@dataclass
class Start:
    """A start of an engine, and what came of its check."""

    engine: Engine
    file: ModelFile
    warnings: list[str] = field(default_factory=list)
    tried: int = 0

    def check(self) -> "Start":
        def count(stage: str, done: int, total: int | None) -> None:
            assert (stage, done, total) == ("kernels", done, None)
            self.tried += 1

        drive(check_kernels(self.engine, self.file.tensors, self.warnings, count))
        return self


Begin = Callable[..., Start]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WGPU_ENGINE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def begin(
    device: NativeDevice, home: Path, tiny_llama: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Begin]:
    """Makes an engine as a start does: `begin(path, precision="fast")`, of a small quantized llama by default."""
    # has what a check changes put back
    monkeypatch.setattr(device, "subgroup_size", device.subgroup_size)
    size = device.subgroup_size
    made: list[Start] = []
    path_by_default = tiny_llama(types=QUANTIZED)

    def make(path: Path = path_by_default, ctx_size: int = 512, **options: Any) -> Start:
        device.subgroup_size = size
        file = drive(open_model(path))
        loader = Loader(device, lambda count: None)
        model = drive(load_model(device, file.metadata, file.tensors, loader))
        loader.close()
        made.append(Start(Engine(device, model, ctx_size=ctx_size, **options), file))
        return made[-1]

    yield make
    for start in made:
        start.engine.free()


def test_only_the_first_start_pays(begin: Begin) -> None:
    first = begin().check()
    assert first.tried > 10 and not first.warnings and first.engine.precision == "fast"
    again = begin().check()
    assert again.tried == 0 and not again.warnings


def test_check_compiles_what_the_model_runs_and_nothing_else(device: NativeDevice, begin: Begin) -> None:
    start = begin()
    before = set(device._kernels)
    start.check()
    checked = set(device._kernels) - before
    run: set[str] = set()
    submit = device.plan

    async def noting(dispatches: Any, label: str) -> Any:
        run.update(dispatch.shader.source for dispatch in dispatches)
        return await submit(dispatches, label)

    device.plan = noting  # type: ignore[method-assign]
    try:
        engine = start.engine
        engine.reserve(0, 300)
        drive(engine.step([Row(5, position, 0) for position in range(20)], [19], 20))
        drive(engine.step([Row(5, 20, 0)], [0], 21))
        drive(engine.step([Row(5, 299, 0)], [0], 300))
        drive(device.flush())
    finally:
        del device.plan  # type: ignore[method-assign]
    # a small model shares no kernel with the tests before it, but may share some with the small checks
    assert run <= set(device._kernels)
    assert not run - before - checked, "a first token would wait for kernels that were not checked"
    assert not checked - run - {source for source in checked if "raw" in source}


@pytest.mark.parametrize(
    "options",
    [
        {"precision": "exact"},
        {"kv_type": "f32"},
        {"ctx_size": 1024},
        {"ctx_size": 1},
        {"ctx_size": 100},
    ],
)
def test_another_way_to_run_is_checked_anew(begin: Begin, options: dict[str, Any]) -> None:
    assert begin().check().tried
    assert begin(**options).check().tried


def test_models_that_differ_in_types_alone_are_told_apart(begin: Begin, tiny_llama: Callable[..., Path]) -> None:
    half, brain = (dict.fromkeys(("attn", "ffn", "token", "output"), kind) for kind in ("F16", "BF16"))
    assert begin(tiny_llama(types=half)).check().tried
    assert begin(tiny_llama(types=brain)).check().tried


@pytest.mark.parametrize("subgroups", [True, False])
def test_models_of_all_kinds_pass(
    device: NativeDevice, begin: Begin, tiny_llama: Callable[..., Path], subgroups: bool
) -> None:
    mixed = {
        "attn_q": "Q8_0",
        "attn_k": "Q4_0",
        "attn_v": "F16",
        "ffn_gate": "Q5_1",
        "ffn_up": "Q5_0",
        "ffn_down": "F16",
    }
    kinds: list[dict[str, Any]] = [
        {"types": mixed, "biases": True, "tied": True},
        {"head_dim": 8, "heads": 4, "kv_heads": 4, "layers": 1},
        {},
        {"width": 256, "feed_forward": 256, "types": {"blk.0": "Q5_0", "blk.1": "Q5_1", "token": "BF16"}},
    ]
    for changes in kinds if subgroups else kinds[:2]:
        start = begin(tiny_llama(**changes))
        if not subgroups:
            device.subgroup_size = 0
        start.check()
        assert start.tried > 10 and not start.warnings and start.engine.precision == "fast"


def test_weights_that_are_no_numbers_are_the_files_fault(begin: Begin, tiny_llama: Callable[..., Path]) -> None:
    def spoil_first_row(name: str, data: Any) -> None:
        if "blk.0.ffn_up" in name:
            data[0, :2] = (0xFF, 0x7F)

    start = begin(tiny_llama(types=QUANTIZED, raw=spoil_first_row)).check()
    assert start.tried and not start.warnings


def test_broken_subgroups_are_done_without(device: NativeDevice, begin: Begin, spoil: Any) -> None:
    if device.subgroup_size < 8:
        pytest.skip("this adapter has no subgroups that kernels use")
    start = begin()
    spoil("", "subgroupShuffleXor(value, 1u)", "subgroupShuffleXor(value, 2u)")
    start.check()
    assert device.subgroup_size == 0 and start.engine.precision == "fast"
    (warning,) = start.warnings
    assert warning.startswith("embed Q8_0 fast fails its check on ") and "without subgroups" in warning
    assert device.adapter.driver in warning

    again = begin().check()
    assert again.tried == 0 and again.warnings == [warning] and device.subgroup_size == 0


def test_broken_int8_makes_exact_of_fast(device: NativeDevice, begin: Begin, spoil: Any) -> None:
    start, size = begin(), device.subgroup_size
    spoil("", " pack4xI8(", " 1u ^ pack4xI8(")
    start.check()
    assert device.subgroup_size == size and start.engine.precision == "exact"
    (warning,) = start.warnings
    assert "the model runs with precision exact, which is slower" in warning

    again = begin().check()
    assert again.tried == 0 and again.warnings == [warning] and again.engine.precision == "exact"


def test_no_way_left_is_an_error_that_names_kernel_and_remedy(
    device: NativeDevice, begin: Begin, spoil: Any, home: Path
) -> None:
    start = begin()
    spoil("rope/", "angles[", "1.01 * angles[")
    with pytest.raises(DeviceError, match=r"^rope norm f16 fails its check on .*: update its driver .*doctor") as error:
        start.check()
    assert device.adapter.name in str(error.value) and "\n" not in str(error.value)
    assert not home.exists(), "a failure is no verdict to keep"


def test_refused_kernel_is_an_error_too(begin: Begin, spoil: Any) -> None:
    start = begin()
    spoil("sample/token", "fn main", "fn main main")
    with pytest.raises(DeviceError, match=r"^sample fails its check on .*refused"):
        start.check()


def test_lost_device_is_no_wrong_answer(begin: Begin, monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    async def lost(*_: object) -> float:
        raise DeviceLostError("the GPU device was lost: load the model again")

    start = begin()
    monkeypatch.setattr(kernel_check, "error_of", lost)
    with pytest.raises(DeviceLostError):
        start.check()
    assert not home.exists()


@pytest.mark.parametrize(
    "damage",
    [
        lambda path, good: path.write_bytes(b""),
        lambda path, good: path.write_bytes(good[: len(good) // 2]),
        lambda path, good: path.write_bytes(b"\xff\0" * 100),
        lambda path, good: path.write_text("[1, 2]"),
        lambda path, good: path.write_text("[" * 100_000),
        lambda path, good: (path.unlink(), path.mkdir()),
        lambda path, good: change(path, lambda verdict: None),
        lambda path, good: change(path, lambda verdict: {**verdict, "precision": "quick"}),
        lambda path, good: change(path, lambda verdict: {**verdict, "subgroups": "no"}),
        lambda path, good: change(path, lambda verdict: {**verdict, "warning": 3}),
        lambda path, good: change(path, lambda verdict: {**verdict, "more": 1}),
    ],
)
def test_damaged_verdicts_are_made_again(begin: Begin, home: Path, damage: Callable[[Path, bytes], object]) -> None:
    begin().check()
    path = home / "kernel-checks.json"
    damage(path, path.read_bytes())
    start = begin().check()
    assert start.tried > 10 and not start.warnings


def change(path: Path, verdict: Callable[[dict[str, Any]], object]) -> None:
    path.write_text(json.dumps({key: verdict(value) for key, value in json.loads(path.read_text()).items()}))


def test_nowhere_to_keep_a_verdict(begin: Begin, home: Path) -> None:
    home.write_text("a file where the folder should be")
    assert begin().check().tried and begin().check().tried


def test_few_verdicts_are_kept(begin: Begin, home: Path) -> None:
    home.mkdir()
    path = home / "kernel-checks.json"
    path.write_text(json.dumps({str(i): {} for i in range(500)}))
    begin().check()
    kept = json.loads(path.read_text())
    assert len(kept) == 64 and "499" in kept and "0" not in kept
    assert begin().check().tried == 0


def test_checks_leave_nothing_on_the_device(device: NativeDevice, begin: Begin, home: Path) -> None:
    start = begin().check()
    before = device.buffers
    (home / "kernel-checks.json").unlink()
    assert start.check().tried
    assert device.buffers == before
