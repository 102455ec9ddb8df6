"""A bench for single operations: random weights in every type, activations in and out, and the paged cache."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tests.ops.blocks import random_blocks, values_of
from wgpu_engine.files.gguf import TensorInfo
from wgpu_engine.files.quants import QUANT_TYPES
from wgpu_engine.gpu.device import Buffer
from wgpu_engine.gpu.native import NativeDevice
from wgpu_engine.ops.builder import (
    Q8_BLOCK_WORDS,
    Activation,
    Codec,
    PlanBuilder,
    ceil_div,
    row_floats,
    square_words,
)
from wgpu_engine.ops.embed import embed
from wgpu_engine.ops.kv import KV_BLOCK, KVCache, KVType, kv_block_bytes
from wgpu_engine.ops.repack import Loader
from wgpu_engine.ops.state import Row, pack_state
from wgpu_engine.ops.weight import Norm, Weight
from wgpu_engine.platform.drive import drive
from wgpu_engine.platform.memory_source import MemorySource

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
SENTINEL = np.float32(-123456.75)
"""what outputs hold beforehand, so that a value that nobody wrote shows"""


@dataclass(frozen=True)
class Matrix:
    """A tensor [rows, k] as a file holds it, and the values that it means."""

    tensor: TensorInfo
    values: Floats


def quantize_q8(values: Floats) -> tuple[NDArray[np.uint32], Doubles]:
    """The int8 blocks of activations [rows, width] as `shaders/activation.wgsl` lays them out, and what they mean."""
    blocks = values.astype(np.float32).reshape(-1, 32)
    largest = np.abs(blocks).max(axis=1, keepdims=True)
    scale = largest / np.float32(127)
    inverse = np.divide(np.float32(127), largest, out=np.zeros_like(largest), where=largest > 0)
    quants = np.rint(np.clip(blocks * inverse, -127, 127)).astype(np.int8)
    sums = quants.reshape(-1, 2, 16).sum(axis=2, dtype=np.int32).astype(np.float32)
    words = np.empty((len(blocks), Q8_BLOCK_WORDS), np.uint32)
    words[:, :8] = quants.view(np.uint32)
    words[:, 8:9] = scale.view(np.uint32)
    words[:, 9:11] = (scale * sums).view(np.uint32)
    words[:, 11:12] = (scale * sums.sum(axis=1, keepdims=True)).view(np.uint32)
    return words, (quants * scale.astype(np.float64)).reshape(values.shape)


def check_q8(words: NDArray[np.uint32], wanted: Doubles, slack: float = 1e-5) -> None:
    """Int8 blocks must be within half a step of the wanted values, and agree with themselves."""
    blocks = words.reshape(-1, Q8_BLOCK_WORDS)
    quants = np.ascontiguousarray(blocks[:, :8]).view(np.int8).astype(np.float64)
    scale, first, last, whole = np.ascontiguousarray(blocks[:, 8:]).view(np.float32).astype(np.float64).T
    wanted = wanted.reshape(-1, 32)
    largest = np.abs(wanted).max(axis=1)
    np.testing.assert_allclose(scale, largest / 127, rtol=1e-5, atol=1e-30)
    error = np.abs(quants * scale[:, None] - wanted)
    assert (error <= (0.5 + 127 * slack) * scale[:, None] + 1e-30).all(), f"{(error / scale[:, None]).max()} steps off"
    assert np.abs(quants).max() <= 127
    halves = quants.reshape(-1, 2, 16).sum(axis=2)
    for stored, exact in ((first, halves[:, 0]), (last, halves[:, 1]), (whole, halves.sum(axis=1))):
        np.testing.assert_allclose(stored, scale * exact, rtol=1e-6, atol=0)


class Lab:
    """Runs operations on the test device with inputs from NumPy; frees what it made."""

    def __init__(self, device: NativeDevice, rng: np.random.Generator) -> None:
        self.device = device
        self.rng = rng
        self._made: list[Buffer] = []

    def free(self) -> None:
        for buffer in self._made:
            self.device.free(buffer)
        self._made.clear()

    # adapters

    def adapters(self) -> list[tuple[str, int]]:
        """Every pair of adapter kind and subgroup size that ops tell apart and this device can run."""
        sizes = sorted({0, self.device.subgroup_size}, reverse=True)
        return [(kind, size) for kind in ("cpu", "discrete") for size in sizes]

    @contextmanager
    def posing(self, kind: str, subgroup_size: int) -> Iterator[None]:
        """Lets ops take the device for another kind of adapter."""
        adapter, size = self.device.adapter, self.device.subgroup_size
        self.device.adapter, self.device.subgroup_size = replace(adapter, kind=kind), subgroup_size
        try:
            yield
        finally:
            self.device.adapter, self.device.subgroup_size = adapter, size

    @contextmanager
    def limits(self, **limits: int) -> Iterator[None]:
        """Lets the device pass for one of smaller limits."""
        before = self.device.limits
        self.device.limits = replace(before, **limits)
        try:
            yield
        finally:
            self.device.limits = before

    # weights

    def matrix(self, type_name: str, rows: int, k: int, raw: Bytes | None = None) -> Matrix:
        """A tensor of random blocks, or of these, at an odd place in its file."""
        quant = QUANT_TYPES[type_name]
        if raw is None:
            raw = random_blocks(self.rng, quant, rows, k)
        before = int(self.rng.integers(0, 9))
        source = MemorySource("memory", self.rng.bytes(before) + raw.tobytes() + b"\xff" * 7)
        tensor = TensorInfo(f"{type_name}[{rows},{k}]", quant, (rows, k), source, before, raw.nbytes)
        return Matrix(tensor, values_of(quant, raw)[:, :k])

    def loader(self, *, halve: bool = False) -> Loader:
        return Loader(self.device, lambda _: None, halve=halve)

    def _keep(self, *weights: Weight) -> tuple[Weight, ...]:
        self._made += [part.buffer for weight in weights for part in weight.parts]
        self._made += [weight.factors for weight in weights if weight.factors is not None]
        return weights

    def load(self, *ports: Matrix | Sequence[Matrix], experts: int = 1) -> Weight:
        """A weight of one or two ports, each a matrix or matrices laid one below the other."""
        loader = self.loader()
        lists = [[port] if isinstance(port, Matrix) else port for port in ports]
        try:
            weight = drive(loader.weight("w", [[matrix.tensor for matrix in port] for port in lists], experts=experts))
        finally:
            loader.close()
        return self._keep(weight)[0]

    def load_all(self, method: str, *matrices: Matrix) -> tuple[Weight, ...]:
        """What the loader's `stacked` or `paired` makes of matrices."""
        loader = self.loader()
        try:
            weights = drive(getattr(loader, method)("w", [matrix.tensor for matrix in matrices]))
        finally:
            loader.close()
        return self._keep(*weights)

    def vector(self, values: Sequence[float] | Doubles | Floats) -> Buffer:
        """A vector f32 on the device."""
        data = np.asarray(values, np.float32)
        buffer = self.device.buffer(data.nbytes, "vector")
        self._made.append(buffer)
        if data.size:
            self.device.write(buffer, 0, data.tobytes())
        return buffer

    # plans

    def write_state(
        self, builder: PlanBuilder, rows: Sequence[tuple[int, int, int]], outputs: Sequence[int] = ()
    ) -> None:
        """Rows as (token, position, slot); outputs are rows."""
        self.device.write(builder.state, 0, pack_state([Row(*row) for row in rows], outputs))

    def run(self, builder: PlanBuilder, times: int = 1) -> None:
        plan = drive(self.device.plan(builder.dispatches, "test"))
        for _ in range(times):
            self.device.run(plan)

    # values in and out

    def fill(self, buffer: Buffer, value: np.float32 = SENTINEL) -> None:
        self.device.write(buffer, 0, np.full(buffer.size // 4, value, np.float32).tobytes())

    def write_rows(self, buffer: Buffer, values: Doubles | Floats) -> None:
        """Rows f32, padded with zeros."""
        padded = np.zeros((len(values), row_floats(values.shape[1])), np.float32)
        padded[:, : values.shape[1]] = values
        self.device.write(buffer, 0, padded.tobytes())

    def words(self, buffer: Buffer, count: int) -> NDArray[np.uint32]:
        data = drive(self.device.receive(self.device.read(buffer, 0, 4 * count)))
        return np.frombuffer(data, np.uint32)

    def rows(self, buffer: Buffer, rows: int, width: int) -> Floats:
        """Padded rows f32 [rows, width]."""
        stride = row_floats(width)
        return self.words(buffer, rows * stride).view(np.float32).reshape(rows, stride)[:, :width]

    def activation(
        self,
        builder: PlanBuilder,
        values: Doubles | Floats,
        codec: Codec,
        *,
        squares: Doubles | None = None,
        eps: float = 0.0,
    ) -> tuple[Activation, Doubles]:
        """Activations for a plan's first rows, NaN in the others; and the values that readers see."""
        values = values.astype(np.float32)
        width = values.shape[1]
        buffer = builder.activation(width, codec, "input")
        self.fill(buffer, np.float32(np.nan))
        seen = values.astype(np.float64)
        if codec == "f32":
            self.write_rows(buffer, values)
        else:
            words, seen = quantize_q8(values)
            self.device.write(buffer, 0, words.tobytes())
        on_device = None
        if squares is not None:
            on_device = builder.buffer(4 * builder.rows * square_words(width), "input squares")
            self.fill(on_device, np.float32(np.nan))
            padded = np.zeros((len(squares), square_words(width)), np.float32)
            padded[:, : squares.shape[1]] = squares
            self.device.write(on_device, 0, padded.tobytes())
        return Activation(buffer, width, codec, on_device, eps), seen

    def check_activation(self, h: Activation, wanted: Doubles, rtol: float | Doubles = 1e-5) -> None:
        """The first rows of activations must be those wanted, f32 to `rtol` of the row's largest, q8 to half a step.

        `rtol` may be one for each row, [rows, 1].
        """
        if h.codec == "q8":
            check_q8(self.words(h.buffer, wanted.size // 32 * Q8_BLOCK_WORDS), wanted, float(np.max(rtol)))
            return
        error = np.abs(self.rows(h.buffer, *wanted.shape) - wanted)
        largest = np.abs(wanted).max(axis=1, keepdims=True)
        assert (error <= rtol * largest).all(), f"off by {(error / largest).max()} of the largest"

    def check_squares(self, h: Activation, x: Doubles) -> None:
        """The sums of squares that belong to activations must be those of rows x."""
        assert h.squares is not None
        rows, width = x.shape
        padded = np.zeros((rows, 32 * ceil_div(width, 32)))
        padded[:, :width] = x
        wanted = (padded**2).reshape(rows, -1, 32).sum(axis=2)
        stride = square_words(width)
        found = self.words(h.squares, rows * stride).view(np.float32).reshape(rows, stride)
        np.testing.assert_allclose(found[:, : wanted.shape[1]], wanted, rtol=1e-5)
        # readers add up the padding too
        assert not found[:, wanted.shape[1] :].any()

    def embedded(self, builder: PlanBuilder, table: Weight) -> Floats:
        """All rows of a weight, read as an embedding table; the builder must have a row for each."""
        x, _ = embed(builder, table, Norm(self.vector(np.ones(table.k)), 0.0), "f32")
        self.fill(x)
        self.write_state(builder, [(token, 0, 0) for token in range(table.features)])
        self.run(builder)
        return self.rows(x, table.features, table.k)

    # the paged cache

    def cache(
        self, kv_heads: int, head_dim: int, kv_type: KVType, slots: int, positions: int, ring: int = 0
    ) -> KVCache:
        """A cache of one layer, its blocks dealt out to the slots at random, or in rings of so many positions."""
        width = ceil_div(positions, KV_BLOCK)
        blocks = slots * (ring // KV_BLOCK or width) + 3
        layer = self.device.buffer(blocks * kv_block_bytes(kv_heads, head_dim, kv_type), "kv")
        tables = self.device.buffer(4 * slots * width, "tables")
        self._made += [layer, tables]
        table = self.rng.permutation(blocks)[: slots * width].astype(np.uint32)
        self.device.write(tables, 0, table.tobytes())
        return KVCache(kv_type, (layer,), tables, width, (ring,))

    def blocks(self, cache: KVCache, slots: int) -> NDArray[np.integer]:
        """The blocks of each slot, in order: [slots, blocks]."""
        ring = cache.ring_blocks(0)
        if ring:
            return np.arange(slots * ring).reshape(slots, ring)
        return self.words(cache.tables, slots * cache.table_width).reshape(slots, -1)

    def cached(self, cache: KVCache, slots: int, kv_heads: int, head_dim: int) -> Floats:
        """Keys and values f32 of every slot or ring: [slots, positions, key or value, kv_heads, head_dim]."""
        layer = cache.layers[0]
        words = self.words(layer, layer.size // 4)
        values = words.view(np.float16 if cache.kv_type == "f16" else np.float32).astype(np.float32)
        block = 2 * kv_heads * KV_BLOCK * head_dim
        blocks = values[: values.size // block * block].reshape(-1, 2, kv_heads, KV_BLOCK, head_dim)
        return blocks[self.blocks(cache, slots)].transpose(0, 1, 4, 2, 3, 5).reshape(slots, -1, 2, kv_heads, head_dim)
