"""A random llama in a GGUF file."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import gguf
import numpy as np
from numpy.typing import NDArray

from wgpu_engine.text.vocabulary import BYTE_OF_LETTER, SPACE

CHAT_TEMPLATE = (
    "{% for message in messages %}[{{ message.role }}] {{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant] {% endif %}"
)


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
    tensors_per_part: int = 0
    """above 0 the model is split into parts beside `path`, of which `write` returns the first"""

    def write(self) -> Path:
        writer = gguf.GGUFWriter(self.path, self.architecture, split_max_tensors=self.tensors_per_part)
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
        return min(self.path.parent.glob(f"{self.path.stem}-00001-of-*.gguf"), default=self.path)

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
