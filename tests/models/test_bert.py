"""Embeddings of sentences beside the reference: a random BERT as sentence-transformers publishes them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, normalizers, pre_tokenizers, processors
from tokenizers.models import WordPiece

from tests.models.hf_models import config_of, write_folder
from tests.models.hf_reference import read_folder
from tests.models.hf_reference.bert import embedding, hidden
from wgpu_engine import Embedder

SENTENCES = ("a cat", "the cats sat on the mat", "cat", "on the mat the cat sat and sat and sat and sat", "")
WORDS = ("a", "cat", "##s", "the", "sat", "on", "mat", "and", "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def tokenizer() -> Tokenizer:
    vocabulary = {word: i for i, word in enumerate(WORDS)}
    made = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.add_special_tokens(list(WORDS[8:]))
    ends = [("[CLS]", 10), ("[SEP]", 11)]
    made.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_folder(tmp_path, config_of("BertModel", vocab_size=len(WORDS)))
    tokenizer().save(str(tmp_path / "tokenizer.json"))
    special = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    modules = [{"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"}]
    modules += [
        {"idx": i, "path": f"{i}_{name}", "type": f"sentence_transformers.models.{name}"}
        for i, name in enumerate(("Pooling", "Normalize"), 1)
    ]
    pooling = {"word_embedding_dimension": 64, "pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}
    (tmp_path / "1_Pooling").mkdir()
    for name, values in (
        ("tokenizer_config.json", {"tokenizer_class": "BertTokenizer", "do_lower_case": True, **special}),
        ("modules.json", modules),
        ("1_Pooling/config.json", pooling),
    ):
        (tmp_path / name).write_text(json.dumps(values), encoding="utf-8")
    return tmp_path


def test_the_reference_sees_both_ways(folder: Path) -> None:
    """A later token changes an earlier state, and the order of tokens counts."""
    model = read_folder(folder)
    assert np.abs(hidden(model, [10, 1, 11])[0] - hidden(model, [10, 1, 5])[0]).max() > 0.1
    assert np.abs(embedding(model, [10, 1, 5, 11]) - embedding(model, [10, 5, 1, 11])).max() > 0.01


@pytest.mark.parametrize(("precision", "bound"), [("exact", 1e-5), ("fast", 5e-4)])
def test_sentences(folder: Path, precision: Any, bound: float) -> None:
    """With `fast`, matrices are kept as F16 and numbers stored between kernels may be."""
    model, made = read_folder(folder), tokenizer()
    wanted = np.stack([embedding(model, made.encode(sentence).ids) for sentence in SENTENCES])
    with Embedder(folder, precision=precision) as embedder:
        found = embedder.embed(SENTENCES)
        alone = [embedder.embed([sentence])[0] for sentence in SENTENCES]
    assert found.shape == (len(SENTENCES), 64) and found.dtype == np.float32
    assert np.abs(found - wanted).max() < bound
    assert np.abs(found - np.stack(alone)).max() < 1e-6
