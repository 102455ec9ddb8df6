"""Models in folders, as transformers writes them: tokenizers, templates and where answers end."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from numpy.typing import NDArray
from tokenizers import Tokenizer as Library
from tokenizers import decoders, pre_tokenizers
from tokenizers.models import BPE

from tests.models.hf_models import config_of, write_folder
from wgpu_engine import LLM
from wgpu_engine.errors import ModelFileError, RequestError
from wgpu_engine.text.vocabulary import BYTE_OF_LETTER

Array = NDArray[Any]


def open_(path: Path) -> LLM:
    return LLM(path, precision="exact", kv_type="f32", ctx_size=64)


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


def test_fewer_layers_than_the_folder_holds(tmp_path: Path) -> None:
    """It would run, and write nonsense."""
    folder = write_folder(tmp_path, config_of("LlamaForCausalLM"))
    config = folder / "config.json"
    config.write_text(config.read_text().replace('"num_hidden_layers": 2', '"num_hidden_layers": 1'))
    with pytest.raises(ModelFileError, match=r"2 layers and its settings tell of 1: set .* \(num_hidden_layers in"):
        open_(folder)
