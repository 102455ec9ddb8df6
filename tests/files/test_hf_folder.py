"""Folders as Hugging Face publishes them become what GGUF files are; what can't is refused by name."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.files.folders import Write, opened, refusal, values_of
from wgpu_engine.errors import EngineError, ModelFileError
from wgpu_engine.files.hf_names import FAMILIES
from wgpu_engine.files.store import Store
from wgpu_engine.platform.drive import drive


@pytest.mark.parametrize("shards", [0, 1, 3])
def test_names_and_settings_are_those_of_gguf(tiny_folder: Write, shards: int) -> None:
    norm = np.arange(32, dtype=np.float32)
    path = tiny_folder(shards=shards, tensors={"model.norm.weight": norm})
    with opened(path) as model:
        assert sorted(model.tensors) == sorted(
            ["token_embd.weight", "output_norm.weight", "output.weight"]
            + [f"blk.0.attn_{part}.weight" for part in ("norm", "q", "k", "v", "output")]
            + [f"blk.0.ffn_{part}.weight" for part in ("norm", "gate", "up", "down")]
        )
        assert model.tensors["blk.0.ffn_down.weight"].shape == (32, 64)
        assert model.tensors["blk.0.ffn_down.weight"].name == "blk.0.ffn_down.weight"
        assert values_of(model, "output_norm.weight") == norm.tolist()
        found = {key.removeprefix("llama."): value for key, value in model.metadata.items() if key.startswith("llama.")}
        assert found == {
            "block_count": 1,
            "context_length": 512,
            "embedding_length": 32,
            "feed_forward_length": 64,
            "attention.head_count": 2,
            "attention.head_count_kv": 1,
            "attention.key_length": 16,
            "attention.value_length": 16,
            "attention.layer_norm_rms_epsilon": 1e-6,
            "rope.freq_base": 10000.0,
            "rope.dimension_count": 16,
            "rope.pairs": "halves",
        }
        assert model.metadata["general.name"] == path.name
        assert model.path == path
        assert model.file_bytes == sum(file.stat().st_size for file in path.glob("*.safetensors"))
        assert model.tensor_bytes == sum(tensor.nbytes for tensor in model.tensors.values())
    with pytest.raises(ModelFileError, match="open it again"):
        drive(model.sources[0].read(0, 1))


@pytest.mark.parametrize("dtype", ["F16", "BF16"])
def test_halves_stay_as_they_are(tiny_folder: Write, dtype: str) -> None:
    with opened(tiny_folder(dtype=dtype)) as model:
        assert model.tensors["blk.0.attn_q.weight"].type.name == dtype
        assert model.tensors["blk.0.attn_q.weight"].nbytes == 2 * 32 * 32
        assert model.tensors["output_norm.weight"].type.name == "F32"


def test_the_store_finds_folders(tiny_folder: Write) -> None:
    path = tiny_folder()
    assert Store().find(path) == Store().find(str(path)) == path


def test_a_tied_head_is_left_out(tiny_folder: Write) -> None:
    assert "output.weight" not in opened(tiny_folder(config={"tie_word_embeddings": True})).tensors
    tied = {"tie_word_embeddings": True}
    assert "output.weight" not in opened(tiny_folder(config=tied, tensors={"lm_head.weight": None})).tensors
    assert "output head is missing" in refusal(tiny_folder(tensors={"lm_head.weight": None}))


def test_biases_and_what_is_not_needed(tiny_folder: Write) -> None:
    layer = "model.layers.0.self_attn."
    more = {f"{layer}q_proj.bias": np.zeros(32, np.float32), f"{layer}rotary_emb.inv_freq": np.zeros(8, np.float32)}
    tensors = opened(tiny_folder(tensors=more)).tensors
    assert tensors["blk.0.attn_q.bias"].shape == (32,)
    assert not any("freq" in name for name in tensors)


def test_refuses_folders_that_lack_something(tiny_folder: Write, tmp_path: Path) -> None:
    assert "without config.json" in refusal(tmp_path)
    (tmp_path / "a.gguf").touch()
    assert "a.gguf" in refusal(tmp_path)
    path = tiny_folder()
    (path / "model.safetensors").rename(path / "other.safetensors")
    opened(path)
    (path / "more.safetensors").touch()
    assert "2 .safetensors files and no model.safetensors.index.json" in refusal(path)
    path = tiny_folder(shards=3)
    (path / "model-00002-of-00003.safetensors").unlink()
    assert "lacks 'model-00002-of-00003.safetensors'" in refusal(path)
    (path / "model.safetensors.index.json").unlink()
    (path / "model-00001-of-00003.safetensors").unlink()
    (path / "model-00003-of-00003.safetensors").unlink()
    assert "no .safetensors files" in refusal(path)


@pytest.mark.parametrize(
    ("file", "content", "match"),
    [
        ("config.json", "[]", "no JSON object"),
        ("config.json", "{", "no JSON object"),
        ("config.json", "[" * 100_000, "no JSON object"),
        ("tokenizer_config.json", '"x"', "no JSON object"),
        ("generation_config.json", "", "no JSON object"),
        ("model.safetensors.index.json", {"weight_map": {"a": "../model.safetensors"}}, "file names"),
        ("model.safetensors.index.json", {"weight_map": {"a": "/model.safetensors"}}, "file names"),
        ("model.safetensors.index.json", {"weight_map": {"a": "..\\model.safetensors"}}, "file names"),
        ("model.safetensors.index.json", {"weight_map": {"a": "x" * 5000 + ".safetensors"}}, "file names"),
        ("model.safetensors.index.json", {"weight_map": {"a": ["model.safetensors"]}}, "file names"),
        ("model.safetensors.index.json", {"weight_map": []}, "file names"),
        ("model.safetensors.index.json", {"weight_map": {"a": "model.safetensors"}}, "lacks the tensor 'a'"),
    ],
)
def test_refuses_files_that_cannot_be(tiny_folder: Write, file: str, content: Any, match: str) -> None:
    assert match in refusal(tiny_folder(files={file: content}))


def test_an_index_is_never_trusted(tiny_folder: Write, rng: np.random.Generator) -> None:
    """Whatever names and files it tells of, nothing outside of the folder is read, and refusals are sentences."""
    path = tiny_folder(shards=2)
    secret = path.parent / "secret.safetensors"
    secret.write_bytes((path / "model-00001-of-00002.safetensors").read_bytes())
    index = path / "model.safetensors.index.json"
    sound = json.loads(index.read_text())["weight_map"]
    names, files = list(sound), sorted(set(sound.values()))
    wrong = ["../secret.safetensors", str(secret), "./../secret.safetensors", "model-00009-of-00002.safetensors"]
    wrong += [
        "..",
        "",
        "a/b.safetensors",
        ".\\x.safetensors",
        "x.bin",
        None,
        7,
        [],
        {},
        "config.json",
        "\0.safetensors",
    ]
    refused = 0
    for _ in range(200):
        some = dict(sound)
        for _ in range(int(rng.integers(1, 3))):
            name = names[int(rng.integers(len(names)))]
            match int(rng.integers(5)):
                case 0:
                    some.pop(name, None)
                case 1:
                    some[f"{name}x"] = files[0]
                case 2:
                    some[name] = files[sound[name] == files[0]]
                case _:
                    some[name] = wrong[int(rng.integers(len(wrong)))]
        index.write_text(json.dumps({"weight_map": some}), encoding="utf-8")
        try:
            with opened(path) as model:
                assert set(some.items()) <= set(sound.items())
                assert not any("secret" in source.name for source in model.sources)
        except EngineError as error:
            assert 20 < len(str(error)) < 400
            refused += 1
    assert refused > 100


def test_refuses_text_that_is_none(tiny_folder: Write) -> None:
    path = tiny_folder()
    (path / "tokenizer.json").write_bytes(b"\xff\xfe")
    assert "isn't UTF-8" in refusal(path)
    (path / "tokenizer.json").unlink()
    (path / "tokenizer.json").mkdir()
    assert "is a folder" in refusal(path)


def test_empty_and_doubled_tensors(tiny_folder: Write) -> None:
    assert "empty tensor" in refusal(tiny_folder(tensors={"model.norm.weight": np.ones(0, np.float32)}))
    path = tiny_folder(shards=1)
    index = path / "model.safetensors.index.json"
    names = json.loads(index.read_text())
    del names["weight_map"]["lm_head.weight"]
    index.write_text(json.dumps(names))
    assert "output head is missing" in refusal(path), "what the index leaves out isn't there"


def test_takes_the_tokenizers_files_along(tiny_folder: Write) -> None:
    files = {
        "tokenizer.json": {"model": {}},
        "tokenizer_config.json": {
            "bos_token": {"content": "<s>"},
            "eos_token": "</s>",
            "add_bos_token": False,
            "chat_template": "old",
        },
        "generation_config.json": {"eos_token_id": [7, 8, -1, "x", True]},
    }
    metadata = opened(tiny_folder(files=files)).metadata
    assert metadata["tokenizer.huggingface.json"] == '{"model": {}}'
    assert metadata["tokenizer.huggingface.bos_token"] == "<s>"
    assert metadata["tokenizer.huggingface.eos_token"] == "</s>"
    assert metadata["tokenizer.huggingface.add_bos_token"] is False
    assert metadata["tokenizer.huggingface.end_ids"] == [7, 8, 2]
    assert metadata["tokenizer.chat_template"] == "old"
    assert "tokenizer.ggml.model" not in metadata
    metadata = opened(tiny_folder(files=files | {"chat_template.jinja": "new"})).metadata
    assert metadata["tokenizer.chat_template"] == "new"
    assert opened(tiny_folder()).metadata["tokenizer.ggml.model"] == "none"


def test_every_family_names_all_its_tensors_once() -> None:
    for family in FAMILIES.values():
        # GPT-2 and BERT are published with and without the first part of their names
        short = {re.sub(r"^(transformer|bert)\.", "", name): wanted for name, wanted in family.names.items()}
        found = [name for name in short.values() if name]
        assert len(found) == len(set(found))
        for name, wanted in family.names.items():
            real = name.replace("#", "31").replace("*", "weight")
            assert family.translate(real) == wanted.replace("#", "31").replace("*", "weight")
            if "#" in name:
                assert family.translate(real.replace("31", "031")) is None
                assert family.translate(name) is None


@pytest.mark.conformance
@pytest.mark.parametrize("name", ["llama", "llama3-rope", "qwen2"])
def test_opens_folders_of_transformers(conformance: Path, name: str) -> None:
    with opened(conformance / "architectures" / name) as model:
        assert model.metadata["tokenizer.huggingface.end_ids"] == [2, 2]
        assert ("rope_freqs.weight" in model.tensors) == (name == "llama3-rope")
        assert len(model.tensors) - (name == "llama3-rope") == (27 if name == "qwen2" else 21)
