import array
import math

import pytest

from wgpu_engine.errors import ModelFileError, UnsupportedModelError
from wgpu_engine.text.vocabulary import TokenType, Vocabulary


def test_reads_byte_level_bpe(bpe):
    vocabulary = Vocabulary.from_metadata(bpe)
    end, start = vocabulary.id_of["<|im_end|>"], vocabulary.id_of["<|im_start|>"]
    assert (vocabulary.kind, vocabulary.bos_id, vocabulary.eos_id, vocabulary.unk_id) == ("gpt2", start, end, None)
    assert not vocabulary.add_bos
    assert not vocabulary.add_eos
    assert not vocabulary.add_space_prefix
    assert vocabulary.end_ids == {end, vocabulary.id_of["<|endoftext|>"]}
    assert vocabulary.is_special(end)
    assert not vocabulary.is_special(vocabulary.id_of["<tool>"])
    assert len(vocabulary) == len(bpe["tokenizer.ggml.tokens"])


def test_reads_sentence_piece_with_its_defaults(spm):
    vocabulary = Vocabulary.from_metadata(spm)
    assert (vocabulary.unk_id, vocabulary.bos_id, vocabulary.eos_id) == (0, 1, 2)
    assert vocabulary.add_bos
    assert not vocabulary.add_eos
    assert vocabulary.add_space_prefix
    assert vocabulary.end_ids == {2}


def test_reads_word_piece_with_its_defaults(word_piece):
    vocabulary = Vocabulary.from_metadata(word_piece)
    assert (vocabulary.pad_id, vocabulary.unk_id, vocabulary.bos_id, vocabulary.sep_id) == (0, 1, 2, 3)
    assert vocabulary.lowercase
    assert vocabulary.strip_accents


def test_takes_arrays_as_well_as_lists(spm):
    arrays = spm | {
        "tokenizer.ggml.token_type": array.array("i", spm["tokenizer.ggml.token_type"]),
        "tokenizer.ggml.scores": array.array("f", spm["tokenizer.ggml.scores"]),
    }
    assert list(Vocabulary.from_metadata(arrays).scores) == spm["tokenizer.ggml.scores"]


def test_flags_in_the_file_win(bpe, spm):
    asked = {f"tokenizer.ggml.{name}": True for name in ("add_bos_token", "add_eos_token")}
    vocabulary = Vocabulary.from_metadata(bpe | asked)
    assert vocabulary.add_bos
    assert vocabulary.add_eos
    denied = {f"tokenizer.ggml.{name}": False for name in ("add_bos_token", "add_space_prefix")}
    vocabulary = Vocabulary.from_metadata(spm | denied)
    assert not vocabulary.add_bos
    assert not vocabulary.add_space_prefix


def test_llama3_puts_bos_in_front(bpe):
    assert Vocabulary.from_metadata(bpe | {"tokenizer.ggml.pre": "llama-bpe"}).add_bos


def test_tokens_without_types_are_normal_but_for_the_known_markers(bpe):
    del bpe["tokenizer.ggml.token_type"]
    vocabulary = Vocabulary.from_metadata(bpe)
    assert vocabulary.types[vocabulary.id_of["hello"]] == TokenType.NORMAL
    assert vocabulary.types[vocabulary.id_of["<|im_end|>"]] == TokenType.CONTROL


def test_bytes_of_tokens(bpe, spm, word_piece):
    def token_bytes(metadata, text):
        vocabulary = Vocabulary.from_metadata(metadata)
        return vocabulary.token_bytes(vocabulary.id_of[text])

    assert token_bytes(bpe, "Ġworld") == b" world"
    assert token_bytes(bpe, "ðŁ") == b"\xf0\x9f"
    assert token_bytes(bpe, "<|im_end|>") == b"<|im_end|>"
    assert token_bytes(spm, "▁hello") == b" hello"
    assert token_bytes(spm, "<0x0A>") == b"\n"
    assert token_bytes(spm, "日") == "日".encode()
    assert token_bytes(word_piece, "▁hello") == b" hello"
    assert token_bytes(word_piece, "able") == b"able"


def test_a_token_outside_the_alphabet_stands_for_itself(bpe):
    bpe["tokenizer.ggml.tokens"].append("日本")
    bpe["tokenizer.ggml.token_type"].append(TokenType.NORMAL)
    vocabulary = Vocabulary.from_metadata(bpe)
    assert vocabulary.token_bytes(vocabulary.id_of["日本"]) == "日本".encode()


def test_ids_written_as_minus_one_are_absent(spm):
    absent = {"tokenizer.ggml.padding_token_id": 0xFFFFFFFF, "tokenizer.ggml.eot_token_id": -1}
    vocabulary = Vocabulary.from_metadata(spm | absent)
    assert vocabulary.pad_id is None
    assert vocabulary.eot_id is None


def test_html_that_looks_like_a_marker_does_not_end_an_answer(bpe):
    bpe["tokenizer.ggml.tokens"].append("</s>")
    bpe["tokenizer.ggml.token_type"].append(TokenType.NORMAL)
    vocabulary = Vocabulary.from_metadata(bpe)
    assert vocabulary.id_of["</s>"] not in vocabulary.end_ids


def test_the_end_of_a_channel_does_not_end_an_answer(bpe):
    bpe["tokenizer.ggml.tokens"] += ["<|end|>", "<|return|>", "<|call|>"]
    bpe["tokenizer.ggml.token_type"] += [TokenType.CONTROL] * 3
    end = bpe["tokenizer.ggml.tokens"].index("<|end|>")
    vocabulary = Vocabulary.from_metadata(bpe | {"tokenizer.ggml.eot_token_id": end})
    assert {vocabulary.id_of["<|return|>"], vocabulary.id_of["<|call|>"]} <= vocabulary.end_ids
    assert end not in vocabulary.end_ids


@pytest.mark.parametrize("kind", ["t5", "rwkv", "plamo2", "no_vocab", "nonsense", "whitespace"])
def test_names_the_kind_that_it_does_not_support(bpe, kind):
    with pytest.raises(UnsupportedModelError, match=repr(kind)):
        Vocabulary.from_metadata(bpe | {"tokenizer.ggml.model": kind})


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("model", 7, "tokenizer.ggml.model"),
        ("pre", 7, "tokenizer.ggml.model"),
        ("tokens", None, "tokenizer.ggml.tokens"),
        ("tokens", "abc", "tokenizer.ggml.tokens"),
        ("tokens", [], "tokenizer.ggml.tokens"),
        ("tokens", [1, 2], "tokenizer.ggml.tokens"),
        ("token_type", [1, 1], "2 entries"),
        ("token_type", 3, "token_type"),
        ("merges", None, "tokenizer.ggml.merges"),
        ("merges", [["a", "b"]], "tokenizer.ggml.merges"),
        ("bos_token_id", 100_000, "bos_token_id is 100000"),
        ("eos_token_id", -5, "eos_token_id is -5"),
        ("eos_token_id", 1.5, "eos_token_id is 1.5"),
        ("eos_token_id", True, "eos_token_id is True"),
        ("add_bos_token", 1, "add_bos_token is 1"),
    ],
)
def test_names_the_key_that_is_wrong(bpe, key, value, named):
    with pytest.raises(ModelFileError, match=named):
        Vocabulary.from_metadata(bpe | {f"tokenizer.ggml.{key}": value})


def test_refuses_types_that_gguf_does_not_define(bpe):
    bpe["tokenizer.ggml.token_type"][3] = 9
    with pytest.raises(ModelFileError, match="token_type"):
        Vocabulary.from_metadata(bpe)


@pytest.mark.parametrize("scores", [None, [0.0], [math.nan] * 285, ["0"] * 285])
def test_refuses_bad_scores(spm, scores):
    assert len(spm["tokenizer.ggml.tokens"]) == 285
    with pytest.raises(ModelFileError, match="scores"):
        Vocabulary.from_metadata(spm | {"tokenizer.ggml.scores": scores})


def test_refuses_a_token_that_is_listed_twice(bpe):
    bpe["tokenizer.ggml.tokens"][7] = bpe["tokenizer.ggml.tokens"][8]
    with pytest.raises(ModelFileError, match="twice"):
        Vocabulary.from_metadata(bpe)


def test_refuses_to_add_a_token_that_the_file_does_not_name(bpe):
    del bpe["tokenizer.ggml.bos_token_id"]
    with pytest.raises(ModelFileError, match="BOS"):
        Vocabulary.from_metadata(bpe | {"tokenizer.ggml.add_bos_token": True})
