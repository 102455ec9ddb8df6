"""Models in folders, as transformers writes them, beside the logits that it computes."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tokenizers import Tokenizer as Library
from tokenizers import decoders, pre_tokenizers
from tokenizers.models import BPE

from wgpu_engine import LLM
from wgpu_engine.errors import ModelFileError, RequestError
from wgpu_engine.ops.state import Row
from wgpu_engine.platform.drive import drive
from wgpu_engine.text.vocabulary import BYTE_OF_LETTER

Array = NDArray[Any]

NAMES = ("llama", "llama3-rope", "granite", "mistral", "mixtral", "phi3", "qwen2", "qwen3", "qwen3_moe", "smollm3")
CUTS = {"in one piece": [41], "token by token": [1] * 41, "3, then 38": [3, 38]}


def open_(path: Path) -> LLM:
    return LLM(path, precision="exact", kv_type="f32", ctx_size=64)


def logits(llm: LLM, ids: Sequence[int], cut: Sequence[int]) -> Array:
    """Logits [tokens, vocab] of a prompt that comes in pieces of the lengths in `cut`."""
    engine, rows = llm._engine, [Row(token, position, 0) for position, token in enumerate(ids)]
    engine.reserve(0, len(ids))
    found: list[bytes] = []
    for length in cut:
        found += drive(engine.logits(rows[len(found) : len(found) + length], len(ids)))
    return np.frombuffer(b"".join(found), np.float32).reshape(len(ids), -1)


def reference(folder: Path) -> tuple[list[int], Array]:
    with np.load(folder / "ref.npz") as data:
        return data["ids"][0].tolist(), data["logits"]


@pytest.mark.conformance
@pytest.mark.parametrize("name", NAMES)
def test_logits_of_transformers(conformance: Path, name: str) -> None:
    folder = conformance / "architectures" / name
    ids, wanted = reference(folder)
    with open_(folder) as llm:
        found = {what: logits(llm, ids, cut) for what, cut in CUTS.items()}
    for what, each in found.items():
        assert np.abs(each - wanted).max() < 1e-4, what


@pytest.fixture(scope="module")
def tokenizer() -> str:
    """The text of a small byte-level tokenizer.json."""
    merges = [("t", "h"), ("th", "e"), ("Ġ", "the")]
    tokens = ["<unk>", "<s>", "</s>", *BYTE_OF_LETTER, "th", "the", "Ġthe"]
    library = Library(BPE({text: index for index, text in enumerate(tokens)}, merges))
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    library.add_special_tokens(["<unk>", "<s>", "</s>", "<|im_end|>"])
    return library.to_str()


def test_text_and_chat(tiny_folder: Callable[..., Path], tokenizer: str) -> None:
    files = {
        "tokenizer.json": tokenizer,
        "tokenizer_config.json": {"bos_token": "<s>", "eos_token": "</s>", "add_bos_token": True},
        "generation_config.json": {"eos_token_id": [2, 4]},
        "chat_template.jinja": "{{ bos_token }}{% for m in messages %}{{ m.content }}</s>{% endfor %}",
    }
    with open_(tiny_folder(dtype="BF16", shards=2, files=files)) as llm:
        for text in ("the other", "größe 🦙\n", " x"):
            assert llm.detokenize(llm.tokenize(text)) == text
        assert llm.tokenize("the the") == [1, 260, 261]
        vocabulary = llm.tokenizer.vocabulary
        assert vocabulary.end_ids == {2, 4, vocabulary.id_of["<|im_end|>"]}
        assert len(vocabulary) == 300
        answer = llm.generate("the", max_tokens=4, temperature=0, ignore_eos=True)
        assert len(answer.tokens) == 4
        assert answer.text == llm.detokenize(answer.tokens)
        chat = llm.chat([{"role": "user", "content": "the"}], max_tokens=4, temperature=0, ignore_eos=True)
        assert chat.tokens == llm.generate([1, 260, 2], max_tokens=4, temperature=0, ignore_eos=True).tokens


def test_without_a_tokenizer(tiny_folder: Callable[..., Path]) -> None:
    with open_(tiny_folder(config={"tie_word_embeddings": True})) as llm:
        answer = llm.generate([5, 6, 7], max_tokens=3, temperature=0, ignore_eos=True)
        assert len(answer.tokens) == 3
        assert answer.text == ""
        for call in (lambda: llm.generate("the"), lambda: llm.tokenize("the"), lambda: llm.detokenize([1])):
            with pytest.raises(RequestError, match="no tokenizer: give token ids"):
                call()
        with pytest.raises(RequestError, match="no chat template"):
            llm.chat([{"role": "user", "content": "the"}])


def test_ends_where_the_configuration_says(tiny_folder: Callable[..., Path]) -> None:
    with open_(tiny_folder()) as llm:
        tokens = llm.generate([5, 6], max_tokens=8, temperature=0, ignore_eos=True).tokens
    end = tokens[4]
    with open_(tiny_folder(files={"generation_config.json": {"eos_token_id": [299, end]}})) as llm:
        answer = llm.generate([5, 6], max_tokens=8, temperature=0)
    assert answer.finish_reason == "stop"
    assert answer.tokens == tokens[: tokens.index(end) + 1]


def test_a_tokenizer_of_another_model(tiny_folder: Callable[..., Path], tokenizer: str) -> None:
    with pytest.raises(ModelFileError, match="take both from the same model"):
        open_(tiny_folder(vocab=100, files={"tokenizer.json": tokenizer}))
