"""Loading without a device: it finds what a load would stumble over, and nothing where there is nothing."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wgpu_engine import LLM
from wgpu_engine.engine.rehearsal import Rehearsal, rehearse
from wgpu_engine.errors import EngineError
from wgpu_engine.files.gguf import UnreadableTensor
from wgpu_engine.files.opening import open_any
from wgpu_engine.gpu.device import AdapterInfo, Limits
from wgpu_engine.platform.drive import drive

ADAPTER = AdapterInfo(0, "Blue GPU", "discrete", "Vulkan", "blue 1.2")
Files = Callable[..., Path]


def rehearsed(path: Path, adapter: AdapterInfo | None = ADAPTER, **options: Any) -> Rehearsal:
    settings: dict[str, Any] = {"ctx_size": 64, "precision": "fast", "kv_type": "f16"} | options
    with drive(open_any(path)) as file:
        unreadable = settings.pop("unreadable", [])
        tensors = {name: tensor for name, tensor in file.tensors.items() if name not in {u.name for u in unreadable}}
        return drive(rehearse(file.metadata, tensors, unreadable, adapter, **settings))


@pytest.mark.parametrize("precision", ["exact", "fast"])
@pytest.mark.parametrize("adapter", [ADAPTER, None])
def test_nothing_stands_in_the_way_of_a_sound_model(
    tiny_llama: Files, precision: str, adapter: AdapterInfo | None
) -> None:
    found = rehearsed(tiny_llama(types={"ffn": "Q4_0"}, biases=True), adapter, precision=precision)
    assert not found.obstacles and not found.unused and not found.warnings
    assert found.description is not None and found.description.layers == 2
    assert found.dispatches is not None and 12 <= found.dispatches <= 20


def test_a_folder(tiny_folder: Files) -> None:
    assert not rehearsed(tiny_folder()).obstacles


NORM = np.ones(64, np.float32)
UNSOUND: list[tuple[dict[str, Any], str]] = [
    ({"architecture": "novel"}, "architecture 'novel' is not supported yet; supported: .*llama"),
    ({"tensors": {"token_embd.weight": None}}, "token_embd.weight is missing"),
    ({"tensors": {"blk.1.ffn_up.weight": None}}, "blk.1.ffn_up.weight is missing"),
    ({"tensors": {"blk.0.attn_norm.weight": NORM[:32]}}, r"blk.0.attn_norm.weight has the shape \[32\]"),
    ({"tensors": {"blk.2.attn_norm.weight": NORM}}, "holds tensors of 3 layers and its settings tell of 2"),
    ({"metadata": {"block_count": 1}}, "llama.block_count .num_hidden_layers"),
    ({"metadata": {"block_count": None}}, "llama.block_count is missing"),
    ({"metadata": {"attention.head_count": 0}}, "llama.attention.head_count is 0"),
    ({"metadata": {"rope.scaling.type": "spiral"}}, "RoPE scaling 'spiral'"),
    ({"rope_factors": [0.0] * 16}, "RoPE factors holds some that can't be"),
]


@pytest.mark.parametrize(("changes", "said"), UNSOUND)
def test_finds_what_a_load_would_stumble_over(tiny_llama: Files, changes: dict[str, Any], said: str) -> None:
    path = tiny_llama(**changes)
    found = rehearsed(path)
    assert len(found.obstacles) == 1
    with pytest.raises(EngineError, match=said) as refused:
        LLM(path, ctx_size=64)
    assert str(refused.value) == found.obstacles[0]


def test_everything_is_told_up_to_a_number(tiny_llama: Files) -> None:
    names = ("ffn_norm", "ffn_down", "attn_norm", "attn_output")
    lacking = {f"blk.{i}.{name}.weight": None for i in range(3) for name in names}
    found = rehearsed(tiny_llama(layers=3, tensors={**lacking, "output_norm.weight": NORM[:8]}))
    wrong = [*lacking, "output_norm.weight"]
    named = [name for obstacle in found.obstacles[:8] for name in wrong if name in obstacle]
    assert len(set(named)) == 8
    assert found.obstacles[8:] == [f"further tensors that are missing or of another shape: {len(wrong) - 8}"]


def test_tensors_that_can_not_be_read_pass_for_sound_ones(tiny_llama: Files) -> None:
    names = {"token_embd.weight": (279, 64), "blk.0.attn_q.weight": (64, 64), "output_norm.weight": (64,)}
    unreadable = [UnreadableTensor(name, "type 99", shape) for name, shape in names.items()]
    assert not rehearsed(tiny_llama(), unreadable=unreadable).obstacles
    wrong = [*unreadable[:-1], UnreadableTensor("output_norm.weight", "type 99", (63,))]
    assert "has the shape [63]" in rehearsed(tiny_llama(), unreadable=wrong).obstacles[0]


def test_what_the_model_does_without_is_named(tiny_llama: Files) -> None:
    found = rehearsed(tiny_llama(tensors={"blk.0.novel.weight": NORM}))
    assert found.unused == ["blk.0.novel.weight"] and not found.obstacles


def test_weights_that_are_no_numbers_are_told(tiny_llama: Files) -> None:
    found = rehearsed(tiny_llama(tensors={"output_norm.weight": NORM * np.nan}))
    assert len(found.warnings) == 1 and "output_norm.weight holds NaN" in found.warnings[0]


def test_an_adapter_of_small_limits(tiny_llama: Files) -> None:
    """A context beyond what a kernel may reach, and a row of weights beyond it."""
    small = AdapterInfo(0, "Small GPU", "other", "", "", limits=Limits(binding_bytes=1 << 16))
    found = rehearsed(tiny_llama(), small, ctx_size=4096)
    assert len(found.obstacles) == 1 and "give a --ctx-size of at most" in found.obstacles[0]


def test_hostile_settings_take_no_time(tiny_llama: Files) -> None:
    huge = {"embedding_length": 1 << 24, "block_count": 1 << 12, "feed_forward_length": 1 << 24}
    assert rehearsed(tiny_llama(metadata=huge)).obstacles
    vast = UnreadableTensor("blk.0.ffn_up.weight", "type 99", (1 << 40, 1 << 40))
    assert rehearsed(tiny_llama(), unreadable=[vast]).obstacles
