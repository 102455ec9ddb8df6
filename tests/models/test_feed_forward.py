"""Mixtures of experts: what settings and tensors are taken for, what is refused, and what a token costs."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.models.gguf_conversion import convert
from tests.models.hf_models import config_of, write_folder
from tests.models.likeness import cosines
from wgpu_engine import LLM
from wgpu_engine.errors import ModelFileError, UnsupportedModelError
from wgpu_engine.files.gguf import TensorInfo
from wgpu_engine.files.quants import QUANT_TYPES
from wgpu_engine.models.feed_forward import Gated, Mixture, load_feed_forward
from wgpu_engine.models.settings import Settings
from wgpu_engine.models.tensors import Tensors
from wgpu_engine.ops.repack import Loader
from wgpu_engine.ops.state import Row
from wgpu_engine.ops.weight import Weight
from wgpu_engine.platform.drive import drive
from wgpu_engine.platform.memory_source import MemorySource

WIDTH, INNER, EXPERTS = 32, 8, 3
MIXTURE = Mixture(EXPERTS, 2, INNER, "chosen", 1.0)


def mixture(**values: Any) -> Mixture | None:
    usual = {"expert_count": 8, "expert_used_count": 2, "feed_forward_length": 64}
    return Mixture.read(
        Settings({"general.architecture": "llama"} | {f"llama.{k}": v for k, v in (usual | values).items()})
    )


def test_settings() -> None:
    assert mixture() == Mixture(8, 2, 64, "chosen", 1.0)
    others = {"expert_feed_forward_length": 48, "expert_weights_norm": False, "expert_weights_scale": 2.5}
    assert mixture(**others) == Mixture(8, 2, 48, "all", 2.5)
    assert mixture(expert_shared_feed_forward_length=32) == Mixture(8, 2, 64, "chosen", 1.0, 32)
    assert mixture(expert_count=0, expert_used_count=0) is None
    assert mixture(expert_gating_func=1, expert_shared_count=0) == mixture()


@pytest.mark.parametrize(
    "wrong",
    [
        {"expert_used_count": 9},
        {"expert_used_count": 0},
        {"expert_used_count": None},
        {"expert_count": 1 << 20},
        {"expert_count": -1},
        {"feed_forward_length": 0},
        {"expert_feed_forward_length": 30},
        {"expert_shared_feed_forward_length": 30},
        {"expert_shared_feed_forward_length": 64, "expert_count": 1, "expert_used_count": 1},
    ],
)
def test_absurd_settings(wrong: dict[str, Any]) -> None:
    with pytest.raises(ModelFileError):
        mixture(**wrong)


@pytest.mark.parametrize("other", [{"expert_gating_func": 2}, {"expert_shared_count": 1}])
def test_other_mixtures_are_refused(other: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedModelError, match="use a model like Mixtral"):
        mixture(**other)


def tensor(name: str, *shape: int, quant: str = "F32") -> TensorInfo:
    data = np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).tobytes()
    if quant != "F32":
        data = bytes(int(np.prod(shape[:-1])) * QUANT_TYPES[quant].row_bytes(shape[-1]))
    return TensorInfo(name, QUANT_TYPES[quant], shape, MemorySource(name, data), 0, len(data))


def stacked() -> dict[str, TensorInfo]:
    shapes = {
        "ffn_gate_inp": (EXPERTS, WIDTH),
        "ffn_gate_exps": (EXPERTS, INNER, WIDTH),
        "ffn_up_exps": (EXPERTS, INNER, WIDTH),
        "ffn_down_exps": (EXPERTS, WIDTH, INNER),
        "ffn_norm": (WIDTH,),
    }
    return {f"blk.0.{name}.weight": tensor(f"blk.0.{name}.weight", *shape) for name, shape in shapes.items()}


def apart() -> dict[str, TensorInfo]:
    """As files of 2023 have them, and folders."""
    found = stacked()
    for name in ("gate", "up", "down"):
        whole = found.pop(f"blk.0.ffn_{name}_exps.weight")
        size = whole.nbytes // EXPERTS
        for i in range(EXPERTS):
            each = replace(
                whole, name=f"blk.0.ffn_{name}.{i}.weight", shape=whole.shape[1:], offset=i * size, nbytes=size
            )
            found[each.name] = each
    return found


@pytest.fixture
def load(device: Any) -> Any:
    def loaded(tensors: dict[str, TensorInfo]) -> Any:
        loader = Loader(device, progress.append)
        try:
            norm = tensors["blk.0.ffn_norm.weight"]
            return drive(load_feed_forward(Tensors(tensors), "blk.0.", WIDTH, 16, MIXTURE, norm, loader))
        finally:
            loader.close()

    progress: list[int] = []
    loaded.progress = progress  # type: ignore[attr-defined]
    return loaded


def planes(device: Any, weight: Weight) -> list[bytes]:
    return [bytes(drive(device.receive(device.read(part.buffer, 0, part.buffer.size)))) for part in weight.parts]


def test_one_tensor_and_a_tensor_each_are_the_same(device: Any, load: Any) -> None:
    one, each = load(stacked()), load(apart())
    for a, b in ((one.gate_up[0], each.gate_up[0]), (one.down, each.down), (one.router, each.router)):
        assert planes(device, a) == planes(device, b)
        assert (a.features, a.k, a.experts) == (b.features, b.k, b.experts)
    assert (one.gate_up[0].ports, one.gate_up[0].features, one.gate_up[0].experts) == (2, INNER, EXPERTS)
    all_experts = one.gate_up[0].bytes + one.down.bytes
    assert one.bytes_per_token == one.router.bytes + all_experts * 2 // 3


def test_scales_of_experts(device: Any, load: Any) -> None:
    """A scale for each in a tensor beside all of them, or beside each of them, whose place is the same."""
    scales = {"gate": [0.5, 2.0, 3.0], "up": [1.5, 0.25, 1.0], "down": [4.0, 0.75, 0.1]}
    one, each = stacked(), apart()
    for name, values in scales.items():
        for i, value in enumerate(values):
            each[f"blk.0.ffn_{name}.{i}.scale"] = floats(f"blk.0.ffn_{name}.{i}.scale", value)
        one[f"blk.0.ffn_{name}_exps.scale"] = floats(f"blk.0.ffn_{name}_exps.scale", *values)
    wanted = [scales[port][i] for i in range(EXPERTS) for port in ("gate", "up") for _ in range(INNER)]
    for tensors in (one, each):
        loaded = load(tensors)
        found = drive(device.receive(device.read(loaded.gate_up[0].factors, 0, 4 * len(wanted))))
        assert np.array_equal(np.frombuffer(found, np.float32), np.array(wanted, np.float32))
        assert loaded.down.factors is not None and loaded.router.factors is None
    one["blk.0.ffn_up_exps.scale"] = floats("blk.0.ffn_up_exps.scale", 1.0, 2.0)
    with pytest.raises(UnsupportedModelError, match="only one scale"):
        load(one)


def floats(name: str, *values: float) -> TensorInfo:
    data = np.array(values, np.float32).tobytes()
    return TensorInfo(name, QUANT_TYPES["F32"], (len(values),), MemorySource(name, data), 0, len(data))


def test_progress_counts_what_the_file_holds(load: Any) -> None:
    tensors = stacked() | {"blk.0.ffn_gate_inp.weight": tensor("gate", EXPERTS, WIDTH, quant="F16")}
    load(tensors)
    del tensors["blk.0.ffn_norm.weight"]
    assert sum(load.progress) == sum(each.nbytes for each in tensors.values())


def test_layers_without_a_router_have_no_experts(load: Any) -> None:
    shapes = {"ffn_gate": (16, WIDTH), "ffn_up": (16, WIDTH), "ffn_down": (WIDTH, 16), "ffn_norm": (WIDTH,)}
    tensors = {f"blk.0.{name}.weight": tensor(name, *shape) for name, shape in shapes.items()}
    assert isinstance(load(tensors), Gated)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"blk.0.ffn_down_exps.weight": None}, ModelFileError, r"ffn_down\.0\.weight is missing"),
        (
            {"blk.0.ffn_up_exps.weight": tensor("up", EXPERTS, WIDTH, INNER)},
            ModelFileError,
            r"has the shape \[3, 32, 8\]",
        ),
        (
            {"blk.0.ffn_up_exps.weight": tensor("up", EXPERTS * INNER, WIDTH)},
            ModelFileError,
            r"has the shape \[24, 32\]",
        ),
        ({"blk.0.ffn_gate_inp.weight": tensor("gate", 4, WIDTH)}, ModelFileError, r"has the shape \[4, 32\]"),
        (
            {"blk.0.ffn_gate_inp.weight": tensor("gate", EXPERTS, WIDTH, quant="Q8_0")},
            UnsupportedModelError,
            "only unquantized types",
        ),
    ],
)
def test_wrong_tensors_are_refused(load: Any, change: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        load({name: each for name, each in (stacked() | change).items() if each})


def test_experts_of_unequal_types_are_refused(load: Any) -> None:
    other = tensor("blk.0.ffn_up.1.weight", INNER, WIDTH, quant="Q8_0")
    with pytest.raises(UnsupportedModelError, match="of the types F32, Q8_0"):
        load(apart() | {other.name: other})


@pytest.mark.parametrize("architecture", ["MixtralForCausalLM", "Qwen3MoeForCausalLM"])
def test_what_a_token_costs(tmp_path: Path, architecture: str) -> None:
    """Parameters of the experts that a token meets, by both spellings of tensors, and eight dispatches a layer."""
    config = config_of(architecture)
    folder = write_folder(tmp_path / "folder", config)
    found = []
    for path in (folder, convert(folder, tmp_path / "model.gguf")):
        with LLM(path, ctx_size=64) as llm:
            d = llm._engine.model.description
            found.append((d.parameters, d.active_parameters))
            assert drive(llm._engine.decode_plan()).dispatches == 4 + 8 * config["num_hidden_layers"]
    assert found[0] == found[1]
    inner = config.get("moe_intermediate_size", config["intermediate_size"])
    experts = config.get("num_experts") or config["num_local_experts"]
    idle = (experts - 2) * 3 * inner * config["hidden_size"] * config["num_hidden_layers"]
    assert found[0][0] - found[0][1] == idle > 0


@pytest.mark.parametrize("architecture", ["MixtralForCausalLM", "Qwen2MoeForCausalLM", "Qwen3MoeForCausalLM"])
def test_fast_on_quantized_experts(tmp_path: Path, architecture: str) -> None:
    """Most rows choose the same experts as in `exact`, and are near it then."""
    config = config_of(architecture, hidden_size=64, intermediate_size=96, moe_intermediate_size=96)
    folder = write_folder(tmp_path, config)
    rows = [Row((7 + 31 * i + i * i) % config["vocab_size"], i, 0) for i in range(41)]
    found = {}
    for precision in ("exact", "fast"):
        with LLM(folder, ctx_size=64, precision=precision, quantize="Q8_0") as llm:
            llm._engine.reserve(0, len(rows))
            data = b"".join(drive(llm._engine.logits(rows, len(rows))))
            found[precision] = np.frombuffer(data, np.float32).reshape(len(rows), -1)
    exact, fast = found["exact"], found["fast"]
    assert np.median(cosines(exact, fast)) > 0.999 and (exact != fast).any()
