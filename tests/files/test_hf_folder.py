"""Folders as Hugging Face publishes them become what GGUF files are; what can't is refused by name."""

import json
import math
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wgpu_engine.errors import EngineError, ModelFileError, UnsupportedModelError
from wgpu_engine.files.hf_names import FAMILIES
from wgpu_engine.files.model_file import ModelFile
from wgpu_engine.files.opening import open_any
from wgpu_engine.files.store import Store
from wgpu_engine.platform.drive import drive

Write = Callable[..., Path]


def opened(path: Path) -> ModelFile:
    return drive(open_any(path))


def refusal(path: Path, kind: type[EngineError] = ModelFileError) -> str:
    with pytest.raises(kind) as caught:
        opened(path)
    text = str(caught.value)
    assert "\n" not in text and ". " not in text
    assert 20 < len(text) < 500
    return text


def values_of(model: ModelFile, name: str) -> list[float]:
    tensor = model.tensors[name]
    data = drive(tensor.source.read(tensor.offset, tensor.nbytes))
    return list(struct.unpack(f"<{len(data) // 4}f", data))


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


@pytest.mark.parametrize("layout", ["rope_parameters", "rope_scaling"])
def test_rope_scalings(tiny_folder: Write, layout: str) -> None:
    def config(**scaling: Any) -> dict[str, Any]:
        if layout == "rope_parameters":
            return {"rope_theta": None, "rope_parameters": {"rope_theta": 500000.0, **scaling}}
        return {"rope_theta": 500000.0, "rope_scaling": scaling}

    linear = opened(tiny_folder(config=config(rope_type="linear", factor=4.0)))
    assert linear.metadata["llama.rope.freq_base"] == 500000.0
    assert linear.metadata["llama.rope.scaling.type"] == "linear"
    assert linear.metadata["llama.rope.scaling.factor"] == 4.0
    assert "rope_freqs.weight" not in linear.tensors

    scaling = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 128}
    model = opened(tiny_folder(config=config(rope_type="llama3", **scaling)))
    factors = values_of(model, "rope_freqs.weight")
    waves = [2 * math.pi * 500000.0 ** (2 * i / 16) for i in range(8)]
    for factor, wave in zip(factors, waves, strict=True):
        if wave < 128 / 4:
            assert factor == 1
        elif wave > 128:
            assert factor == 8
        else:
            part = (128 / wave - 1) / 3
            assert 1 < factor < 8
            assert factor == pytest.approx(1 / ((1 - part) / 8 + part), rel=1e-6)
    assert factors == sorted(factors) and len(set(factors)) > 2

    dynamic = opened(tiny_folder(config=config(rope_type="dynamic", factor=2.0))).metadata
    assert (dynamic["llama.rope.scaling.type"], dynamic["llama.rope.scaling.factor"]) == ("dynamic", 2.0)

    assert "'spiral'" in refusal(tiny_folder(config=config(rope_type="spiral")), UnsupportedModelError)
    assert "low_freq_factor" in refusal(
        tiny_folder(config=config(rope_type="llama3", **scaling | {"low_freq_factor": 4.0}))
    )
    assert "doesn't say factor" in refusal(tiny_folder(config=config(type="linear")))


def test_yarn_and_longrope(tiny_folder: Write) -> None:
    def scaling(**values: Any) -> dict[str, Any]:
        """What GGUF's settings say of a scaling, and the tensors of factors."""
        model = opened(tiny_folder(config={"rope_scaling": values, "max_position_embeddings": 512}))
        start = "llama.rope.scaling."
        found = {key.removeprefix(start): value for key, value in model.metadata.items() if key.startswith(start)}
        names = [name for name in model.tensors if name.startswith("rope_factors")]
        return found | {name: values_of(model, name) for name in names}

    yarn = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}
    assert scaling(**yarn) == {
        "type": "yarn",
        "factor": 4.0,
        "original_context_length": 128,
        "attn_factor": 1.0,
        "yarn_beta_fast": 32.0,
        "yarn_beta_slow": 1.0,
        "yarn_truncate": True,
    }
    assert scaling(**yarn | {"factor": None, "beta_fast": 16})["factor"] == 4.0
    own = 1 + 0.1 * math.log(4)
    assert scaling(**yarn, attention_factor=2.0)["attn_factor"] == pytest.approx(2 / own)
    both = scaling(**yarn, mscale=0.7, mscale_all_dim=1.5)["attn_factor"]
    assert both * own == pytest.approx((1 + 0.07 * math.log(4)) / (1 + 0.15 * math.log(4)))
    assert scaling(**yarn, truncate=False)["yarn_truncate"] is False

    short, long = [1.0] * 8, [1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0]
    longrope = {"type": "su", "short_factor": short, "long_factor": long, "original_max_position_embeddings": 64}
    assert scaling(**longrope) == {
        "type": "longrope",
        "original_context_length": 64,
        "attn_factor": pytest.approx(math.sqrt(1 + math.log(8) / math.log(64))),
        "rope_factors_short.weight": short,
        "rope_factors_long.weight": long,
    }
    for wrong in (None, [1.0] * 7, [*short[1:], 0], [*short[1:], "1"], "x"):
        text = refusal(tiny_folder(config={"rope_scaling": longrope | {"long_factor": wrong}}))
        assert "long_factor" in text


def test_windows(tiny_folder: Write) -> None:
    layers = 3

    def windows(name: str, **config: Any) -> tuple[Any, Any]:
        count = {"num_hidden_layers": layers}
        metadata = opened(tiny_folder(config={"architectures": [f"{name}ForCausalLM"], **count, **config})).metadata
        keys = [f"{metadata['general.architecture']}.attention.sliding_window{end}" for end in ("", "_pattern")]
        return metadata.get(keys[0]), metadata.get(keys[1])

    all_ = [True] * layers
    assert windows("Mistral", sliding_window=None) == (None, None)
    assert windows("Mistral", sliding_window=511) == (511, all_)
    assert windows("Mistral") == (4096, all_)  # as transformers takes it
    assert windows("Qwen2", sliding_window=16) == (None, None)
    qwen = {"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 1}
    assert windows("Qwen2", **qwen) == (16, [False, *all_[1:]])
    assert windows("Qwen2", **qwen | {"max_window_layers": 0}) == (16, all_)
    kinds = ["sliding_attention"] * (layers - 1) + ["full_attention"]
    assert windows("Qwen2", **qwen, layer_types=kinds) == (16, [*all_[1:], False])
    for wrong in (kinds[1:], ["chunked_attention"] * layers):
        text = refusal(tiny_folder(config={"architectures": ["Qwen2ForCausalLM"], **qwen, "layer_types": wrong}))
        assert "layer_types" in text


def test_gemma(tiny_folder: Write) -> None:
    def settings(version: int, **config: Any) -> dict[str, Any]:
        folder = tiny_folder(
            config={"architectures": [f"Gemma{version}ForCausalLM"], "num_hidden_layers": 4, "head_dim": None, **config}
        )
        start = f"gemma{version}."
        metadata = opened(folder).metadata
        return {key.removeprefix(start): value for key, value in metadata.items() if key.startswith(start)}

    two, three = settings(2), settings(3, rope_theta=None)
    assert two["attention.key_length"] == three["attention.key_length"] == 256
    assert (two["attn_logit_softcapping"], two["final_logit_softcapping"]) == (50.0, 30.0)
    assert (three["attn_logit_softcapping"], three["final_logit_softcapping"]) == (0.0, 0.0)
    assert settings(2, attn_logit_softcapping=None)["attn_logit_softcapping"] == 0.0
    assert settings(3, final_logit_softcapping=7)["final_logit_softcapping"] == 7.0
    assert settings(2, query_pre_attn_scalar=64)["attention.scale"] == 0.125
    pattern = "attention.sliding_window_pattern"
    assert two[pattern] == [True, False, True, False] and three[pattern] == [True] * 4
    assert settings(3, sliding_window_pattern=3)[pattern] == [True, True, False, True]
    kinds = ["full_attention", "sliding_attention", "full_attention", "full_attention"]
    assert settings(2, layer_types=kinds)[pattern] == [False, True, False, False]

    bases = ("rope.freq_base", "rope.freq_base_swa")
    assert [three[key] for key in bases] == [1e6, 10000.0]
    early = settings(3, rope_theta=2e6, rope_local_base_freq=500.0, rope_scaling={"rope_type": "linear", "factor": 8.0})
    assert [early[key] for key in bases] == [2e6, 500.0] and early["rope.scaling.factor"] == 8.0
    local, whole = (
        {"rope_type": "default", "rope_theta": 600.0},
        {"rope_type": "linear", "rope_theta": 3e6, "factor": 4.0},
    )
    late = settings(3, rope_parameters={"sliding_attention": local, "full_attention": whole})
    assert [late[key] for key in bases] == [3e6, 600.0] and late["rope.scaling.factor"] == 4.0

    for wrong, part in (
        ({"rope_parameters": {"sliding_attention": whole, "full_attention": whole}}, "sliding window"),
        ({"use_bidirectional_attention": True}, "encoder"),
        ({"hidden_activation": "silu"}, "silu"),
    ):
        folder = tiny_folder(config={"architectures": ["Gemma3ForCausalLM"], **wrong})
        assert part in refusal(folder, UnsupportedModelError)


def test_names_what_is_not_supported(tiny_folder: Write) -> None:
    text = refusal(tiny_folder(config={"architectures": ["MambaForCausalLM"]}), UnsupportedModelError)
    assert "'MambaForCausalLM'" in text and "LlamaForCausalLM, MistralForCausalLM" in text
    assert "'gelu'" in refusal(tiny_folder(config={"hidden_act": "gelu"}), UnsupportedModelError)
    config = {"quantization_config": {"quant_method": "bitsandbytes"}}
    assert "'bitsandbytes'" in refusal(tiny_folder(config=config), UnsupportedModelError)
    for dtype, name in ((np.uint8, "F8_E4M3"), (np.int32, "I32")):
        tensors = {"model.layers.0.self_attn.q_proj.weight": np.zeros((32, 32), dtype)}
        text = refusal(tiny_folder(tensors=tensors), UnsupportedModelError)
        assert f"q_proj.weight' is of type {name}, and those supported are F32, F16, BF16" in text
    for name in ("model.layers.0.self_attn.q_norm.weight", "model.layers.0.input_layernorm.bias", "x", "lm_head.*"):
        text = refusal(tiny_folder(tensors={name: np.ones(32, np.float32)}), UnsupportedModelError)
        assert f"{name}'" in text


@pytest.mark.parametrize(
    ("config", "match"),
    [
        ({"hidden_size": None}, "doesn't say hidden_size"),
        ({"hidden_size": "32"}, "'32' for hidden_size"),
        ({"num_hidden_layers": True}, "'True' for num_hidden_layers"),
        ({"num_hidden_layers": [[1]]}, "num_hidden_layers"),
        ({"rms_norm_eps": 0}, "rms_norm_eps"),
        ({"head_dim": 1 << 30}, "heads have"),
        ({"tie_word_embeddings": 1}, "tie_word_embeddings"),
        ({"architectures": "LlamaForCausalLM"}, "architectures"),
        ({"rope_scaling": 3}, "rope_scaling"),
    ],
)
def test_refuses_settings_that_cannot_be(tiny_folder: Write, config: dict[str, Any], match: str) -> None:
    assert match in refusal(tiny_folder(config=config))


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
