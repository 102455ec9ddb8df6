"""Embeddings of texts: beside the reference in float64, and what may be asked for."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.models.gguf_conversion import convert
from tests.models.hf_models import config_of, write_folder
from tests.models.hf_reference import bert, read_folder
from tests.models.likeness import cosines
from wgpu_engine import LLM, Embedder
from wgpu_engine.errors import EngineError, ModelFileError, RequestError, UnsupportedModelError

LENGTHS = (3, 41, 1, 128, 7, 127, 33, 2, 64, 90)
SIZES = {"hidden_size": 96, "num_attention_heads": 3, "intermediate_size": 160}


def ids_of(length: int, seed: int = 0) -> list[int]:
    return [(7 + 31 * i + i * i + 101 * seed) % 500 for i in range(length)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("bert") / "folder", config_of("BertModel", **SIZES))


@pytest.fixture(scope="module")
def embedder(folder: Path) -> Iterator[Embedder]:
    with Embedder(folder, precision="exact") as opened:
        yield opened


def test_the_reference(folder: Path, embedder: Embedder, tmp_path: Path) -> None:
    texts = [ids_of(length, seed) for seed, length in enumerate(LENGTHS)]
    wanted = np.array([bert.embedding(read_folder(folder), ids) for ids in texts])
    found = embedder.embed(texts)
    assert found.dtype == np.float32 and found.shape == (len(texts), 96)
    assert np.abs(found - wanted).max() < 1e-5
    with Embedder(convert(folder, tmp_path / "bert.gguf"), precision="exact") as other:
        assert np.array_equal(other.embed(texts), found)


@pytest.mark.parametrize("changes", [{"hidden_act": "relu"}, {"hidden_act": "gelu_new", "num_attention_heads": 6}])
def test_other_settings(changes: dict[str, Any], tmp_path: Path) -> None:
    path = write_folder(tmp_path / "folder", config_of("BertModel", **(SIZES | changes)))
    model = read_folder(path)
    if changes["hidden_act"] == "relu":
        from tests.models.hf_reference.activations import ACTIVATIONS

        ACTIVATIONS.setdefault("relu", lambda x: np.maximum(x, 0))
    with Embedder(path, precision="exact") as embedder:
        found = embedder.embed([ids_of(20)])
    assert np.abs(found - bert.embedding(model, ids_of(20))).max() < 1e-5


def test_a_batch_is_the_same_bits_as_single_texts(embedder: Embedder) -> None:
    texts = [ids_of(length, seed) for seed, length in enumerate(LENGTHS * 3)]
    whole = embedder.embed(texts)
    assert np.array_equal(whole, np.concatenate([embedder.embed([ids]) for ids in texts]))
    order = list(reversed(range(len(texts))))
    assert np.array_equal(embedder.embed([texts[i] for i in order]), whole[order])


def test_many_short_texts(embedder: Embedder) -> None:
    """More than there are slots in a step."""
    steps: list[tuple[str, int, int | None]] = []
    texts = [ids_of(1 + i % 2, i) for i in range(150)]
    found = embedder.embed(texts, lambda *step: steps.append(step))
    assert np.array_equal(found[[0, 77, 149]], embedder.embed([texts[0], texts[77], texts[149]]))
    assert steps[-1] == ("texts", 150, 150) and len(steps) > 2
    assert embedder.embed([]).shape == (0, 96)


def test_fast_is_near_exact(tmp_path: Path) -> None:
    """Weights in blocks, so that int8 is at work."""
    folder = write_folder(tmp_path / "folder", config_of("BertModel", **SIZES))
    path = convert(folder, tmp_path / "q8.gguf", "Q8_0")
    found = {}
    for precision in ("exact", "fast"):
        with Embedder(path, precision=precision) as embedder:
            found[precision] = embedder.embed([ids_of(40), ids_of(5)])
    assert (cosines(found["exact"], found["fast"]) > 0.999).all()
    assert not np.array_equal(found["exact"], found["fast"])


def test_asynchronously(embedder: Embedder) -> None:
    async def both() -> list[Any]:
        return await asyncio.gather(embedder.aembed([ids_of(9)]), embedder.aembed([ids_of(30)]))

    first, second = asyncio.run(both())
    assert np.array_equal(np.concatenate([first, second]), embedder.embed([ids_of(9), ids_of(30)]))


def test_long_texts_are_cut_with_a_warning(embedder: Embedder) -> None:
    long = ids_of(300)
    with pytest.warns(UserWarning, match="1 of 2 texts has more than the 128 tokens"):
        found = embedder.embed([long, ids_of(4)])
    assert np.array_equal(found, embedder.embed([long[:128], ids_of(4)]))


def test_empty_texts_get_what_surrounds_texts_with_a_warning(
    embedder: Embedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode = SimpleNamespace(encode=lambda text: [101, *map(ord, text), 102])
    monkeypatch.setattr(embedder, "tokenizer", encode)
    with pytest.warns(UserWarning, match="2 of 3 texts are empty: such an embedding says nothing"):
        found = embedder.embed(["", "a", " "])
    assert np.array_equal(found, embedder.embed([[101, 102], [101, 97, 102], [101, 32, 102]]))


@pytest.mark.parametrize(
    ("texts", "match"),
    [
        ("a text", "give a list of one"),
        (5, "must be a list"),
        ([[1.5]], "must be a list"),
        ([None], "must be a list"),
        ([[]], "without any token"),
        ([[500]], "token id 500 is outside the vocabulary: give ids from 0 to 499"),
        ([[-1]], "token id -1"),
        (["words"], "no tokenizer"),
    ],
)
def test_refusals(texts: Any, match: str, embedder: Embedder) -> None:
    with pytest.raises(RequestError, match=match):
        embedder.embed(texts)


def test_closed(folder: Path) -> None:
    embedder = Embedder(folder)
    embedder.close()
    with pytest.raises(RequestError, match="closed"):
        embedder.embed([[1]])


def test_each_kind_of_model_has_its_class(folder: Path, tiny_llama: Any) -> None:
    with pytest.raises(RequestError, match=r"use wgpu_engine\.Embedder"):
        LLM(folder)
    with pytest.raises(RequestError, match="is a language model"):
        Embedder(tiny_llama())
    for wrong in ({"precision": "quick"}, {"model": 5}):
        with pytest.raises(EngineError):
            Embedder(**({"model": folder} | wrong))  # type: ignore[arg-type]


def sentence_files(folder: Path, pooling: dict[str, Any] | None, most: int | None) -> None:
    if pooling is not None:
        (folder / "1_Pooling").mkdir()
        (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    if most is not None:
        (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": most}))


def test_first_token_and_shorter_texts_where_the_folder_says_so(tmp_path: Path) -> None:
    path = write_folder(tmp_path, config_of("BertModel", **SIZES))
    sentence_files(path, {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, 50)
    with Embedder(path, precision="exact") as embedder:
        assert embedder.max_tokens == 50
        found = embedder.embed([ids_of(20)])[0]
    wanted = bert.hidden(read_folder(path), ids_of(20))[0]
    assert np.abs(found - wanted / np.linalg.norm(wanted)).max() < 1e-5


@pytest.mark.parametrize(
    ("changes", "pooling", "error", "match"),
    [
        ({}, {"pooling_mode_max_tokens": True}, UnsupportedModelError, "the pooling of"),
        ({"position_embedding_type": "relative_key"}, None, UnsupportedModelError, "relative_key"),
        ({"num_attention_heads": 5}, None, ModelFileError, "5 heads"),
        ({"max_position_embeddings": 256}, None, ModelFileError, "position_embd"),
    ],
)
def test_refused_models(
    changes: dict[str, Any], pooling: dict[str, Any] | None, error: type[Exception], match: str, tmp_path: Path
) -> None:
    path = write_folder(tmp_path, config_of("BertModel", **SIZES))
    config = path / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | changes))
    sentence_files(path, pooling, None)
    with pytest.raises(error, match=match):
        Embedder(path)


@pytest.mark.model
@pytest.mark.conformance
@pytest.mark.parametrize(("precision", "cosine", "error"), [("exact", 0.999999, 2e-6), ("fast", 0.99999, 5e-4)])
def test_minilm(minilm: Path, conformance: Path, precision: Any, cosine: float, error: float) -> None:
    sentences = json.loads((conformance / "logits" / "minilm-sentences.json").read_text(encoding="utf-8"))
    with np.load(conformance / "logits" / "minilm-hf.npz") as data, Embedder(minilm, precision=precision) as embedder:
        masks = data["attention_mask"].astype(bool)
        ids = [row[mask].tolist() for row, mask in zip(data["input_ids"], masks, strict=True)]
        assert [embedder.tokenizer.encode(text) for text in sentences] == ids
        found = embedder.embed(sentences)
        assert (found * data["emb"]).sum(axis=1).min() >= cosine
        assert np.abs(found - data["emb"]).max() < error
        assert np.array_equal(found, np.concatenate([embedder.embed([text]) for text in sentences]))
        with pytest.warns(UserWarning, match="256 tokens"):
            long = embedder.embed(["word " * 300])
        assert np.array_equal(long, embedder.embed(["word " * 254]))
