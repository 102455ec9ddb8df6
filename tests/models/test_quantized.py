"""Models in every type that can be written: the file, and the same quantized while it is loaded."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.models.gguf_reference import read_gguf_reference
from tests.models.hf_reference import run
from tests.models.likeness import cosines
from wgpu_engine import LLM
from wgpu_engine.errors import RequestError
from wgpu_engine.files.opening import open_any
from wgpu_engine.files.quants import QUANT_TYPES
from wgpu_engine.platform.drive import drive
from wgpu_engine.quantize.convert import QUANTIZERS
from wgpu_engine.quantize.gguf_file import write_gguf
from wgpu_engine.quantize.recipe import recipe


def logits(path: Path, ids: list[int], **options: Any) -> Any:
    """Token by token, in plans of one row, whose kernels compile soonest."""
    with LLM(path, precision="exact", kv_type="f32", ctx_size=32, **options) as llm:
        llm._engine.prefill_rows = 1
        return llm.logits(ids)


def write(given: Path, out: Path, kind: str) -> Path:
    with drive(open_any(given)) as file:
        write_gguf(recipe(file, QUANT_TYPES[kind]).file, out, QUANT_TYPES[kind], lambda stage, done, total: None)
    return out


@pytest.mark.parametrize("kind", QUANTIZERS)
def test_every_type(tiny_llama: Callable[..., Path], tmp_path: Path, kind: str, rng: np.random.Generator) -> None:
    """The file's weights are what the kernels compute with, and quantizing on the way makes the same."""
    given = tiny_llama(layers=1, width=256, heads=4, kv_heads=2, head_dim=64, feed_forward=256)
    out = write(given, tmp_path / "out.gguf", kind)
    ids = rng.integers(0, 256, 6).tolist()
    found, wanted = logits(out, ids), run(read_gguf_reference(out), ids)
    assert np.abs(found - wanted).max() <= 1e-5 * np.abs(wanted).max()
    assert (logits(given, ids, quantize=kind) == found).all()


@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16"])
def test_a_folder(tiny_folder: Callable[..., Path], tmp_path: Path, dtype: str, rng: np.random.Generator) -> None:
    given, ids = tiny_folder(dtype=dtype), rng.integers(0, 300, 6).tolist()
    out = write(given, tmp_path / "out.gguf", "Q5_1")
    assert (logits(out, ids) == logits(given, ids, quantize="Q5_1")).all()


_QUICK = ("gemma3_text", "lfm2", "qwen3_moe")
_ARCHITECTURES = (
    *("bitnet", "gemma2", "gemma3_text", "gpt2", "gpt_neox", "granite", "lfm2", "llama", "llama3-rope", "mistral"),
    *("mixtral", "olmo2", "phi", "phi3", "qwen2", "qwen3", "qwen3_moe", "smollm3"),
)


@pytest.mark.conformance
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in _QUICK else pytest.mark.slow) for name in _ARCHITECTURES]
)
def test_architectures(conformance: Path, tmp_path: Path, name: str) -> None:
    """What has to stay in float does, experts are quantized too, and settings survive the file."""
    given = conformance / "architectures" / name
    with np.load(given / "ref.npz") as data:
        ids, wanted = data["ids"].ravel().tolist()[:8], data["logits"].reshape(-1, data["logits"].shape[-1])[:8]
    out = write(given, tmp_path / "out.gguf", "Q8_0")
    found = logits(given, ids, quantize="Q8_0")
    assert (logits(out, ids) == found).all()
    assert cosines(found, wanted).min() >= 0.999


def test_what_is_told_about_it(tiny_llama: Callable[..., Path]) -> None:
    seen = []
    with LLM(tiny_llama(types={"": "Q8_0"}), quantize="Q4_0", progress=lambda *what: seen.append(what)) as llm:
        assert llm.warnings == ["no weight became Q4_0: all have that type, or a quantized one, already"]
    with LLM(tiny_llama(), quantize="q4_k", progress=lambda *what: seen.append(what)) as llm:
        assert len(llm.warnings) == 1 and "token_embd.weight and 15 more became Q5_0" in llm.warnings[0]
    stages = [what for what in seen if what[0] == "weights"]
    assert stages[-1][1] == stages[-1][2], "progress ends with all bytes of the quantized weights"


def test_types_that_there_are_not(tiny_llama: Callable[..., Path]) -> None:
    with pytest.raises(RequestError, match="choose one of F32, F16"):
        LLM(tiny_llama(), quantize="Q7_K")
    with pytest.raises(RequestError, match="must be the name of a type"):
        LLM(tiny_llama(), quantize=4)  # type: ignore[arg-type]
