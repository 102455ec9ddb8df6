"""Fixtures that every room's tests share."""

import json
import os
import secrets
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Literal

import gguf
import numpy as np
import pytest
from numpy.typing import NDArray

import wgpu_engine.engine.loading
from wgpu_engine.engine.service import Service
from wgpu_engine.errors import ModelNotFoundError
from wgpu_engine.files.store import HOME_VARIABLE, Store
from wgpu_engine.gpu import wgsl
from wgpu_engine.gpu.native import NativeDevice, open_device
from wgpu_engine.ops.builder import SLOT_WORDS, PlanBuilder, ScratchPool
from wgpu_engine.platform.drive import drive
from wgpu_engine.text.vocabulary import BYTE_OF_LETTER, SPACE

ROOT = Path(__file__).parent.parent
CHAT_TEMPLATE = (
    "{% for message in messages %}[{{ message.role }}] {{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant] {% endif %}"
)

BuilderFactory = Callable[..., PlanBuilder]


@pytest.fixture(scope="session", autouse=True)
def heed_ctrl_c() -> None:
    """Tests in the background of a shell are started with Ctrl-C ignored, which the programs they start inherit."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in the user's place: with their models, but without what was found of adapters before."""
    models, folder = Store().folder, tmp_path_factory.mktemp("home")
    if models.is_dir():
        (folder / models.name).symlink_to(models, target_is_directory=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(HOME_VARIABLE, str(folder))
        yield folder


@pytest.fixture(scope="session")
def conformance() -> Path:
    """Folder of inputs and expected values from independent implementations; skips where it is absent."""
    folder = Path(os.environ.get("WGPU_ENGINE_CONFORMANCE", ROOT.parent / "shared" / "conformance"))
    if not folder.is_dir():
        pytest.skip("conformance data is absent: set WGPU_ENGINE_CONFORMANCE to its folder")
    return folder


@pytest.fixture(scope="session")
def device() -> Iterator[NativeDevice]:
    """The one device of a test run; tests that break a device open their own."""
    opened = drive(open_device())
    yield opened
    opened.close()


@pytest.fixture
def builder(device: NativeDevice) -> Iterator[BuilderFactory]:
    """Makes plan builders with scratch memory of their own: `builder(rows, outputs=0, precision="exact", slots=1)`.

    All their buffers are freed after the test.
    """
    made: list[PlanBuilder] = []

    def make(rows: int, outputs: int = 0, precision: Literal["exact", "fast"] = "exact", slots: int = 1) -> PlanBuilder:
        slot_words = device.buffer(4 * SLOT_WORDS * slots, "slots")
        made.append(PlanBuilder(device, rows, outputs, precision, slot_words, ScratchPool(device)))
        return made[-1]

    yield make
    for each in made:
        each.pool.free()
        device.free(each.slots)
        device.free(each.state)


@pytest.fixture(scope="module")
def no_kernel_check() -> Iterator[None]:
    """Loads models without a check of their kernels, which has tests of its own and takes a while."""

    async def nothing(*_: Any) -> None:
        pass

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wgpu_engine.engine.loading, "check_kernels", nothing)
        yield


@pytest.fixture
def spoil(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str, str], None]:
    """Changes what templates become: `spoil("rope/", "old", "new")`, as a broken compiler might."""

    def change(template: str, old: str, new: str) -> None:
        render = wgsl._render

        def spoiled(name: str, dialect: str, values: tuple[tuple[str, object], ...]) -> str:
            source = render(name, dialect, values)
            return source.replace(old, new) if name.startswith(template) else source

        monkeypatch.setattr(wgsl, "_render", spoiled)

    return change


@pytest.fixture
def lose() -> Callable[[Service], None]:
    """Destroys a service's device at its next step, in its own thread and while nothing is in flight.

    The library ends the process where a buffer is read that a device took along when it was destroyed.
    """

    def at_next_step(service: Service) -> None:
        scheduler, device = service.scheduler, service.loaded.device
        step = scheduler.step

        async def lost() -> None:
            await scheduler.drain()
            device._device.destroy()
            await step()

        scheduler.step = lost  # type: ignore[method-assign]

    return at_next_step


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers from a fresh seed, which a failing test shows; WGPU_ENGINE_SEED=<seed> repeats it."""
    seed = int(os.environ.get("WGPU_ENGINE_SEED", secrets.randbits(32)))
    print(f"WGPU_ENGINE_SEED={seed}")
    return np.random.default_rng(seed)


@dataclass
class LlamaFile:
    """A random llama small enough to load at once; what a test changes of the defaults makes another file."""

    path: Path
    layers: int = 2
    width: int = 64
    heads: int = 2
    kv_heads: int = 1
    head_dim: int = 32
    feed_forward: int = 96
    context: int = 2048
    types: Mapping[str, str] = field(default_factory=dict)
    """type by a part of the tensor's name, the first that fits; F32 where none does, and for vectors"""
    tied: bool = False
    biases: bool = False
    rope_factors: Sequence[float] | None = None
    vocabulary: Literal["llama", "gpt2"] = "llama"
    pre: str = "gpt-2"
    """how the gpt2 vocabulary splits words"""
    eos: int | None = None
    """the token that ends an answer; by default the vocabulary's own"""
    chat_template: str | None = CHAT_TEMPLATE
    name: str | None = None
    architecture: str = "llama"
    metadata: Mapping[str, int | float | str | list[int] | None] = field(default_factory=dict)
    """settings to add or replace, without the architecture's prefix; None leaves one out"""
    tensors: Mapping[str, NDArray[np.float32] | None] = field(default_factory=dict)
    """tensors to add or replace; None leaves one out"""
    raw: Callable[[str, NDArray[np.uint8]], None] = lambda name, data: None
    """may change a tensor's bytes [rows, row bytes] before they are written"""
    seed: int = 1

    def write(self) -> Path:
        writer = gguf.GGUFWriter(self.path, self.architecture)
        tokens = self._write_vocabulary(writer)
        if self.name:
            writer.add_name(self.name)
        for key, value in (self._settings() | dict(self.metadata)).items():
            if isinstance(value, list):
                writer.add_array(f"{self.architecture}.{key}", value)
            elif value is not None:
                kind = {
                    int: gguf.GGUFValueType.UINT32,
                    float: gguf.GGUFValueType.FLOAT32,
                    str: gguf.GGUFValueType.STRING,
                }
                writer.add_key_value(f"{self.architecture}.{key}", value, kind[type(value)])
        for name, values in (self._tensors(tokens) | dict(self.tensors)).items():
            if values is not None:
                self._write_tensor(writer, name, values)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return self.path

    def _settings(self) -> dict[str, Any]:
        return {
            "block_count": self.layers,
            "context_length": self.context,
            "embedding_length": self.width,
            "feed_forward_length": self.feed_forward,
            "attention.head_count": self.heads,
            "attention.head_count_kv": self.kv_heads,
            "attention.key_length": self.head_dim,
            "attention.value_length": self.head_dim,
            "attention.layer_norm_rms_epsilon": 1e-5,
            "rope.dimension_count": self.head_dim,
            "rope.freq_base": 10000.0,
        }

    def _tensors(self, vocab: int) -> dict[str, NDArray[np.float32] | None]:
        rng = np.random.default_rng(self.seed)

        def matrix(rows: int, columns: int) -> NDArray[np.float32]:
            return rng.normal(0, columns**-0.5, (rows, columns)).astype(np.float32)

        def vector(size: int, around: float) -> NDArray[np.float32]:
            return rng.normal(around, 0.2, size).astype(np.float32)

        q, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        sizes = {
            "attn_q": (q, self.width),
            "attn_k": (kv, self.width),
            "attn_v": (kv, self.width),
            "attn_output": (self.width, q),
            "ffn_gate": (self.feed_forward, self.width),
            "ffn_up": (self.feed_forward, self.width),
            "ffn_down": (self.width, self.feed_forward),
        }
        tensors: dict[str, NDArray[np.float32] | None] = {
            "token_embd.weight": matrix(vocab, self.width),
            "output_norm.weight": vector(self.width, 1),
        }
        if not self.tied:
            tensors["output.weight"] = matrix(vocab, self.width)
        if self.rope_factors is not None:
            tensors["rope_freqs.weight"] = np.array(self.rope_factors, np.float32)
        for layer in range(self.layers):
            prefix = f"blk.{layer}."
            tensors |= {f"{prefix}{name}.weight": vector(self.width, 1) for name in ("attn_norm", "ffn_norm")}
            for name, size in sizes.items():
                tensors[f"{prefix}{name}.weight"] = matrix(*size)
                if self.biases:
                    tensors[f"{prefix}{name}.bias"] = vector(size[0], 0)
        return tensors

    def _write_tensor(self, writer: gguf.GGUFWriter, name: str, values: NDArray[np.float32]) -> None:
        kind = next((kind for part, kind in self.types.items() if part in name), "F32") if values.ndim > 1 else "F32"
        quant = gguf.GGMLQuantizationType[kind]
        data = np.ascontiguousarray(gguf.quants.quantize(np.ascontiguousarray(values), quant))
        self.raw(name, data.view(np.uint8))
        writer.add_tensor(name, data, raw_dtype=quant)

    def _write_vocabulary(self, writer: gguf.GGUFWriter) -> int:
        """Bytes and a few longer pieces; returns how many tokens there are."""
        control, normal = gguf.TokenType.CONTROL, gguf.TokenType.NORMAL
        if self.vocabulary == "llama":
            pieces = [
                SPACE,
                *"etaoinsrhl",
                "th",
                "the",
                f"{SPACE}t",
                f"{SPACE}the",
                "an",
                f"{SPACE}a",
                "in",
                "er",
                "on",
            ]
            tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *pieces]
            types = [gguf.TokenType.UNKNOWN, control, control, *[gguf.TokenType.BYTE] * 256, *[normal] * len(pieces)]
            writer.add_token_scores([0.0] * 259 + [-float(i) for i in range(len(pieces))])
            writer.add_bos_token_id(1)
            writer.add_eos_token_id(self.eos or 2)
            writer.add_unk_token_id(0)
        else:
            letters = list(BYTE_OF_LETTER)
            merges = ["t h", "Ġ t", "Ġ a", "i n", "e r", "o n", "th e", "Ġ the"]
            tokens = [*letters, *(merge.replace(" ", "") for merge in merges), "<|start|>", "<|end|>"]
            types = [normal] * (len(tokens) - 2) + [control, control]
            writer.add_token_merges(merges)
            writer.add_tokenizer_pre(self.pre)
            writer.add_bos_token_id(len(tokens) - 2)
            writer.add_eos_token_id(self.eos or len(tokens) - 1)
        writer.add_tokenizer_model(self.vocabulary)
        writer.add_token_list(tokens)
        writer.add_token_types(types)
        if self.chat_template:
            writer.add_chat_template(self.chat_template)
        return len(tokens)


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Writes a random llama of about 300 tokens: `tiny_llama(layers=3, tied=False, …)`, see LlamaFile."""
    folder, numbers = tmp_path_factory.mktemp("llamas"), count()
    return lambda **changes: LlamaFile(folder / f"llama-{next(numbers)}.gguf", **changes).write()


@pytest.fixture(scope="session")
def tiny_lfm2(tiny_llama: Callable[..., Path]) -> Callable[..., Path]:
    """Writes a random LFM2: `tiny_lfm2("ccac", kernel=3, biases=False, …)`, with what else LlamaFile takes.

    A letter stands for a layer: c for a convolution, a for attention with one key head.
    """

    def write(layers: str = "ccac", kernel: int = 3, biases: bool = False, width: int = 64, **changes: Any) -> Path:
        rng = np.random.default_rng(len(layers) + kernel)
        tensors: dict[str, NDArray[np.float32] | None] = {"output.weight": None, "output_norm.weight": None}
        sizes: dict[str, tuple[int, ...]] = {"token_embd_norm.weight": (width,)}
        for i, letter in enumerate(layers):
            prefix = f"blk.{i}."
            if letter == "a":
                sizes |= {f"{prefix}attn_{name}_norm.weight": (32,) for name in "qk"}
                continue
            tensors |= {f"{prefix}attn_{name}.weight": None for name in ("q", "k", "v", "output")}
            for name, rows, columns in (
                ("in_proj", 3 * width, width),
                ("conv", width, kernel),
                ("out_proj", width, width),
            ):
                sizes[f"{prefix}shortconv.{name}.weight"] = (rows, columns)
                if biases:
                    sizes[f"{prefix}shortconv.{name}.bias"] = (rows,)
        for name, size in sizes.items():
            around = 1 if "norm" in name else 0
            tensors[name] = rng.normal(around, 0.5 if len(size) == 1 else size[-1] ** -0.5, size).astype(np.float32)
        metadata = {
            "attention.head_count_kv": [int(letter == "a") for letter in layers],
            "shortconv.l_cache": kernel,
        }
        return tiny_llama(
            architecture="lfm2",
            layers=len(layers),
            width=width,
            tensors=tensors | dict(changes.pop("tensors", {})),
            metadata=metadata | dict(changes.pop("metadata", {})),
            **changes,
        )

    return write


@pytest.fixture(scope="session")
def stories(conformance: Path) -> Path:
    """A real llama of 260,000 parameters that tells stories."""
    return conformance / "logits" / "stories260K.gguf"


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """The default model; skips where it has not been pulled. Tests that use it carry the marker `model`."""
    try:
        return Store().find("smollm2")
    except ModelNotFoundError:
        pytest.skip("the default model is absent: run `wgpu-engine pull smollm2`")


@pytest.fixture(scope="session")
def minilm() -> Path:
    """The folder of all-MiniLM-L6-v2; skips where it was not pulled. Tests that use it carry the marker `model`."""
    try:
        return Store().find("minilm")
    except ModelNotFoundError:
        pytest.skip("all-MiniLM-L6-v2 is absent: run `wgpu-engine pull minilm`")


@dataclass
class LlamaFolder:
    """A random llama of one layer as Hugging Face publishes models; what a test changes makes another folder."""

    path: Path
    dtype: str = "F32"
    """of matrices: F32, F16 or BF16"""
    vocab: int = 300
    shards: int = 0
    """files with an index; 0: one file without"""
    config: Mapping[str, Any] = field(default_factory=dict)
    """keys of config.json to add or replace; None is null there"""
    tensors: Mapping[str, NDArray[Any] | None] = field(default_factory=dict)
    """tensors to add or replace; None leaves one out"""
    files: Mapping[str, Any] = field(default_factory=dict)
    """more files: text as it is, anything else as JSON; None leaves one out"""

    def write(self) -> Path:
        self.path.mkdir()
        tensors = {
            name: values for name, values in (self._tensors() | dict(self.tensors)).items() if values is not None
        }
        names = list(tensors)
        files: dict[str, Any] = {"config.json": self._config()}
        if self.shards:
            parts = {
                f"model-{i + 1:05}-of-{self.shards:05}.safetensors": names[i :: self.shards] for i in range(self.shards)
            }
            files["model.safetensors.index.json"] = {
                "weight_map": {n: file for file, some in parts.items() for n in some}
            }
        else:
            parts = {"model.safetensors": names}
        for file, some in parts.items():
            (self.path / file).write_bytes(self._safetensors({name: tensors[name] for name in some}))
        for file, content in (files | dict(self.files)).items():
            if content is not None:
                text = content if isinstance(content, str) else json.dumps(content)
                (self.path / file).write_text(text, encoding="utf-8")
        return self.path

    def _config(self) -> dict[str, Any]:
        return {
            "architectures": ["LlamaForCausalLM"],
            "hidden_act": "silu",
            "hidden_size": 32,
            "intermediate_size": 64,
            "max_position_embeddings": 512,
            "num_attention_heads": 2,
            "num_hidden_layers": 1,
            "num_key_value_heads": 1,
            "rms_norm_eps": 1e-6,
            "rope_theta": 10000.0,
            "tie_word_embeddings": False,
            "vocab_size": self.vocab,
            "bos_token_id": 1,
            "eos_token_id": 2,
        } | dict(self.config)

    def _tensors(self) -> dict[str, NDArray[Any] | None]:
        rng = np.random.default_rng(1)
        layer, attention, mlp = "model.layers.0.", "model.layers.0.self_attn.", "model.layers.0.mlp."
        shapes = {
            "model.embed_tokens.weight": (self.vocab, 32),
            f"{attention}q_proj.weight": (32, 32),
            f"{attention}k_proj.weight": (16, 32),
            f"{attention}v_proj.weight": (16, 32),
            f"{attention}o_proj.weight": (32, 32),
            f"{mlp}gate_proj.weight": (64, 32),
            f"{mlp}up_proj.weight": (64, 32),
            f"{mlp}down_proj.weight": (32, 64),
            "lm_head.weight": (self.vocab, 32),
        }
        matrices = {name: rng.normal(0, 0.2, shape).astype(np.float32) for name, shape in shapes.items()}
        norms = (f"{layer}input_layernorm.weight", f"{layer}post_attention_layernorm.weight", "model.norm.weight")
        return {**matrices, **{name: np.ones(32, np.float32) for name in norms}}

    def _safetensors(self, tensors: Mapping[str, NDArray[Any]]) -> bytes:
        header, data = {}, b""
        for name, values in tensors.items():
            dtype = {"float32": "F32", "int32": "I32", "uint8": "F8_E4M3"}[values.dtype.name]
            raw = values.tobytes()
            if dtype == "F32" and values.ndim > 1 and self.dtype != "F32":
                dtype = self.dtype
                half = values.astype(np.float16) if dtype == "F16" else (values.view(np.uint32) >> 16).astype(np.uint16)
                raw = half.tobytes()
            header[name] = {"dtype": dtype, "shape": values.shape, "data_offsets": (len(data), len(data) + len(raw))}
            data += raw
        text = json.dumps({"__metadata__": {"format": "pt"}} | header).encode()
        return len(text).to_bytes(8, "little") + text + data


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Writes a random llama of one layer as a folder: `tiny_folder(dtype="F16", shards=2, …)`, see LlamaFolder."""
    folder, numbers = tmp_path_factory.mktemp("folders"), count()
    return lambda **changes: LlamaFolder(folder / f"llama-{next(numbers)}", **changes).write()
