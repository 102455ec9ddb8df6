"""Every architecture, from its folder and from GGUF, beside transformers and beside the reference in float64."""

from collections.abc import Sequence
from itertools import accumulate, cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.models.gguf_conversion import ARCHITECTURES, convert
from tests.models.hf_models import BASES, VARIANTS, Variant, config_of, safetensors, write_folder
from tests.models.hf_reference import attention as hf_attention
from tests.models.hf_reference import read_folder, run_folder
from tests.models.likeness import cosines
from wgpu_engine import LLM
from wgpu_engine.engine.engine import Engine
from wgpu_engine.errors import UnsupportedModelError
from wgpu_engine.models import attention_weights
from wgpu_engine.ops import attention
from wgpu_engine.ops.state import Row
from wgpu_engine.platform.drive import drive

Array = NDArray[np.float32]

NAMES = (
    *("bitnet", "gemma2", "gemma3_text", "gpt2", "gpt_neox", "granite", "lfm2", "llama", "llama3-rope"),
    *("mistral", "mixtral", "olmo2", "phi", "phi3", "qwen2", "qwen3", "qwen3_moe", "smollm3"),
)
IN_GGUF = {"mistral": {"sliding_window": None}, "qwen3_moe": {"norm_topk_prob": True}}
"""what of these configurations GGUF takes for something else"""
TOLERANCE = 1e-4


def open_(path: Path, tokens: int = 41) -> LLM:
    return LLM(path, precision="exact", kv_type="f32", ctx_size=-(-tokens // 64) * 64)


def logits(llm: LLM, ids: Sequence[int], cut: Sequence[int]) -> Array:
    """Logits [tokens, vocab] of a prompt that comes in pieces of the lengths in `cut`, and of what fits a step."""
    engine, rows = llm._engine, [Row(token, position, 0) for position, token in enumerate(ids)]
    engine.reserve(0, len(ids))
    found: list[bytes] = []
    for end in accumulate(cut):
        while len(found) < end:
            found += drive(engine.logits(rows[len(found) : min(end, len(found) + 128)], len(ids)))
    engine.blocks.release(0)
    return np.frombuffer(b"".join(found), np.float32).reshape(len(ids), -1)


def check(path: Path, ids: Sequence[int], wanted: NDArray[np.floating]) -> None:
    """The logits are those wanted, and the same bits however the prompt is cut."""
    with open_(path, len(ids)) as llm:
        whole = logits(llm, ids, [len(ids)])
        assert np.abs(whole - wanted).max() < TOLERANCE
        assert np.array_equal(logits(llm, ids, [1] * len(ids)), whole), "token by token"
        assert np.array_equal(logits(llm, ids, [3, len(ids) - 3]), whole), "3, then the rest"


def wanted_of(folder: Path) -> tuple[list[int], Array]:
    with np.load(folder / "ref.npz") as data:
        return data["ids"][0].tolist(), data["logits"]


@pytest.mark.conformance
@pytest.mark.parametrize("name", NAMES)
def test_transformers(conformance: Path, name: str) -> None:
    folder = conformance / "architectures" / name
    ids, wanted = wanted_of(folder)
    check(folder, ids, wanted)


@pytest.mark.conformance
@pytest.mark.parametrize("name", NAMES)
def test_transformers_in_gguf(conformance: Path, tmp_path: Path, name: str) -> None:
    folder = conformance / "architectures" / name
    ids, wanted = wanted_of(folder)
    if name in IN_GGUF:
        wanted = run_folder(folder, ids, **IN_GGUF[name])
    check(convert(folder, tmp_path / "model.gguf"), ids, wanted)


def variants(in_gguf: bool) -> list[pytest.param]:
    marks = {True: [pytest.mark.slow], False: []}
    return [
        pytest.param(each, id=str(each), marks=marks[each.slow])
        for each in VARIANTS
        if not (in_gguf and isinstance(each.gguf, str))
    ]


@pytest.mark.parametrize("variant", variants(in_gguf=False))
def test_features(variant: Variant, tmp_path: Path) -> None:
    folder = write_folder(tmp_path, variant.config, variant.dtype)
    if variant.refused:
        with pytest.raises(UnsupportedModelError, match=variant.refused):
            open_(folder)
        return
    check(folder, variant.ids, run_folder(folder, variant.ids))


@pytest.mark.parametrize("variant", variants(in_gguf=True))
def test_features_in_gguf(variant: Variant, tmp_path: Path) -> None:
    """Where GGUF can't say something, what llama.cpp takes it for."""
    folder = write_folder(tmp_path / "folder", variant.config, variant.dtype)
    path = convert(folder, tmp_path / "model.gguf")
    assert not isinstance(variant.gguf, str)
    check(path, variant.ids, run_folder(folder, variant.ids, **variant.gguf))


@pytest.mark.parametrize("architecture", [each for each in BASES if each in ARCHITECTURES and each != "BertModel"])
def test_fast_on_quantized_weights(architecture: str, tmp_path: Path) -> None:
    """What users have by default: weights and activations in int8, keys and values in halves.

    Rounding may send a token to another expert.
    """
    changes = {
        "Gemma3ForCausalLM": {"layer_types": ["sliding_attention"] * 2},
        "Qwen2MoeForCausalLM": {"moe_intermediate_size": 64},
        "Qwen3MoeForCausalLM": {"moe_intermediate_size": 64},
    }
    folder = write_folder(tmp_path / "folder", config_of(architecture, **changes.get(architecture, {})))
    ids = [(3 + 37 * i) % 500 for i in range(20)]
    wanted = run_folder(folder, ids)
    with LLM(convert(folder, tmp_path / "model.gguf", "Q8_0"), precision="fast", ctx_size=32) as llm:
        found = llm.logits(ids)
    assert (cosines(found, wanted) > 0.99).mean() >= 0.95


@pytest.mark.parametrize("architecture", [each for each in BASES if each != "BertModel"])
def test_sequences_side_by_side(architecture: str, tmp_path: Path) -> None:
    """Each has the bits that it has alone, whatever its neighbours' rows are."""
    sequences = [[(5 + 11 * slot + 37 * i) % 500 for i in range(30)] for slot in range(3)]
    steps = [[(0, 10)], [(0, 5), (1, 21)], [(2, 30), (0, 15), (1, 1)], [(1, 8)]]
    with open_(write_folder(tmp_path, config_of(architecture))) as llm:
        alone = [logits(llm, ids, [30]) for ids in sequences]
        engine = Engine(llm._device, llm._engine.model, ctx_size=64, slots=3, precision="exact", kv_type="f32")
        found: list[list[bytes]] = [[], [], []]
        for step in steps:
            rows = []
            for slot, count in step:
                engine.reserve(slot, len(found[slot]) + count)
                start = len(found[slot])
                rows += [Row(sequences[slot][i], i, slot) for i in range(start, start + count)]
            for row, bits in zip(rows, drive(engine.logits(rows, 30)), strict=True):
                found[row.slot].append(bits)
        engine.free()
    for slot, each in enumerate(found):
        assert b"".join(each) == alone[slot].tobytes(), f"the sequence in slot {slot}"


def test_sinks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    """Attention sinks in a model that has none by itself: its layers are given them, and the reference too.

    The prompt is longer than a partition of attention, so that single tokens take it in parts and many at once don't.
    """
    config = config_of("LlamaForCausalLM")
    folder, ids = write_folder(tmp_path, config), [(7 + 31 * i + i * i) % 500 for i in range(270)]
    sinks = rng.normal(2, 2, (config["num_hidden_layers"], config["num_attention_heads"])).astype(np.float32)

    def with_sinks(builder: Any, qkv: Any, heads: Any, cache: Any, layer: int, *others: Any, **options: Any) -> Any:
        buffer = builder.device.buffer(sinks[layer].nbytes, "sinks")
        builder.device.write(buffer, 0, sinks[layer].tobytes())
        return attention.attend(builder, qkv, heads, cache, layer, *others, sinks=buffer, **options)

    plain = run_folder(folder, ids)
    layers = cycle(sinks.astype(np.float64))
    reference = hf_attention.attend
    monkeypatch.setattr(attention_weights, "attend", with_sinks)
    monkeypatch.setattr(hf_attention, "attend", lambda *given, **more: reference(*given, sinks=next(layers), **more))
    wanted = run_folder(folder, ids)
    assert np.abs(wanted - plain).max() > 100 * TOLERANCE
    with open_(folder, len(ids)) as llm:
        whole = logits(llm, ids, [270])
        assert np.abs(whole - wanted).max() < TOLERANCE
        for cut in ([3, 267], [255] + [1] * 15):
            assert np.array_equal(logits(llm, ids, cut), whole), cut


@pytest.mark.parametrize("architecture", ["GPT2LMHeadModel", "GPTNeoXForCausalLM", "LlamaForCausalLM"])
def test_folders_of_the_first_days(tmp_path: Path, architecture: str) -> None:
    """They hold masks and frequencies too, and GPT-2's names lack their first part."""
    folder, ids = write_folder(tmp_path, config_of(architecture)), [5, 3, 400, 77, 5]
    wanted = run_folder(folder, ids)
    tensors: dict[str, NDArray[np.generic]] = {
        name.removeprefix("transformer."): values.astype(np.float32)
        for name, values in read_folder(folder).tensors.items()
    }
    mask, some = np.tri(128, dtype=np.bool_)[None, None], np.ones(2, np.float32)
    for i in range(2):
        if architecture == "GPT2LMHeadModel":
            tensors[f"h.{i}.attn.bias"] = mask.astype(np.float32)
        elif architecture == "GPTNeoXForCausalLM":
            name = f"gpt_neox.layers.{i}.attention"
            tensors |= {f"{name}.bias": mask, f"{name}.masked_bias": np.array(-1e9, np.float32)}
            tensors[f"{name}.rotary_emb.inv_freq"] = some
        else:
            tensors[f"model.layers.{i}.self_attn.rotary_emb.inv_freq"] = some
    (folder / "model.safetensors").write_bytes(safetensors(tensors))
    check(folder, ids, wanted)


@pytest.mark.parametrize(
    ("vocab", "tied"), [(1 << 18, True), pytest.param((1 << 18) + 3, False, marks=pytest.mark.slow)]
)
def test_large_vocabularies(tmp_path: Path, vocab: int, tied: bool) -> None:
    """More tokens than there may be workgroups in a dimension, and odd numbers of rows."""
    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_attention_heads": 2, "num_hidden_layers": 1}
    config = config_of("LlamaForCausalLM", **sizes, vocab_size=vocab, tie_word_embeddings=tied)
    folder = write_folder(tmp_path, config, "BF16")
    ids = [vocab - 1, 0, vocab // 2 + 1, 65536, 65535]
    wanted = run_folder(folder, ids)
    with open_(folder) as llm:
        for cut in ([5], [1, 3, 1]):
            assert np.abs(logits(llm, ids, cut) - wanted).max() < TOLERANCE
        assert llm.generate(ids, max_tokens=1, temperature=0, ignore_eos=True).tokens == [wanted[-1].argmax()]
