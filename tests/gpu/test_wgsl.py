"""Assembly of WGSL, and every template of shaders/ as every kind of device would get it."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any

import jinja2
import pytest

from wgpu_engine.files.gguf import TensorInfo
from wgpu_engine.files.quants import QUANT_TYPES
from wgpu_engine.gpu import wgsl
from wgpu_engine.gpu.device import AdapterInfo, Dispatch, Limits, Shader
from wgpu_engine.gpu.probe import probe_subgroup_size
from wgpu_engine.gpu.wgsl import assemble, binding_types
from wgpu_engine.ops.attention import Heads, attend
from wgpu_engine.ops.bias import BIAS_BYTES, MOST_BIASES, add_bias
from wgpu_engine.ops.builder import SLOT_WORDS, Activation, PlanBuilder, ScratchPool
from wgpu_engine.ops.embed import embed, look_up
from wgpu_engine.ops.experts import add_experts, gated_experts
from wgpu_engine.ops.kv import KVCache, kv_block_bytes
from wgpu_engine.ops.log_prob import log_prob
from wgpu_engine.ops.matmul import activated, add_to_residual, codec_for, gated, project
from wgpu_engine.ops.norm import norm as norm_
from wgpu_engine.ops.norm import residual_norm
from wgpu_engine.ops.pool import pool
from wgpu_engine.ops.repack import Loader
from wgpu_engine.ops.rope import angle_table, rope_and_store
from wgpu_engine.ops.routing import route
from wgpu_engine.ops.sample import RING, sample
from wgpu_engine.ops.short_conv import Convolution, short_conv
from wgpu_engine.ops.top_tokens import top_tokens
from wgpu_engine.ops.weight import Norm, Weight
from wgpu_engine.platform.drive import drive
from wgpu_engine.resources import resource_dir

SHADERS = resource_dir("shaders")
TEMPLATES = sorted(path.relative_to(SHADERS).as_posix() for path in SHADERS.rglob("*.wgsl"))
WORKGROUP_SIZE = re.compile(r"@workgroup_size\(([^)]*)\)")
VOCAB, WIDTH, ROWS, SLOTS, CONTEXT = 512, 256, 5, 2, 600


@dataclass(eq=False)
class FakeBuffer:
    size: int


@dataclass
class FakeDevice:
    """Takes every dispatch and does nothing, but for looking at its shader."""

    dialect: str
    kind: str
    subgroup_size: int
    limits: Limits = field(default_factory=Limits)
    shaders: dict[str, Shader] = field(default_factory=dict)

    @property
    def adapter(self) -> AdapterInfo:
        return AdapterInfo(0, "fake", self.kind, "Vulkan", "fake")

    def buffer(self, size: int, label: str) -> FakeBuffer:
        return FakeBuffer(max(16, size + -size % 16))

    def free(self, buffer: Any) -> None:
        pass

    def write(self, buffer: Any, offset: int, data: Any) -> None:
        assert offset + len(data) <= buffer.size

    async def upload(self, buffer: Any, offset: int, source: Any, start: int, length: int) -> None:
        assert offset + length <= buffer.size

    async def flush(self) -> None:
        pass

    async def plan(self, dispatches: Any, label: str) -> str:
        for dispatch in dispatches:
            self.check(dispatch)
        return label

    def run(self, plan: Any) -> None:
        pass

    def run_and_read(self, plan: Any, buffer: Any, offset: int, size: int) -> int:
        return size

    def read(self, buffer: Any, offset: int, size: int) -> int:
        return size

    async def receive(self, pending: int) -> bytes:
        return bytes(pending)

    def check(self, dispatch: Dispatch) -> None:
        name, source = dispatch.shader.name, dispatch.shader.source
        self.shaders[source] = dispatch.shader
        kinds = binding_types(source)
        assert len(kinds) == len(dispatch.buffers), f"{name}: {len(kinds)} bindings, {len(dispatch.buffers)} buffers"
        stored = len(kinds) - kinds.count("uniform")
        assert stored <= self.limits.storage_buffers, f"{name}: {stored} storage buffers"
        assert kinds.count("uniform") <= 1
        (size,) = WORKGROUP_SIZE.findall(source)
        threads = prod(int(each) for each in size.split(","))
        assert threads <= self.limits.invocations, f"{name}: {threads} threads in a workgroup"
        assert source.count("fn main(") == 1, f"{name}: one entry point"
        leftover = re.search(r"\{\{|\{%|\{#|\$\{|#\}|%\}", source)
        assert not leftover, f"{name}: {leftover} is left of the template"
        enabled = [line for line in source.splitlines() if line.startswith(("enable", "requires"))]
        wanted = ["enable subgroups;"] if self.dialect == "tint" and "subgroup" in source else []
        assert enabled == wanted, f"{name}: {enabled}"
        if not self.subgroup_size:
            assert "subgroup" not in source, f"{name} needs subgroups, which are not there"
        # everything has to work without 16-bit floats
        assert not re.search(r"\bf16\b|<f16>", source), f"{name} needs f16"


class NoSource:
    name, size = "nothing", 1 << 40

    async def read(self, offset: int, length: int) -> bytes:
        return bytes(length)

    def close(self) -> None:
        pass


def weight(loader: Loader, name: str, *ports: int, experts: int = 1) -> Weight:
    """A weight of WIDTH columns, with a port of each number of features."""
    quant = QUANT_TYPES[name]
    tensors = [[TensorInfo(name, quant, (rows, WIDTH), NoSource(), 0, rows * quant.row_bytes(WIDTH))] for rows in ports]
    return drive(loader.weight(name, tensors, experts=experts))


def run_everything(
    device: Any, types: Iterable[str] = ("F16", "Q4_1", "Q6_K"), sizes: Iterable[int] = (1, ROWS, 40)
) -> None:
    """Every op, with weights of these types, every codec and variant, for so many rows."""
    loader = Loader(device, lambda _: None)
    norm = Norm(device.buffer(4 * WIDTH, "gain"), 1e-5)
    layer_norm = Norm(device.buffer(4 * WIDTH, "gain"), 1e-5, device.buffer(4 * WIDTH, "bias"), "layer")
    bias = device.buffer(8 * VOCAB, "bias")
    slots = device.buffer(4 * SLOT_WORDS * SLOTS, "slots")
    counts, ring = device.buffer(4 * SLOTS * VOCAB, "counts"), device.buffer(4 * SLOTS * RING, "ring")
    biases = device.buffer(BIAS_BYTES * MOST_BIASES * SLOTS, "biases")
    weights = {name: (weight(loader, name, VOCAB), weight(loader, name, WIDTH, WIDTH)) for name in types}
    weight(Loader(device, lambda _: None, halve=True), "F32", VOCAB)
    for precision, rows in product(("exact", "fast"), sizes):
        for table, pair in weights.values():
            square = weight(loader, table.quant.name, WIDTH)
            builder = PlanBuilder(device, rows, rows, precision, slots, ScratchPool(device))  # type: ignore[arg-type]
            builder.trials = {}
            codec = codec_for(builder, table)
            x, h = embed(builder, table, norm, codec)
            project(builder, (square,), h, builder.floats(WIDTH, "out"), WIDTH, bias=bias)
            gate = gated(builder, (pair,), h, codec, bias=bias)
            gated(builder, (square, weight(loader, "Q8_0", WIDTH)), h, codec)
            h = add_to_residual(builder, square, gate, x, norm, codec)
            logits = builder.logits(VOCAB)
            project(builder, (table,), h, logits, VOCAB, outputs_only=True)
            log_prob(builder, logits, VOCAB, device.buffer(4 * rows, "wanted"))
            sample(builder, add_bias(builder, logits, VOCAB, biases), VOCAB, counts, ring)
            top_tokens(builder, logits, VOCAB)
            look_up(builder, table, "position", onto=x)
            h = activated(builder, square, h, codec, activation="gelu")
            y = norm_(builder, x, WIDTH, layer_norm, "f32", label="y").buffer
            residual_norm(builder, x, y, WIDTH, norm, codec, post=layer_norm)
            pool(builder, x, WIDTH, "mean")
            for used, experts in ((1, 2), (3, 40)):
                route_of = builder.floats(experts, "routes")
                routing = route(builder, route_of, experts, used, shares="chosen" if used == 1 else "sigmoid")
                pairs, downs = (
                    weight(loader, table.quant.name, *[experts * WIDTH] * ports, experts=experts) for ports in (2, 1)
                )
                h = Activation(builder.activation(WIDTH, codec, "normed"), WIDTH, codec)
                h = gated_experts(builder, (pairs,), h, routing, codec)
                add_experts(builder, downs, h, routing, x, norm, codec)
                halves = (downs, weight(loader, "Q8_0", experts * WIDTH, experts=experts))
                h = Activation(builder.activation(WIDTH, codec, "normed"), WIDTH, codec)
                gated_experts(builder, halves, h, routing, codec)
            drive(device.plan(builder.dispatches, "all"))
            for variants in builder.trials.values():
                for dispatches in variants.values():
                    drive(device.plan(dispatches, "trial"))
        for kv_type, neox, head_dim in product(("f16", "f32"), (False, True), (40, 64)):
            builder = PlanBuilder(device, rows, 0, precision, slots, ScratchPool(device))  # type: ignore[arg-type]
            heads = Heads(6, 2, head_dim, 16, neox, 0.1)
            layer = device.buffer(4 * kv_block_bytes(2, head_dim, kv_type), "kv")  # type: ignore[arg-type]
            tables = device.buffer(4 * SLOTS * 20, "tables")
            cache = KVCache(kv_type, (layer,), tables, 20)  # type: ignore[arg-type]
            qkv = builder.floats(heads.width, "qkv")
            angles = angle_table(device, [1.0] * 8, 300)
            rope_and_store(builder, qkv, heads, angles, cache, 0)
            rope_and_store(builder, qkv, heads, None, cache, 0, norm)
            attend(builder, qkv, heads, cache, 0, CONTEXT, "q8" if precision == "fast" else "f32")
            sinks = device.buffer(4 * heads.count, "sinks")
            attend(builder, qkv, heads, cache, 0, CONTEXT, "f32", window=270, cap=3.0, sinks=sinks)
            attend(builder, qkv, heads, cache, 0, CONTEXT, "f32", causal=False)
            drive(device.plan(builder.dispatches, "attention"))
        builder = PlanBuilder(device, rows, 0, precision, slots, ScratchPool(device))  # type: ignore[arg-type]
        length = 8 + 128
        state = device.buffer(4 * SLOTS * length * WIDTH, "ring")
        cache = KVCache("f16", (state,), device.buffer(4 * SLOTS, "tables"), 1, (length,))
        taps = Convolution(device.buffer(4 * 4 * WIDTH, "taps"), WIDTH, 3)
        short_conv(builder, builder.floats(3 * WIDTH, "bcx"), taps, cache, 0, "q8" if precision == "fast" else "f32")
        drive(device.plan(builder.dispatches, "convolution"))
    loader.close()


@pytest.fixture
def read_templates(monkeypatch: Any) -> Iterator[set[str]]:
    """The templates that are read, with nothing kept from before."""
    found: set[str] = set()
    original = jinja2.FileSystemLoader.get_source

    def get_source(self: Any, environment: Any, template: str) -> Any:
        found.add(template)
        return original(self, environment, template)

    monkeypatch.setattr(jinja2.FileSystemLoader, "get_source", get_source)
    for cached in (wgsl._environment, wgsl._render):
        cached.cache_clear()
    yield found
    for cached in (wgsl._environment, wgsl._render):
        cached.cache_clear()


@pytest.mark.parametrize("dialect", ["naga", "tint"])
def test_every_template_renders(dialect: str, read_templates: set[str]) -> None:
    sources: set[str] = set()
    for kind, subgroup_size in product(("cpu", "discrete"), (0, 32)):
        device = FakeDevice(dialect, kind, subgroup_size)
        run_everything(device)
        sources |= set(device.shaders)
    run_everything(FakeDevice(dialect, "cpu", 8), QUANT_TYPES, [1])
    probe = FakeDevice(dialect, "cpu", 32)
    drive(probe_subgroup_size(probe))  # type: ignore[arg-type]
    assert len(probe.shaders) == 1
    assert len(sources) > 200
    assert set(TEMPLATES) == read_templates, "a template that nothing uses, or that lies elsewhere"


def test_the_least_device_gets_every_kernel() -> None:
    """Eight buffers, 256 threads: checked for each dispatch by the fake device."""
    device = FakeDevice("tint", "integrated", 0, Limits())
    run_everything(device)
    assert max(len(binding_types(source)) for source in device.shaders) <= 8


# assembly


def test_values_and_labels() -> None:
    values = {"granule": 4, "size": 8, "offset": 2, "block_bytes": 10, "floats": ""}
    plain = assemble("repack/field.wgsl", dialect="naga", **values)
    labelled = assemble("repack/field.wgsl", dialect="naga", label="Q4_0.quants", **values)
    assert (plain.name, labelled.name) == ("repack/field", "repack/field:Q4_0.quants")
    assert plain.source is labelled.source, "rendered once"
    other = assemble("repack/field.wgsl", dialect="naga", **{**values, "size": 16})
    assert other.source != plain.source


def test_a_missing_value_is_an_error() -> None:
    with pytest.raises(jinja2.UndefinedError):
        assemble("repack/field.wgsl", dialect="naga", granule=4)


def test_a_missing_template_is_an_error() -> None:
    with pytest.raises(jinja2.TemplateNotFound):
        assemble("no/such.wgsl", dialect="naga")


def test_only_tint_is_told_of_subgroups() -> None:
    naga, tint = (assemble("probe/subgroup.wgsl", dialect=dialect).source for dialect in ("naga", "tint"))
    assert "enable" not in naga
    assert tint.startswith("enable subgroups;\n")
    assert tint.endswith(naga)


@pytest.mark.parametrize("template", TEMPLATES)
def test_templates_leave_enabling_to_the_assembly(template: str) -> None:
    source = (SHADERS / template).read_text()
    assert not re.search(r"^\s*(enable|requires)\b", source, re.MULTILINE)
    assert source.isascii()


def test_binding_types() -> None:
    source = """
@group(0) @binding(1) var<storage, read_write> b: array<u32>;
@group(0) @binding(0) var<storage, read> a: array<u32>;
@group(0)
@binding(2) var<uniform> c: vec4<u32>;
@group(0) @binding(3) var<storage,read_write> d: array<atomic<u32>>;
@group(0) @binding(4) var<storage> e: array<u32>;
var<workgroup> f: array<u32, 4>;
"""
    assert binding_types(source) == ("read-only-storage", "storage", "uniform", "storage", "read-only-storage")
    assert binding_types("fn main() {}") == ()


@pytest.mark.parametrize("numbers", [(1,), (0, 2), (0, 1, 3)])
def test_bindings_without_gaps(numbers: tuple[int, ...]) -> None:
    source = "\n".join(f"@group(0) @binding({number}) var<storage> a{number}: array<u32>;" for number in numbers)
    with pytest.raises(AssertionError, match="without gaps"):
        binding_types(source)
