import threading
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wgpu_engine.errors import ContextFullError, RequestError
from wgpu_engine.text.tokenizer import MAX_CHARACTERS
from wgpu_engine.text.vocabulary import BYTE_OF_LETTER

fixtures_stay = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200, deadline=None)
SPICED = st.lists(
    st.one_of(
        st.text(max_size=8),
        st.sampled_from(
            [" ", "\n", "hello", " world", "<|im_start|>", "<|im_end|>", "<tool>", "<tool>s", "</s>", "<s>"]
        ),
    ),
    max_size=8,
).map("".join)


def names(tokenizer, text, **options):
    return [tokenizer.vocabulary.tokens[index] for index in tokenizer.encode(text, **options)]


def test_special_tokens_in_the_text_are_read_only_where_asked(bpe, make_tokenizer):
    tokenizer = make_tokenizer(bpe)
    text = "<|im_start|>hello<|im_end|>"
    assert names(tokenizer, text) == ["<|im_start|>", "hello", "<|im_end|>"]
    plain = names(tokenizer, text, parse_special=False)
    assert not {"<|im_start|>", "<|im_end|>"} & set(plain)
    assert tokenizer.decode(tokenizer.encode(text, parse_special=False)) == text


def test_user_defined_tokens_are_found_either_way_the_longest_first(bpe, make_tokenizer):
    tokenizer = make_tokenizer(bpe)
    for parse_special in (True, False):
        assert names(tokenizer, "<tool>s<tool>", parse_special=parse_special) == ["<tool>s", "<tool>"]


def test_bos_and_eos_go_round_the_text_once(spm, make_tokenizer):
    tokenizer = make_tokenizer(spm | {"tokenizer.ggml.add_eos_token": True})
    assert names(tokenizer, "hello") == ["<s>", "▁hello", "</s>"]
    assert names(tokenizer, "<s>hello</s>") == ["<s>", "▁hello", "</s>"]
    assert names(tokenizer, "hello", add_special=False) == ["▁hello"]
    assert names(tokenizer, "") == ["<s>", "</s>"]
    assert tokenizer.encode("", add_special=False) == []


def test_a_sentence_piece_text_starts_with_a_space_also_after_a_marker(spm, make_tokenizer):
    tokenizer = make_tokenizer(spm)
    assert names(tokenizer, "hello<tool>hello", add_special=False) == ["▁hello", "<tool>", "▁hello"]
    assert tokenizer.decode(tokenizer.encode("hello<tool>hello")) == "hello<tool>hello"
    without = make_tokenizer(spm | {"tokenizer.ggml.add_space_prefix": False})
    assert names(without, "hello hello", add_special=False) == ["hello", "▁hello"]
    assert without.decode(without.encode(" hello")) == " hello"


def test_word_piece_lowers_splits_and_frames(word_piece, make_tokenizer):
    tokenizer = make_tokenizer(word_piece)
    expected = ["[CLS]", "▁hello", "▁,", "▁un", "aff", "able", "▁cafe", "▁中", "[UNK]", "▁!", "[SEP]"]
    assert names(tokenizer, "Hello, UNaffable  café中 🦙!") == expected
    assert tokenizer.decode(tokenizer.encode("hello, unaffable world!")) == "hello , unaffable world !"
    assert names(tokenizer, "x" * 1_000_000) == ["[CLS]", "[UNK]", "[SEP]"]
    assert names(tokenizer, "hello [MASK]")[1:3] == ["▁hello", "[MASK]"]


def test_decode_can_show_the_special_tokens(bpe, make_tokenizer):
    tokenizer = make_tokenizer(bpe)
    ids = tokenizer.encode("<|im_start|>hello<tool><|im_end|>")
    assert tokenizer.decode(ids) == "hello<tool>"
    assert tokenizer.decode(ids, skip_special=False) == "<|im_start|>hello<tool><|im_end|>"


def test_phi3_swallows_white_space_after_its_markers(spm, make_tokenizer):
    spm["tokenizer.ggml.tokens"][-1] = "<|user|>"
    phi = make_tokenizer(spm | {"general.name": "Phi-3 mini"})
    assert names(phi, "<|user|>\n \n hello", add_special=False) == ["<|user|>", "▁hello"]
    other = make_tokenizer(spm | {"general.name": "Other"})
    assert len(other.encode("<|user|>\n hello", add_special=False)) > 2


@fixtures_stay
@given(text=SPICED, parse_special=st.booleans())
def test_byte_level_bpe_gives_the_text_back(bpe, make_tokenizer, text, parse_special):
    tokenizer = make_tokenizer(bpe)
    ids = tokenizer.encode(text, add_special=False, parse_special=parse_special)
    assert tokenizer.decode(ids, skip_special=False) == text


@fixtures_stay
@given(text=SPICED.filter(lambda text: "▁" not in text), parse_special=st.booleans())
def test_sentence_piece_gives_the_text_back(spm, make_tokenizer, text, parse_special):
    tokenizer = make_tokenizer(spm)
    ids = tokenizer.encode(text, add_special=False, parse_special=parse_special)
    assert tokenizer.decode(ids, skip_special=False) == text


def test_nul_and_odd_characters_survive(bpe, spm, make_tokenizer):
    text = "a\0b\ufeff\u2028\U0010ffff\u0301\x7f"
    for metadata in (bpe, spm):
        tokenizer = make_tokenizer(metadata)
        assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize("text", ["\ud800", "ok \udfff ok"])
def test_lone_surrogates_are_refused(bpe, make_tokenizer, text):
    with pytest.raises(RequestError, match="lone surrogate"):
        make_tokenizer(bpe).encode(text)


def test_a_megabyte_works_and_far_more_is_refused(bpe, spm, make_tokenizer):
    for metadata, repeats in ((bpe, 55_000), (spm, 10_000)):
        tokenizer, text = make_tokenizer(metadata), "hello world, <|im_ \n" * repeats
        assert tokenizer.decode(tokenizer.encode(text)) == text
    with pytest.raises(RequestError, match="split it"):
        make_tokenizer(bpe).encode("a" * (MAX_CHARACTERS + 1))


@pytest.mark.parametrize("token_id", [-1, 10_000])
def test_ids_outside_the_vocabulary_are_refused(bpe, make_tokenizer, token_id):
    with pytest.raises(RequestError, match=str(token_id)):
        make_tokenizer(bpe).decode([0, token_id])


@fixtures_stay
@given(text=SPICED)
@pytest.mark.parametrize("kind", ["bpe", "spm", "word_piece"])
def test_texts_that_fit_are_never_refused_by_their_length(request, make_tokenizer, kind, text):
    tokenizer = make_tokenizer(request.getfixturevalue(kind))
    tokenizer.check_fits(text, max(1, len(tokenizer.encode(text))))


def test_texts_far_too_long_are_refused_by_their_length(bpe, spm, word_piece, make_tokenizer):
    longest = len("<|endoftext|>")
    make_tokenizer(bpe).check_fits("a" * (10 * longest), 10)
    with pytest.raises(ContextFullError, match="at least 11 tokens and the context holds 10"):
        make_tokenizer(bpe).check_fits("a" * (10 * longest + 1), 10)
    with pytest.raises(ContextFullError, match="context of 512 tokens"):
        make_tokenizer(word_piece).check_fits(" " * 1_000_000, 512)
    bpe["tokenizer.ggml.tokens"][list(BYTE_OF_LETTER.values()).index(ord("z"))] = "another"
    make_tokenizer(bpe).check_fits("z" * 1_000_000 + "a" * 10, 1)
    with pytest.raises(ContextFullError, match="at least 2 tokens"):
        make_tokenizer(bpe).check_fits("za" * (longest + 1), 1)
    # without a token for each byte there is one for any run of unknown ones
    spm["tokenizer.ggml.tokens"][100] = "another"
    make_tokenizer(spm).check_fits("x" * 60, 10)


def test_other_threads_run_while_text_is_encoded(bpe, make_tokenizer):
    tokenizer = make_tokenizer(bpe)
    work = threading.Thread(target=tokenizer.encode, args=("hello world é " * 60_000,))
    work.start()
    turns = 0
    while work.is_alive():
        time.sleep(0.001)
        turns += 1
    assert turns > 10


def test_characters_that_are_themselves(make_tokenizer):
    """No alphabet of bytes, and neither spaces nor what the vocabulary lacks: as llama.cpp has "whitespace"."""
    merges = ["中 文", "é a"]
    tokens = ["中", "文", "é", "a", "▁", "中文", "éa"]
    chosen = {"pre": "whitespace", "tokens": tokens, "token_type": [1] * len(tokens), "merges": merges}
    metadata = {"tokenizer.ggml.model": "gpt2"} | {f"tokenizer.ggml.{key}": value for key, value in chosen.items()}
    tokenizer = make_tokenizer(metadata)
    assert tokenizer.encode("中文 éa\nx日a▁") == [5, 6, 3, 4]
    assert tokenizer.decode([5, 6, 3, 4]) == "中文éaa▁"


def test_word_piece_without_types(word_piece, make_tokenizer):
    """Then none is known for a marker, and the unknown token is still found."""
    del word_piece["tokenizer.ggml.token_type"]
    assert names(make_tokenizer(word_piece), "hello zzz")[1:-1] == ["▁hello", "[UNK]"]
