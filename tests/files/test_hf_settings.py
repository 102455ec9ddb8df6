"""Settings of config.json as GGUF has them, and those that are refused."""

import math
from typing import Any

import numpy as np
import pytest

from tests.files.folders import Write, opened, refusal, values_of
from wgpu_engine.errors import UnsupportedModelError


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
