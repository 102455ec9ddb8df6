"""Token ids against llama.cpp's, over its eight test vocabularies and a small model of 512 tokens."""

import json
import time

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from wgpu_engine.platform.tokenizers_encoder import TokenizersEncoder
from wgpu_engine.text.tokenizer import Tokenizer
from wgpu_engine.text.tokenizer_json import tokenizer_json
from wgpu_engine.text.vocabulary import BYTE_OF_LETTER, Vocabulary

NAMES = ("bert-bge", "deepseek-coder", "gpt-2", "llama-bpe", "llama-spm", "phi-3", "qwen2", "starcoder")

pytestmark = pytest.mark.conformance


@pytest.fixture(scope="module", params=NAMES)
def case(request, conformance, read_metadata, make_tokenizer):
    """A tokenizer, and pairs of a text and its ids."""
    path = conformance / "vocabularies" / f"ggml-vocab-{request.param}.gguf"
    texts = path.with_name(f"{path.name}.inp").read_text(encoding="utf-8").split("\n__ggml_vocab_test__\n")
    lines = path.with_name(f"{path.name}.out").read_text(encoding="utf-8").split("\n")
    expected = [[int(number) for number in line.split()] for line in lines]
    return make_tokenizer(read_metadata(path)), list(zip(texts, expected, strict=True))


def test_ids_are_those_of_llama_cpp(case):
    tokenizer, pairs = case
    assert len(pairs) > 40
    for text, expected in pairs:
        assert tokenizer.encode(text, add_special=False) == expected, text
        assert tokenizer.encode(text, add_special=False, parse_special=False) == expected, text


def test_decoding_gives_the_text_back(case):
    tokenizer, pairs = case
    unknown = tokenizer.vocabulary.unk_id
    for text, expected in pairs:
        if tokenizer.vocabulary.kind != "bert":
            assert tokenizer.decode(expected) == text
            assert tokenizer.decode(tokenizer.encode(text)) == text
        elif unknown not in expected:  # case, accents and spaces are lost, the tokens aren't
            assert tokenizer.encode(tokenizer.decode(expected), add_special=False) == expected


@pytest.mark.parametrize("case", [name for name in NAMES if name != "bert-bge"], indirect=True)
def test_any_text_comes_back(case):
    tokenizer, _ = case
    letters = set(tokenizer.vocabulary.tokens) if tokenizer.vocabulary.kind == "gpt2" else set(BYTE_OF_LETTER)
    bytes_ = {byte for letter, byte in BYTE_OF_LETTER.items() if letter in letters}
    assert len(bytes_) > 240

    @settings(max_examples=60, deadline=None)
    @given(st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="▁"), max_size=60))
    def comes_back(text):
        assume(bytes_ >= set(text.encode()))  # starcoder has no token for some bytes
        ids = tokenizer.encode(text, add_special=False, parse_special=False)
        assert tokenizer.decode(ids, skip_special=False) == text

    comes_back()


def test_stories_prompt_and_answer(conformance, read_metadata, make_tokenizer):
    folder = conformance / "logits"
    tokenizer = make_tokenizer(read_metadata(folder / "stories260K.gguf"))
    reference = json.loads((folder / "stories260K.llamacpp.json").read_text(encoding="utf-8"))
    assert tokenizer.decode(reference["ids"]) == reference["text"].removeprefix(" ")
    prompt = reference["ids"][: len(tokenizer.encode("Once upon a time"))]
    assert tokenizer.encode("Once upon a time") == prompt


def test_a_vocabulary_of_49_thousand_tokens_is_ready_at_once(conformance, read_metadata):
    """In less time than this Python takes to count to eight million, half a second where it is quick."""
    metadata = read_metadata(conformance / "vocabularies" / "ggml-vocab-starcoder.gguf")
    seconds, counting = [], []
    for _ in range(3):  # other tests' garbage may be collected meanwhile
        started = time.thread_time()
        vocabulary = Vocabulary.from_metadata(metadata)
        Tokenizer(vocabulary, TokenizersEncoder(tokenizer_json(vocabulary))).encode("Hello")
        seconds.append(time.thread_time() - started)
        started, count = time.thread_time(), 0
        while count < 2_000_000:
            count += 1
        counting.append(time.thread_time() - started)
    assert min(seconds) < 4 * min(counting)
