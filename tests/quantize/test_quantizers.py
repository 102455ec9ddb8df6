"""What quantizers make of weights, decoded by others, beside what reference quantizers make of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from gguf.quants import dequantize
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.ops.own_types import own_values
from wgpu_engine.errors import RequestError
from wgpu_engine.files.quants import QUANT_TYPES
from wgpu_engine.quantize.convert import QUANTIZERS, convert, quantize, writable

Floats = NDArray[np.float32]
Meaning = Callable[..., Floats]

IN_GGUF_PY = ("F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "TQ1_0", "TQ2_0", "MXFP4")
"""types that gguf-py can write"""
NORMAL = {
    "F32": 0.0,
    "F16": 2.2e-4,
    "BF16": 1.7e-3,
    "Q4_0": 0.083,
    "Q4_1": 0.072,
    "Q5_0": 0.042,
    "Q5_1": 0.035,
    "Q8_0": 0.0055,
    "Q2_K": 0.285,
    "Q3_K": 0.15,
    "Q4_K": 0.0745,
    "Q5_K": 0.0375,
    "Q6_K": 0.0178,
    "IQ4_NL": 0.077,
    "IQ4_XS": 0.0775,
    "MXFP4": 0.116,
    "TQ1_0": 0.445,
    "TQ2_0": 0.445,
    "Q1_0": 0.61,
    "Q2_0": 0.365,
}
"""by type: the most that the error of normally distributed weights may be, of their deviation"""
COARSE = {"Q2_K": 0.5, "Q3_K": 0.3, "TQ1_0": 1.0, "TQ2_0": 1.0, "Q1_0": 1.01, "Q2_0": 1.0, "MXFP4": 0.35}
"""by type: the most that an error may be of the largest weight of the block; 0.16 of the others"""


def rms(values: Any) -> float:
    return float(np.sqrt(np.square(values, dtype=np.float64).mean()))


@pytest.mark.conformance
@pytest.mark.parametrize("name", [name for name in QUANTIZERS if name not in ("F32", "Q2_0")])
def test_a_real_tensor_as_well_as_llama_cpp(conformance: Path, meaning: Meaning, name: str) -> None:
    with np.load(conformance / "quants" / "quant-zoo-dequant-ref.npz") as zoo:
        weights, peer = zoo["F32"], zoo[name]
    made = meaning(quantize(weights, QUANT_TYPES[name]), QUANT_TYPES[name])
    assert rms(made - weights) <= 1.005 * rms(peer - weights) + 1e-7


@pytest.mark.parametrize("name", IN_GGUF_PY)
@pytest.mark.parametrize("shape", ["normal", "heavy tails", "shifted", "few values"])
def test_no_worse_than_gguf_py(meaning: Meaning, name: str, shape: str, rng: np.random.Generator) -> None:
    weights = {
        "normal": rng.standard_normal((24, 768)) * 0.05,
        "heavy tails": rng.standard_t(2, (24, 768)),
        "shifted": rng.uniform(3, 5, (24, 768)) * rng.choice([-1, 1], (24, 1)),
        "few values": rng.integers(-1, 2, (24, 768)) * rng.uniform(0, 1, (24, 1)),
    }[shape].astype(np.float32)
    quant = gguf.GGMLQuantizationType[name]
    peer = dequantize(gguf.quants.quantize(weights, quant), quant)
    made = meaning(quantize(weights, QUANT_TYPES[name]), QUANT_TYPES[name])
    assert rms(made - weights) <= 1.001 * rms(peer - weights) + 1e-4 * rms(weights) * (name not in ("F16", "BF16"))


@pytest.mark.parametrize("name", QUANTIZERS)
def test_normal_weights(meaning: Meaning, name: str, rng: np.random.Generator) -> None:
    deviation = 10.0 ** rng.uniform(-3, 2)
    weights = (rng.standard_normal((16, 3072)) * deviation).astype(np.float32)
    made = meaning(quantize(weights, QUANT_TYPES[name]), QUANT_TYPES[name])
    assert rms(made - weights) <= NORMAL[name] * deviation


@pytest.mark.parametrize(
    "name", ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "TQ1_0", "TQ2_0", "Q1_0", "MXFP4", "BF16", "F16"]
)
def test_what_was_quantized_before_comes_out_the_same(meaning: Meaning, name: str, rng: np.random.Generator) -> None:
    quant = QUANT_TYPES[name]
    once = meaning(quantize(rng.standard_normal((8, 1024)).astype(np.float32), quant), quant)
    np.testing.assert_allclose(meaning(quantize(once, quant), quant), once, rtol=2e-3, atol=1e-6)


@given(
    name=st.sampled_from(list(QUANTIZERS)),
    seed=st.integers(0, 1 << 32),
    kind=st.sampled_from(
        ["zeros", "constant", "negative", "positive", "spike", "signs", "sparse", "ramp", "blocks apart", "mixed"]
    ),
    exponent=st.integers(-48, 2),
)
def test_odd_weights(meaning: Meaning, name: str, seed: int, kind: str, exponent: int) -> None:
    """Zeros, constants, one sign only, tiny and subnormal numbers, lone large ones: errors stay within the type's."""
    rng = np.random.default_rng(seed)
    normal = rng.standard_normal(512)
    made = {
        "zeros": np.zeros(512),
        "constant": np.full(512, rng.choice([-1.0, 1.0])),
        "negative": -np.abs(normal),
        "positive": np.abs(normal) + rng.choice([0, 10]),
        "spike": np.where(np.arange(512) == rng.integers(512), rng.choice([-100, 100]), normal),
        "signs": rng.choice([-1.0, 1.0], 512),
        "sparse": normal * (rng.random(512) < 0.02),
        "ramp": np.linspace(-1, 1, 512),
        "blocks apart": normal * 10.0 ** rng.integers(-6, 0, (16, 1)).repeat(32, axis=1).ravel(),
        "mixed": normal * 10.0 ** rng.integers(-30, 0, 512),
    }[kind]
    weights = (made * 10.0**exponent).astype(np.float32).reshape(1, -1)
    quant = QUANT_TYPES[name]
    raw = quantize(weights, quant)
    assert raw.shape == (1, quant.row_bytes(512)) and raw.dtype == np.uint8
    back = meaning(raw, quant)
    assert np.isfinite(back).all()
    errors = np.abs(back - weights).reshape(-1, quant.block).max(axis=1)
    largest = np.abs(weights).reshape(-1, quant.block).max(axis=1)
    # scales are half floats: none is smaller than 2**-24, nor exacter, and up to 4096 times that is a weight
    step = 0.0 if name in ("F32", "BF16", "MXFP4") else (4096 if quant.block == 256 else 128) * 2.0**-24
    assert (errors <= COARSE.get(name, 0.16) * largest + step + 1e-38).all()


@pytest.mark.parametrize("name", QUANTIZERS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_refuses_what_is_no_number(name: str, bad: float) -> None:
    weights = np.ones((2, 256), np.float32)
    weights[1, 77] = bad
    with pytest.raises(ValueError):
        quantize(weights, QUANT_TYPES[name])


@pytest.mark.parametrize("name", [name for name in QUANTIZERS if name not in ("F32", "BF16", "MXFP4")])
@pytest.mark.parametrize("large", [1e10, 3.4e38])
def test_refuses_what_scales_can_not_hold(name: str, large: float) -> None:
    weights = np.linspace(-large, large, 256, dtype=np.float64).astype(np.float32).reshape(1, -1)
    with pytest.raises(OverflowError):
        quantize(weights, QUANT_TYPES[name])


def test_mxfp4_reaches_far(meaning: Meaning) -> None:
    weights = (np.linspace(-1, 1, 64) * np.array([[3e38], [1e-37]])).astype(np.float32)
    made = meaning(quantize(weights, QUANT_TYPES["MXFP4"]), QUANT_TYPES["MXFP4"])
    assert (np.abs(made - weights) <= 0.2 * np.abs(weights).max(axis=1, keepdims=True)).all()


@pytest.mark.parametrize("name", QUANTIZERS)
def test_a_block_does_not_depend_on_others(name: str, rng: np.random.Generator) -> None:
    """So rows are the same bytes however many are quantized together, on however many threads."""
    quant = QUANT_TYPES[name]
    weights = rng.standard_normal((301, 512)).astype(np.float32)
    whole = quantize(weights, quant)
    for row in (0, 119, 120, 240, 300):
        assert (quantize(weights[row : row + 1], quant) == whole[row]).all()


@pytest.mark.parametrize("name", QUANT_TYPES)
def test_from_every_type(meaning: Meaning, name: str, rng: np.random.Generator) -> None:
    """Converting to F32 gives what the blocks mean."""
    quant = QUANT_TYPES[name]
    raw = rng.integers(0, 256, (4 * quant.blocks(1024), quant.block_bytes), dtype=np.uint8)
    if name.startswith("F8"):
        raw &= 0xBF  # without the highest bit of exponents, none is NaN
    if name in ("F64", "I8", "I16", "I32", "I64"):
        wanted = rng.integers(-100, 100, (len(raw), 1)).astype(np.float32)
        raw = wanted.astype({"F": "<f", "I": "<i"}[name[0]] + str(quant.block_bytes)).view(np.uint8)
    else:
        with np.errstate(all="ignore"):
            wanted = own_values(quant, raw) if quant.ggml_id is None else meaning(raw, quant)
        # a scale here or there is NaN or infinite, which is refused
        sound = np.isfinite(wanted).all(axis=1)
        raw, wanted = raw[sound], wanted[sound]
    made = convert(raw.tobytes(), quant, QUANT_TYPES["F32"], quant.block).view(np.float32)
    assert len(raw)
    np.testing.assert_array_equal(made, wanted.ravel())


@pytest.mark.parametrize("name", ["F8_E4M3", "F8_E5M2", "INT4_G128", "INT8_G32"])
def test_rows_that_end_within_a_block(name: str, rng: np.random.Generator) -> None:
    """As our own types have them: what lies beyond the end of a row is left out."""
    quant = QUANT_TYPES[name]
    raw = rng.integers(0, 120, (3, quant.row_bytes(160 + 4)), dtype=np.uint8)
    made = convert(raw.tobytes(), quant, QUANT_TYPES["F32"], 164).view(np.float32).reshape(3, 164)
    np.testing.assert_array_equal(made, own_values(quant, raw)[:, :164])


def test_names() -> None:
    assert writable("q4_k") is QUANT_TYPES["Q4_K"]
    with pytest.raises(RequestError, match=r"'Q4_K_M' is no type to quantize to: choose Q4_K, or one of F32, .*Q2_0$"):
        writable("Q4_K_M")
    with pytest.raises(RequestError, match="IQ2_XXS"):
        writable("IQ2_XXS")
