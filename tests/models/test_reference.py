"""The reference beside transformers, and random models that show what they have."""

from pathlib import Path

import numpy as np
import pytest

from tests.models.hf_models import VARIANTS, Variant, write_folder
from tests.models.hf_reference import Checkpoint, read_folder, run, run_folder

NAMES = (
    *("bitnet", "gemma2", "gemma3_text", "gpt2", "gpt_neox", "granite", "lfm2", "llama", "llama3-rope"),
    *("mistral", "mixtral", "olmo2", "phi", "phi3", "qwen2", "qwen3", "qwen3_moe", "smollm3"),
)


@pytest.mark.conformance
@pytest.mark.parametrize("name", NAMES)
def test_transformers(conformance: Path, name: str) -> None:
    folder = conformance / "architectures" / name
    with np.load(folder / "ref.npz") as data:
        assert np.abs(run_folder(folder, data["ids"][0].tolist()) - data["logits"]).max() < 3e-6


@pytest.mark.parametrize("variant", [each for each in VARIANTS if each.without or each.lacking], ids=str)
def test_a_feature_shows(variant: Variant, tmp_path: Path) -> None:
    """Logits are about 1, and without the feature they are others by far more than engines may differ."""
    model = read_folder(write_folder(tmp_path, variant.config, variant.dtype))
    ids = variant.ids
    zeros = {name: 0 * values for name, values in model.tensors.items() if variant.lacking and variant.lacking in name}
    found = run(model, ids)
    without = run(Checkpoint(model.config | dict(variant.without), {**model.tensors, **zeros}), ids)
    assert 0.5 < found.std() < 2
    assert np.abs(found - without).max() > 0.1
