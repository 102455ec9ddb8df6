"""Quantized folders that are refused, and what they say."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.files.quantized_folder import FORMATS
from tests.files.quantized_llama import CONFIG, WIDTH, Change, Q, changed, read_all, write
from wgpu_engine.errors import EngineError, ModelFileError, UnsupportedModelError
from wgpu_engine.files.opening import open_any
from wgpu_engine.platform.drive import drive


def refusal(path: Path, kind: type[EngineError] = ModelFileError, read: bool = False) -> str:
    with pytest.raises(kind) as caught:
        read_all(drive(open_any(path))) if read else drive(open_any(path))
    text = str(caught.value)
    assert "\n" not in text and ". " not in text
    assert 20 < len(text) < 400
    return text


def drop(part: str) -> Change:
    return lambda tensors, settings: tensors.pop(Q + part)


def put(part: str, dtype: str, shape: tuple[int, ...]) -> Change:
    """Ones of a type and a shape in place of a tensor."""
    types = {"F32": np.float32, "F16": np.float16, "I32": np.int32, "I64": np.int64, "I8": np.int8}
    return lambda tensors, settings: tensors.update({Q + part: (dtype, np.ones(shape, types.get(dtype, np.uint8)))})


def say(**values: Any) -> Change:
    return lambda tensors, settings: settings.update(values)


def scheme(**values: Any) -> Change:
    return lambda tensors, settings: settings["config_groups"]["group_0"]["weights"].update(values)


def spoil(part: str, value: float) -> Change:
    """One number of a tensor becomes another."""

    def change(tensors: dict[str, Any], settings: dict[str, Any]) -> None:
        tensors[Q + part][1].flat[-1] = value

    return change


def another_group(tensors: dict[str, Any], settings: dict[str, Any]) -> None:
    settings["config_groups"]["group_1"] = {"weights": {"num_bits": 8, "type": "int", "strategy": "channel"}}


@pytest.mark.parametrize(
    ("name", "change", "match"),
    [
        ("FP8 in tiles", drop("weight_scale_inv"), "weight_scale' is missing, and '.*q_proj.*' needs it"),
        ("FP8 in tiles", put("weight_scale_inv", "F32", (1, 2)), r"\[1, 2\] where \[2, 2\] belongs"),
        ("FP8 in tiles", put("weight_scale_inv", "I32", (2, 2)), "is of type I32 where F32 or F16 or BF16 belongs"),
        ("FP8 in tiles", put("weight_scale", "F32", (2, 2)), "sibling"),
        ("FP8 in tiles", put("weight", "F8_E4M3", (WIDTH, 1, WIDTH)), "no matrix's"),
        ("FP8 in tiles", say(weight_block_size=[128]), "weight_block_size where a list of 2 numbers"),
        ("FP8 in tiles", say(weight_block_size=[0, 128]), "'0' for weight_block_size"),
        ("FP8 in tiles", say(weight_block_size=None), "neither one scale nor one a row"),
        ("FP8 with a scale", put("weight_scale", "F32", (3,)), r"\[3\], which is neither"),
        ("FP8 with a scale", put("weight_scale", "F32", (0,)), "is empty"),
        ("GPTQ", drop("qzeros"), "qzeros' is missing"),
        ("GPTQ", drop("scales"), "scales' is missing"),
        ("GPTQ", put("qzeros", "I32", (2, WIDTH)), r"\[2, 160\] where \[2, 20\] belongs"),
        ("GPTQ", put("scales", "F16", (WIDTH, 2)), r"\[160, 2\] where \[2, 160\] belongs"),
        ("GPTQ", put("scales", "I32", (2, WIDTH)), "is of type I32"),
        ("GPTQ", put("g_idx", "I32", (WIDTH - 1,)), r"\[159\] where \[160\] belongs"),
        ("GPTQ", put("g_idx", "F32", (WIDTH,)), "is of type F32"),
        ("GPTQ", spoil("g_idx", 2), "g_idx' puts a column into group 2 of 2"),
        ("GPTQ", spoil("g_idx", -1), "group -1 of 2"),
        ("GPTQ", spoil("g_idx", 2**31 - 1), "group 2147483647 of 2"),
        ("GPTQ", put("qweight", "I32", (20,)), "no matrix's"),
        ("GPTQ", put("qweight", "I8", (20, WIDTH)), "is of type I8"),
        ("GPTQ", put("qweight", "I32", (20, WIDTH + 1)), "don't fill words"),
        ("GPTQ", put("qweight", "I32", (0, WIDTH)), "is empty"),
        ("GPTQ", say(group_size=64), r"where \[3, "),
        ("GPTQ", say(group_size=0), "'0' for group_size"),
        ("GPTQ", say(bits="4"), "'4' for bits"),
        ("AWQ", put("qweight", "I32", (WIDTH + 1, 20)), "no multiple of 8"),
        ("AWQ", put("qzeros", "I32", (1, 20)), r"\[1, 20\] where \[2, 20\] belongs"),
        ("AWQ", drop("qzeros"), "qzeros' is missing"),
        ("W4A16", put("weight_shape", "I64", (1,)), r"\[1\] where \[2\] belongs"),
        ("W4A16", spoil("weight_shape", 8 * WIDTH), r"says \[160, 1280\]"),
        ("W4A16", spoil("weight_shape", -WIDTH), r"says \[160, -160\]"),
        ("W4A16", drop("weight_shape"), "weight_shape' is missing"),
        ("W4A16", drop("weight_scale"), "weight_scale' is missing"),
        ("W4A16", put("weight_scale", "F32", (WIDTH, 1)), r"\[160, 1\] where \[160, 2\] belongs"),
        ("W4A16 with zeros", put("weight_zero_point", "I32", (WIDTH, 5)), r"where \[20, 5\] belongs"),
        ("W4A16 with zeros", put("weight_zero_point", "I8", (20, 5)), r"where \[160, 5\] belongs"),
        ("W4A16 act-order", spoil("weight_g_idx", 3), "group 3 of 3"),
        ("W8A8", put("weight_scale", "F32", (2,)), "belongs"),
        ("W8A8", put("weight", "I8", (WIDTH,)), "no matrix's"),
        ("ternary", drop("weight_scale"), "weight_scale' is missing"),
        ("ternary", put("weight_scale", "F32", (WIDTH,)), r"\[160\], which is not one scale"),
        ("ternary", put("weight_scale", "I32", (1,)), "is of type I32"),
        ("ternary", put("weight", "U8", (WIDTH,)), "no matrix's"),
        ("ternary once read", put("weight", "I8", (WIDTH, WIDTH)), "is of type I8"),
    ],
)
def test_refuses_what_cannot_be(name: str, change: Change, match: str, tmp_path: Path) -> None:
    text = refusal(changed(tmp_path, name, change))
    assert re.search(match, text), text


@pytest.mark.parametrize(
    ("name", "change", "match"),
    [
        ("GPTQ", say(quant_method="hqq"), "'hqq'"),
        ("GPTQ", say(quant_method=None), "'unnamed'"),
        ("GPTQ", say(bits=3), "'3' for bits"),
        ("GPTQ", say(checkpoint_format="marlin"), "'marlin' for checkpoint_format"),
        ("GPTQ", say(is_marlin_format=True), "is_marlin_format"),
        ("GPTQ", say(dynamic={"+:.*down": {"bits": 8}}), "dynamic"),
        ("GPTQ", put("lora_A", "F32", (2, 2)), "lora_A' is not known"),
        ("AWQ", say(version="gemv"), "'gemv' for version"),
        ("AWQ", say(bits=8), "'8' for bits"),
        ("FP8 in tiles", say(weight_block_size=[128, 64]), "tiles of 128 by 64"),
        ("W4A16", say(format="marlin-24"), "'marlin-24' for format"),
        ("W4A16", say(sparsity_config={"format": "24_sparse"}), "'24_sparse' for format"),
        ("W4A16", say(transform_config={"a": 1}), "transform_config"),
        ("W4A16", scheme(num_bits=2), "'2' for num_bits"),
        ("W4A16", another_group, "in different ways"),
        ("W4A16", scheme(type="float"), "'4' for num_bits"),
        ("compressed FP8 in groups", scheme(group_size=32), "'32' for group_size"),
        ("compressed FP8", put("weight", "I8", (WIDTH, WIDTH)), "integers in a model of 8-bit floats"),
        ("compressed FP8", put("weight_global_scale", "F32", (1,)), "weight_global_scale' is not known"),
        ("FP8 with a scale", put("weight", "I8", (WIDTH, WIDTH)), "of type I8"),
        ("ternary", say(linear_class="bit"), "linear_class 'bit'"),
        ("ternary", say(quantization_mode="later"), "quantization_mode 'later'"),
        ("ternary", say(use_rms_norm=True), "use_rms_norm"),
        ("ternary", put("weight", "U8", (WIDTH // 4, WIDTH - 1)), "rows of 159 weights"),
    ],
)
def test_refuses_what_is_not_supported(name: str, change: Change, match: str, tmp_path: Path) -> None:
    assert match in refusal(changed(tmp_path, name, change), UnsupportedModelError)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    ("name", "part"),
    [
        *(("FP8 in tiles", "weight_scale_inv"), ("FP8 with a scale", "weight_scale"), ("W4A16", "weight_scale")),
        *((name, "weight_scale") for name in ("ternary", "ternary, divided")),
        *((name, "scales") for name in ("GPTQ", "act-order", "AWQ")),
    ],
)
def test_scales_are_numbers(name: str, part: str, value: float, tmp_path: Path) -> None:
    text = refusal(changed(tmp_path, name, spoil(part, value)), read=True)
    assert f"'{Q}{part}' holds a scale that is no number" in text


def test_nothing_but_refusals(tmp_path: Path, rng: np.random.Generator) -> None:
    """Whatever is wrong with types, shapes and settings."""
    refused = 0
    for number in range(150):
        how = FORMATS[int(rng.integers(len(FORMATS)))]
        folder = write(tmp_path / str(number), how, np.random.default_rng(number))
        settings = json.loads(json.dumps(how.config))
        names = [name for name in folder.stored if "proj" in name]
        for _ in range(int(rng.integers(1, 3))):
            name = names[int(rng.integers(len(names)))]
            if name not in folder.stored:
                continue
            dtype, values = folder.stored[name]
            match int(rng.integers(7)):
                case 0:
                    del folder.stored[name]
                case 1:
                    folder.stored[name] = (dtype, np.array(values.T))
                case 2:
                    folder.stored[name] = (dtype, np.array(values[: len(values) // 2] if values.ndim else values))
                case 3:
                    folder.stored[name] = (dtype, np.concatenate([values.reshape(-1), values.reshape(-1)[:1]]))
                case 4:
                    folder.stored[name] = (dtype, values.reshape(1, *values.shape))
                case 5:
                    raw = rng.integers(0, 256, values.nbytes, dtype=np.uint8)
                    folder.stored[name] = (dtype, raw.view(values.dtype).reshape(values.shape))
                case _:
                    key = list(settings)[int(rng.integers(len(settings)))]
                    values_of_key = (None, -1, 0, 1, 7, 1 << 40, True, "x", [], {}, [1, 2], 1e300)
                    settings[key] = values_of_key[int(rng.integers(len(values_of_key)))]
        folder.write({**CONFIG, "quantization_config": settings})
        try:
            with np.errstate(all="ignore"), drive(open_any(folder.path)) as model:
                read_all(model)
        except EngineError as error:
            assert 20 < len(str(error)) < 400
            refused += 1
    assert refused > 50
