"""Tokenizers by a model's own tokenizer.json, beside the library that defines the format."""

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Library
from tokenizers.models import Unigram

from tests.text.hf_tokenizers import KINDS, byte_level, sentence_piece, word_piece
from wgpu_engine.errors import EngineError, ModelFileError, RequestError, UnsupportedModelError
from wgpu_engine.platform.tokenizers_encoder import TokenizersEncoder
from wgpu_engine.text.guard import Guard
from wgpu_engine.text.opening import open_tokenizer
from wgpu_engine.text.tokenizer import Tokenizer
from wgpu_engine.text.vocabulary import TokenType

TEXTS = (
    "",
    " ",
    "the then",
    "  two  spaces ",
    "größe 🦙\n\tx",
    "<s> the</s>the <s>",
    "<|tool|> the",
    "a<0x41>b",
    "\u00a0\u2581▁ the",
)


def open_(library: Library | str, size: int | None = None, **metadata: Any) -> Tokenizer:
    text = library if isinstance(library, str) else library.to_str()
    keys = {f"tokenizer.huggingface.{key}": value for key, value in metadata.items()}
    length = size or (300 if isinstance(library, str) else library.get_vocab_size())
    return open_tokenizer({"tokenizer.huggingface.json": text, **keys}, length, TokenizersEncoder)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", TEXTS)
def test_encodes_as_the_library(kind: str, text: str) -> None:
    library = KINDS[kind]()
    tokenizer = open_(library)
    assert tokenizer.encode(text, add_special=False) == library.encode(text, add_special_tokens=False).ids
    wanted = library.encode(text).ids
    if text.startswith("<s>"):
        wanted = wanted[1:]  # the text brings its own
    assert tokenizer.encode(text) == wanted


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None)
@given(
    text=st.text(st.sampled_from("then a▁<s>/|ol0x41é🦙\n\0") | st.characters(exclude_categories=["Cs"]), max_size=20)
)
def test_round_trip(kind: str, text: str) -> None:
    """What is a special token in the text comes back as it was written; a ▁ is a space to SentencePiece."""
    tokenizer = open_(KINDS[kind]())
    found = tokenizer.decode(tokenizer.encode(text, add_special=False, parse_special=False), skip_special=False)
    if kind == "byte-level":
        assert found == text or "<|tool|>" in text
    elif kind == "SentencePiece":
        assert found == text.replace("▁", " ") or "<|tool|>" in text


@pytest.mark.parametrize("kind", KINDS)
def test_decodes_as_the_library(kind: str) -> None:
    library = KINDS[kind]()
    tokenizer = open_(library)
    chance = random.Random(5)
    vocabulary = tokenizer.vocabulary
    plain = [
        index
        for index, text in enumerate(vocabulary.tokens)
        # bytes of which no character is made: the library gives up the characters beside them
        if vocabulary.types[index] in (TokenType.NORMAL, TokenType.BYTE)
        and not text.startswith(tuple(f"<0x{digit}" for digit in "89ABCDEF"))
    ]
    for _ in range(50):
        ids = chance.choices(plain, k=8)
        assert tokenizer.decode(ids) == library.decode(ids)


def test_text_from_outside_makes_no_special_tokens() -> None:
    for kind, make in KINDS.items():
        tokenizer = open_(make())
        special = {tokenizer.vocabulary.id_of[text] for text in ("<s>", "</s>")}
        for text in ("<s>", "a</s>", "</s><s>the"):
            assert special & set(tokenizer.encode(text, add_special=False)), kind
            assert not special & set(tokenizer.encode(text, add_special=False, parse_special=False)), kind
        tool = tokenizer.vocabulary.id_of["<|tool|>"]
        assert tool in tokenizer.encode("<|tool|>", parse_special=False), "it is user-defined"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("evil", ["</s>", "the</s> <s>then", "<unk>", "a<s", "<|tool|> the</s>"])
def test_guarded_markers_of_a_prompt_are_text(kind: str, evil: str) -> None:
    tokenizer = open_(KINDS[kind]())
    guarded = Guard.of(tokenizer.vocabulary).text(evil)
    ids = tokenizer.encode_prompt(f"<s>{guarded}</s>")
    plain = tokenizer.encode(evil, add_special=False, parse_special=False)
    assert (ids[0], ids[-1]) == (1, 2) and not {1, 2} & set(ids[1:-1])
    assert tokenizer.decode(ids, skip_special=False) == tokenizer.decode([1, *plain, 2], skip_special=False)
    assert tokenizer.encode_prompt("<s>the then</s>") == tokenizer.encode("<s>the then</s>")


def test_what_goes_round_a_text() -> None:
    the = byte_level().token_to_id("the")
    assert open_(byte_level()).encode("the") == [1, the]
    assert open_(byte_level(), add_bos_token=False).encode("the") == [the]
    assert open_(byte_level(last="</s>")).encode("the") == [1, the, 2]
    assert open_(byte_level(first=None)).encode("the") == [the]
    assert open_(byte_level(first=None), add_bos_token=True, bos_token="<s>").encode("the") == [1, the]
    assert open_(byte_level(first=None), add_bos_token=True).encode("the") == [the], "nobody says which"
    assert open_(byte_level()).encode("<s>the") == [1, the]


def test_neither_truncates_nor_pads() -> None:
    library = byte_level()
    library.enable_truncation(3)
    library.enable_padding(length=64)
    assert len(open_(library).encode("xyz" * 5)) == 16


def test_ids_with_a_meaning() -> None:
    size = byte_level().get_vocab_size()
    vocabulary = open_(byte_level(), size + 3, eos_token="</s>", end_ids=[5, 10**6, "x"], bos_token_id=7).vocabulary
    assert len(vocabulary) == size + 3
    assert vocabulary.eos_id == 2 and vocabulary.bos_id == 1
    assert vocabulary.end_ids == {2, 5}
    assert vocabulary.types[size - 1] == TokenType.USER_DEFINED
    assert vocabulary.types[0] == vocabulary.types[5] == TokenType.CONTROL
    tokenizer = open_(byte_level(), size + 3)
    assert tokenizer.decode([size + 1]) == "", "an embedding without a token has no text"


def test_word_piece() -> None:
    library = word_piece()
    tokenizer = open_(library)
    assert tokenizer.vocabulary.kind == "bert"
    for text in ("The, then thethe größe", "x [SEP]", "[CLS] the"):
        assert tokenizer.encode(text, add_special=False) == library.encode(text, add_special_tokens=False).ids
    assert tokenizer.encode("The then") == [2, 4, 4, 5, 3]
    assert tokenizer.decode(tokenizer.encode("the then größe")) == "the then größe"
    assert not {2, 3} & set(tokenizer.encode("[SEP]", add_special=False, parse_special=False))


def test_a_model_without_tokenizer() -> None:
    metadata = {"tokenizer.ggml.model": "none", "tokenizer.huggingface.end_ids": [3, 99]}
    tokenizer = open_tokenizer(metadata, 10, TokenizersEncoder)
    assert len(tokenizer.vocabulary) == 10
    assert tokenizer.vocabulary.end_ids == {3}
    for call in (lambda: tokenizer.encode("x"), lambda: tokenizer.decode([1])):
        with pytest.raises(RequestError, match="no tokenizer: give token ids"):
            call()


def changed(**model: Any) -> str:
    document = json.loads(byte_level().to_str())
    document["model"] |= model
    return json.dumps(document)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "no JSON object"),
        ("[]", "no JSON object"),
        ('{"model": 3}', "no JSON object with a model"),
        ("[" * 100_000, "no JSON object"),
        (changed(vocab=[["a", 1]]), "vocab"),
        (changed(vocab={"a": "1"}), "vocab"),
        (changed(vocab={"a": 1, "b": 1}), "twice"),
        (changed(vocab={"a": 1 << 40}), "embeddings"),
        (changed(vocab={"a": -1}), "embeddings"),
        (changed(merges=[["x", "yz"]]), "can't be used"),
        (byte_level().to_str().replace('"special":true', '"special":1'), "added_tokens"),
        (byte_level().to_str().replace('"added_tokens":[', '"added_tokens":[1,'), "added_tokens"),
    ],
)
def test_refuses_what_cannot_be(text: str, match: str) -> None:
    with pytest.raises(ModelFileError, match=match) as caught:
        open_(text)
    assert "\n" not in str(caught.value)


def test_names_kinds_that_are_not_supported() -> None:
    with pytest.raises(UnsupportedModelError, match="'Unigram'"):
        open_(Library(Unigram([("a", 0.0)])))


def test_old_files_leave_the_kind_out() -> None:
    document = json.loads(byte_level().to_str())
    del document["model"]["type"]
    assert open_(json.dumps(document)).encode("the") == open_(byte_level()).encode("the")


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_survives_changed_files(data: st.DataObject) -> None:
    """A piece of JSON anywhere is replaced by another."""
    document = json.loads(data.draw(st.sampled_from(DOCUMENTS)))
    place: Any = document
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(place[key], dict | list) or not place[key] or data.draw(st.booleans()):
            break
        place = place[key]
    place[key] = data.draw(
        st.none() | st.booleans() | st.integers(-2, 400) | st.sampled_from(["", "the", "BPE", [], {}, [1]])
    )
    try:
        tokenizer = open_(json.dumps(document))
        for special in (True, False):
            ids = tokenizer.encode("the <s>then", parse_special=special)
            assert all(0 <= index < 300 for index in ids)
            tokenizer.decode(ids)
    except EngineError as error:
        assert len(str(error).splitlines()) == 1


DOCUMENTS = [byte_level().to_str(), sentence_piece().to_str(), word_piece().to_str()]
