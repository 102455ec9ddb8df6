"""Token embeddings, with the first norm's input. That each type is decoded rightly is shown in test_repack.py."""

from typing import Any

import numpy as np
import pytest

from wgpu_engine.ops.builder import SLOT_WORDS
from wgpu_engine.ops.embed import embed, look_up
from wgpu_engine.ops.state import FROM_SLOT
from wgpu_engine.ops.weight import Norm, plane_layout

EPS = 1e-5


def embed_tokens(
    lab: Any, builder: Any, matrix: Any, tokens: list[int], codec: str, scale: float = 1.0
) -> tuple[Any, Any, np.ndarray[Any, Any]]:
    """x, the normed activation, and the gain; the first rows of the builder hold the tokens."""
    gain = lab.rng.standard_normal(matrix.tensor.columns)
    norm = Norm(lab.vector(gain), EPS)
    x, h = embed(builder, lab.load(matrix), norm, codec, scale=scale)
    lab.fill(x)
    lab.fill(h.buffer)
    lab.write_state(builder, [(token, 0, 0) for token in tokens])
    lab.run(builder)
    assert (h.width, h.codec, h.eps) == (matrix.tensor.columns, codec, EPS)
    return x, h, gain.astype(np.float32).astype(np.float64)


@pytest.mark.parametrize(
    ("name", "k", "codec"),
    [
        *[("F32", k, "f32") for k in (1, 2, 3, 5, 31, 33, 173)],
        ("F16", 133, "f32"),
        ("BF16", 64, "q8"),
        ("Q4_1", 96, "q8"),
        ("Q5_0", 32, "f32"),
        ("Q6_K", 512, "q8"),
    ],
)
@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_residual_and_norm(name: str, k: int, codec: str, scale: float, lab: Any, builder: Any) -> None:
    matrix = lab.matrix(name, 19, k)
    tokens = [int(token) for token in lab.rng.integers(0, 19, 7)]
    for pose in lab.adapters():
        with lab.posing(*pose):
            x, h, gain = embed_tokens(lab, builder(7), matrix, tokens, codec, scale)
        wanted = matrix.values[tokens] * np.float32(scale)
        # compilers may multiply in another order
        np.testing.assert_allclose(lab.rows(x, 7, k), wanted, rtol=0 if scale == 1 else 3e-7)
        lab.check_squares(h, wanted.astype(np.float64))
        lab.check_activation(h, wanted * gain)


def test_only_the_rows_of_a_step_are_written(lab: Any, builder: Any) -> None:
    matrix = lab.matrix("F32", 9, 40)
    x, h, _ = embed_tokens(lab, builder(6), matrix, [8, 0], "f32")
    assert np.array_equal(lab.rows(x, 2, 40), matrix.values[[8, 0]])
    for buffer in (x, h.buffer):
        rest = lab.rows(buffer, 6, 40)[2:]
        assert (rest == rest[0, 0]).all() and rest[0, 0] < -100_000


def test_tokens_that_the_table_lacks_leave_their_rows(lab: Any, builder: Any) -> None:
    """Padded rows of the last part are not mistaken for tokens."""
    matrix = lab.matrix("Q4_0", 40, 32)
    with lab.limits(binding_bytes=4 * plane_layout(matrix.tensor.type, 32, 32)[1]):
        x, _, _ = embed_tokens(lab, builder(4), matrix, [39, 40, 63, 0x7FFFFFFF], "f32")
    found = lab.rows(x, 4, 32)
    assert np.array_equal(found[0], matrix.values[39])
    assert (found[1:] < -100_000).all()


def test_tokens_of_slots(lab: Any, builder: Any) -> None:
    """A row can take the token that was sampled into its slot."""
    matrix = lab.matrix("Q8_0", 30, 64)
    plan = builder(3, slots=3)
    x, _ = embed(plan, lab.load(matrix), Norm(lab.vector(np.ones(64)), EPS), "q8")
    words = np.zeros((3, SLOT_WORDS), np.uint32)
    words[:, 0] = 7, 29, 11
    lab.device.write(plan.slots, 0, words.tobytes())
    lab.write_state(plan, [(FROM_SLOT, FROM_SLOT, 2), (5, 0, 1), (FROM_SLOT, 3, 0)])
    lab.run(plan)
    assert np.array_equal(lab.rows(x, 3, 64), matrix.values[[11, 5, 7]])


def test_a_vocabulary_of_262144(lab: Any, builder: Any) -> None:
    matrix = lab.matrix("BF16", 262_144, 32)
    tokens = [0, 65_535, 65_536, 131_072, 262_143]
    x, _, _ = embed_tokens(lab, builder(5), matrix, tokens, "f32")
    assert np.array_equal(lab.rows(x, 5, 32), matrix.values[tokens])


def test_activations_beyond_half_floats(lab: Any, builder: Any) -> None:
    """Values past 65504 stay finite and right in both codecs."""
    values = lab.rng.standard_normal((4, 64)).astype(np.float32) * np.float32(1e9)
    matrix = lab.matrix("F32", 4, 64, values.view(np.uint8))
    for codec in ("f32", "q8"):
        x, h, gain = embed_tokens(lab, builder(4), matrix, [0, 1, 2, 3], codec)
        assert np.array_equal(lab.rows(x, 4, 64), values)
        lab.check_activation(h, values * gain)
        lab.check_squares(h, values.astype(np.float64))


def test_zeros_stay_zeros(lab: Any, builder: Any) -> None:
    matrix = lab.matrix("F32", 2, 64, np.zeros((2, 256), np.uint8))
    for codec in ("f32", "q8"):
        _, h, _ = embed_tokens(lab, builder(2), matrix, [0, 1], codec)
        lab.check_activation(h, np.zeros((2, 64)))


@pytest.mark.parametrize(("name", "k"), [("F32", 33), ("F16", 5), ("Q4_1", 96), ("Q6_K", 256)])
def test_tokens_and_positions_without_a_norm(name: str, k: int, lab: Any, builder: Any) -> None:
    """As GPT-2 and BERT add them up."""
    tokens, positions, types = lab.matrix(name, 19, k), lab.matrix("F32", 40, k), lab.matrix("F32", 2, k)
    for pose in lab.adapters():
        plan = builder(6)
        with lab.posing(*pose):
            x = look_up(plan, lab.load(tokens), scale=0.5)
            assert look_up(plan, lab.load(positions), "position", onto=x) is x
            look_up(plan, lab.load(types), "first", onto=x)
        lab.fill(x)
        lab.write_state(plan, [(3, 0, 0), (18, 39, 0), (0, 7, 0)])
        lab.run(plan)
        wanted = 0.5 * tokens.values[[3, 18, 0]] + positions.values[[0, 39, 7]] + types.values[0]
        found = lab.rows(x, 6, k)
        np.testing.assert_allclose(found[:3], wanted, rtol=1e-6, atol=1e-6 * np.abs(wanted).max())
        assert (found[3:] < -100_000).all()


def test_positions_of_slots_and_past_the_table(lab: Any, builder: Any) -> None:
    positions = lab.matrix("F32", 8, 32)
    plan = builder(3, slots=2)
    x = look_up(plan, lab.load(lab.matrix("F32", 4, 32, np.zeros((4, 128), np.uint8))))
    look_up(plan, lab.load(positions), "position", onto=x)
    words = np.zeros((2, SLOT_WORDS), np.uint32)
    words[1, 1] = 5
    lab.device.write(plan.slots, 0, words.tobytes())
    lab.write_state(plan, [(0, FROM_SLOT, 1), (1, 8, 0), (2, 7, 0)])
    lab.run(plan)
    found = lab.rows(x, 3, 32)
    assert np.array_equal(found, [positions.values[5], np.zeros(32), positions.values[7]])


def test_look_up_in_parts(lab: Any, builder: Any) -> None:
    matrix = lab.matrix("Q4_0", 70, 32)
    plan = builder(4)
    with lab.limits(binding_bytes=4 * plane_layout(matrix.tensor.type, 32, 32)[1]):
        x = look_up(plan, lab.load(matrix))
    lab.write_state(plan, [(token, 0, 0) for token in (69, 31, 32, 0)])
    lab.run(plan)
    assert np.array_equal(lab.rows(x, 4, 32), matrix.values[[69, 31, 32, 0]])
