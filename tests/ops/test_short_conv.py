"""Short convolutions and the rings that they keep, against float64."""

from typing import Any

import numpy as np
import pytest

from wgpu_engine.ops.builder import SLOT_WORDS
from wgpu_engine.ops.kv import KVCache
from wgpu_engine.ops.short_conv import Convolution, short_conv
from wgpu_engine.ops.state import FROM_SLOT

SLOTS = 3
Place = tuple[int, int]


class Bench:
    """A convolution with random taps, and its ring on the device, full of NaN."""

    def __init__(self, lab: Any, builder: Any, width: int, kernel: int, ring: int) -> None:
        self.lab, self.builder, self.ring = lab, builder, ring
        self.taps = lab.rng.uniform(-2, 2, (kernel, width)).astype(np.float32)
        self.bias = lab.rng.uniform(-2, 2, width).astype(np.float32)
        self.conv = Convolution(lab.vector(np.concatenate([*self.taps, self.bias])), width, kernel)
        buffer = lab.vector(np.full(SLOTS * ring * width, np.nan))
        self.cache = KVCache("f32", (buffer,), lab.vector([0.0]), 1, (ring,))

    def run(self, places: list[Place], bcx: Any, *, spare: int = 0, codec: str = "f32", from_slot: bool = False) -> Any:
        """The activation of rows at (slot, position) with these inputs [rows, 3 * width]."""
        plan = self.builder(len(places) + spare, slots=SLOTS)
        buffer = plan.floats(bcx.shape[1], "bcx")
        self.lab.fill(buffer, np.float32(np.nan))
        self.lab.write_rows(buffer, bcx)
        h = short_conv(plan, buffer, self.conv, self.cache, 0, codec)
        self.lab.fill(h.buffer)
        positions = [FROM_SLOT] * len(places) if from_slot else [position for _, position in places]
        if from_slot:
            words = np.zeros((SLOTS, SLOT_WORDS), np.uint32)
            for slot, position in places:
                words[slot, 1] = position
            self.lab.device.write(plan.slots, 0, words.tobytes())
        rows = [(0, position, slot) for position, (slot, _) in zip(positions, places, strict=True)]
        self.lab.write_state(plan, rows)
        self.lab.run(plan)
        return h

    def inputs(self, length: int) -> Any:
        return self.lab.rng.standard_normal((length, 3 * self.conv.width)).astype(np.float32)

    def wanted(self, bcx: Any) -> Any:
        """C * convolution of B * x along a sequence from its start, in float64; and the sizes of what is added up."""
        b, c, x = np.split(bcx.astype(np.float64), 3, axis=1)
        padded = np.concatenate([np.zeros((self.conv.kernel - 1, self.conv.width)), b * x])
        terms = [tap * padded[i : i + len(bcx)] for i, tap in enumerate(self.taps)]
        return c * (sum(terms) + self.bias), np.abs(c) * (sum(map(np.abs, terms)) + np.abs(self.bias))

    def kept(self) -> Any:
        return self.lab.rows(self.cache.layers[0], SLOTS * self.ring, self.conv.width)


@pytest.mark.parametrize("pose", range(4))
@pytest.mark.parametrize("codec", ["f32", "q8"])
@pytest.mark.parametrize(("width", "kernel"), [(32, 3), (64, 1), (288, 4), (1024, 2), (2048, 3), (96, 17)])
def test_a_sequence_in_one_go(width: int, kernel: int, codec: str, pose: int, lab: Any, builder: Any) -> None:
    poses = lab.adapters()
    if pose >= len(poses):
        pytest.skip("this adapter has no subgroups")
    with lab.posing(*poses[pose]):
        bench = Bench(lab, builder, width, kernel, ring=9 + kernel)
        bcx = bench.inputs(7)
        h = bench.run([(1, position) for position in range(7)], bcx, spare=2, codec=codec)
        wanted, sizes = bench.wanted(bcx)
        lab.check_activation(h, wanted, rtol=4e-7 * (kernel + 2) * (sizes / np.abs(wanted).max(axis=1)[:, None]).max())
    if codec == "f32":
        beyond = lab.rows(h.buffer, 9, width)[7:]
        assert (beyond == beyond[0, 0]).all() and not np.isnan(beyond).any(), "rows beyond the step's are written"
    kept = bench.kept().reshape(SLOTS, -1, width)
    b, _, x = np.split(bcx, 3, axis=1)
    assert np.array_equal(kept[1, :7], b * x)
    assert np.isnan(kept[[0, 2]]).all() and np.isnan(kept[1, 7:]).all(), "places of other positions are written"


@pytest.mark.parametrize("width", [4, 36, 100, 260])
def test_widths_that_blocks_do_not_divide(width: int, lab: Any, builder: Any) -> None:
    bench = Bench(lab, builder, width, 3, ring=8)
    bcx = bench.inputs(5)
    wanted, sizes = bench.wanted(bcx)
    found = lab.rows(bench.run([(0, i) for i in range(5)], bcx, spare=1).buffer, 5, width)
    assert (np.abs(found - wanted) <= 2e-6 * sizes).all()


def test_any_cut_gives_the_same_bits(lab: Any, builder: Any) -> None:
    """Token by token, in chunks, beside other sequences, and round the ring several times."""
    bench = Bench(lab, builder, 64, 3, ring=14)
    sequences = [bench.inputs(length) for length in (61, 40, 25)]
    wanted = [bench.wanted(bcx) for bcx in sequences]
    alone = []
    for slot, bcx in enumerate(sequences):
        rows = [
            lab.rows(bench.run([(slot, i)], bcx[i : i + 1], from_slot=i % 2 == 1).buffer, 1, 64)
            for i in range(len(bcx))
        ]
        alone.append(np.concatenate(rows))
        assert (np.abs(alone[-1] - wanted[slot][0]) <= 2e-6 * wanted[slot][1]).all()
    for _ in range(3):
        done = [0] * SLOTS
        while any(start < len(bcx) for start, bcx in zip(done, sequences, strict=True)):
            places: list[Place] = []
            for slot in lab.rng.permutation(SLOTS):
                stop = min(done[slot] + int(lab.rng.integers(0, 5)), len(sequences[slot]))
                places += [(int(slot), position) for position in range(done[slot], stop)]
                done[slot] = stop
            if not places:
                continue
            bcx = np.stack([sequences[slot][position] for slot, position in places])
            found = lab.rows(bench.run(places, bcx, spare=12 - len(places)).buffer, len(places), 64)
            assert np.array_equal(found, np.stack([alone[slot][position] for slot, position in places]))


def test_a_new_sequence_sees_nothing_of_the_one_before(lab: Any, builder: Any) -> None:
    bench = Bench(lab, builder, 32, 3, ring=8)
    bcx = bench.inputs(4)
    fresh = lab.rows(bench.run([(0, i) for i in range(4)], bcx).buffer, 4, 32)
    bench.run([(0, i) for i in range(4, 10)], bench.inputs(6))
    again = lab.rows(bench.run([(0, i) for i in range(4)], bcx).buffer, 4, 32)
    assert np.array_equal(fresh, again)


def test_taking_up_again_within_the_ring(lab: Any, builder: Any) -> None:
    """A ring of 10 for kernels of 3 lets a sequence go back 8 positions; 9 would find an input overwritten."""
    bench = Bench(lab, builder, 32, 3, ring=10)
    bcx = bench.inputs(20)
    bench.run([(2, i) for i in range(8)], bcx[:8])
    bench.run([(2, i) for i in range(8, 16)], bcx[8:16])
    again = bench.inputs(1)
    for back, right in ((8, True), (9, False)):
        start = 16 - back
        wanted, sizes = bench.wanted(np.concatenate([bcx[:start], again]))
        found = lab.rows(bench.run([(2, start)], again).buffer, 1, 32)
        assert (np.abs(found - wanted[-1]) <= 2e-6 * sizes[-1]).all() == right
        # what that wrote is put back
        bench.run([(2, start)], bcx[start : start + 1])


def test_rings_that_are_too_short_are_refused(lab: Any, builder: Any) -> None:
    bench = Bench(lab, builder, 32, 3, ring=8)
    with pytest.raises(AssertionError, match="too short"):
        bench.run([(0, i) for i in range(7)], bench.inputs(7))
