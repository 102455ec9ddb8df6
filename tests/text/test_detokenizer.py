import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wgpu_engine.errors import RequestError
from wgpu_engine.text.detokenizer import Detokenizer

fixtures_stay = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200, deadline=None)


@pytest.fixture(params=["bpe", "spm", "word_piece"])
def tokenizer(request, make_tokenizer):
    return make_tokenizer(request.getfixturevalue(request.param))


@fixtures_stay
@given(data=st.data(), skip_special=st.booleans())
def test_pushes_add_up_to_decode(tokenizer, data, skip_special):
    ids = data.draw(st.lists(st.integers(0, len(tokenizer.vocabulary) - 1), max_size=30))
    detokenizer = Detokenizer(tokenizer, skip_special=skip_special)
    text = "".join(detokenizer.push(token_id) for token_id in ids) + detokenizer.finish()
    assert text == tokenizer.decode(ids, skip_special)


@fixtures_stay
@given(data=st.data())
def test_the_text_is_that_of_the_tokens_bytes(bpe, make_tokenizer, data):
    tokenizer = make_tokenizer(bpe)
    ids = data.draw(st.lists(st.integers(0, len(tokenizer.vocabulary) - 1), max_size=30))
    joined = b"".join(map(tokenizer.vocabulary.token_bytes, ids))
    assert tokenizer.decode(ids, skip_special=False) == joined.decode("utf-8", "replace")


@fixtures_stay
@given(text=st.text(alphabet="aé日🦙👨\u200d👩 \n", max_size=20))
def test_no_half_character_comes_out(bpe, spm, make_tokenizer, text):
    for metadata in (bpe, spm):
        tokenizer = make_tokenizer(metadata)
        detokenizer = Detokenizer(tokenizer)
        pieces = [detokenizer.push(token_id) for token_id in tokenizer.encode(text)]
        assert "".join(pieces) == text
        assert detokenizer.finish() == ""


def test_a_character_that_never_comes_whole_is_replaced_at_the_end(bpe, make_tokenizer):
    tokenizer = make_tokenizer(bpe)
    detokenizer = Detokenizer(tokenizer)
    assert [detokenizer.push(token_id) for token_id in tokenizer.encode("🦙")[:-1]] == ["", ""]
    assert detokenizer.finish() == "\N{REPLACEMENT CHARACTER}"


def test_the_first_space_stays_where_the_text_goes_on(spm, make_tokenizer):
    tokenizer = make_tokenizer(spm)
    hello, marker = tokenizer.vocabulary.id_of["▁hello"], tokenizer.vocabulary.eos_id
    assert Detokenizer(tokenizer).push(hello) == "hello"
    assert Detokenizer(tokenizer, after=marker).push(hello) == "hello"
    assert Detokenizer(tokenizer, after=hello).push(hello) == " hello"


def test_an_id_outside_the_vocabulary_is_refused(bpe, make_tokenizer):
    with pytest.raises(RequestError, match="outside the vocabulary"):
        Detokenizer(make_tokenizer(bpe)).push(-1)
