import json
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wgpu_engine.errors import ModelFileError
from wgpu_engine.platform.tokenizers_encoder import TokenizersEncoder
from wgpu_engine.text.tokenizer_json import tokenizer_json
from wgpu_engine.text.vocabulary import Vocabulary

fixtures_stay = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300, deadline=None)


def greedy_by_score(text, vocabulary):
    """SentencePiece's BPE in so many words: join the neighbours that make the best token, the leftmost first."""
    symbols = list(text.replace(" ", "▁"))
    scores = dict(zip(vocabulary.tokens, vocabulary.scores, strict=True))
    while True:
        pairs = [(scores[a + b], -at) for at, (a, b) in enumerate(pairwise(symbols)) if a + b in scores]
        if not pairs:
            break
        at = -max(pairs)[1]
        symbols[at : at + 2] = [symbols[at] + symbols[at + 1]]
    names = []
    for symbol in symbols:
        names += [symbol] if symbol in scores else [f"<0x{byte:02X}>" for byte in symbol.encode()]
    return names


@fixtures_stay
@given(text=st.text(alphabet="abceéhlo 日x\n", max_size=40))
def test_scores_become_merges(spm, text):
    vocabulary = Vocabulary.from_metadata(spm)
    encoder = TokenizersEncoder(tokenizer_json(vocabulary))
    assert [vocabulary.tokens[index] for index in encoder.encode(text)] == greedy_by_score(text, vocabulary)


@fixtures_stay
@given(data=st.data())
def test_scores_become_merges_in_any_vocabulary(spm, data):
    pieces = data.draw(st.lists(st.text(alphabet="abc", min_size=2, max_size=6), unique=True, max_size=30))
    tokens = [*spm["tokenizer.ggml.tokens"][:259], "a", "b", "c", "▁", *pieces]
    order = data.draw(st.permutations(range(len(pieces))))
    vocabulary = Vocabulary.from_metadata(
        {
            "tokenizer.ggml.model": "llama",
            "tokenizer.ggml.tokens": tokens,
            "tokenizer.ggml.token_type": [*spm["tokenizer.ggml.token_type"][:259], *[1] * (len(tokens) - 259)],
            "tokenizer.ggml.scores": [0.0] * 263 + [-float(place) for place in order],
        }
    )
    text = data.draw(st.text(alphabet="abc", max_size=30))
    encoder = TokenizersEncoder(tokenizer_json(vocabulary))
    assert [vocabulary.tokens[index] for index in encoder.encode(text)] == greedy_by_score(text, vocabulary)


def test_merges_apply_in_their_order(bpe):
    vocabulary = Vocabulary.from_metadata(bpe)
    encoder = TokenizersEncoder(tokenizer_json(vocabulary))
    assert [vocabulary.tokens[index] for index in encoder.encode("hello world12")] == ["hello", "Ġworld", "12"]


def test_merges_of_missing_tokens_are_left_out(bpe):
    bpe["tokenizer.ggml.merges"] += ["z z", "broken", "", " ", "hello <none>"]
    merges = json.loads(tokenizer_json(Vocabulary.from_metadata(bpe)))["model"]["merges"]
    assert merges == bpe["tokenizer.ggml.merges"][:13]


def test_whole_words_skip_the_merges_where_llama3_does(bpe):
    bpe["tokenizer.ggml.tokens"].append("zebra")
    bpe["tokenizer.ggml.token_type"].append(1)
    by_merges = TokenizersEncoder(tokenizer_json(Vocabulary.from_metadata(bpe)))
    whole = TokenizersEncoder(tokenizer_json(Vocabulary.from_metadata(bpe | {"tokenizer.ggml.pre": "llama-bpe"})))
    assert len(by_merges.encode("zebra")) == 5
    assert len(whole.encode("zebra")) == 1


def test_plain_text_never_yields_a_control_token(spm):
    vocabulary = Vocabulary.from_metadata(spm)
    model = json.loads(tokenizer_json(vocabulary))["model"]
    assert not {"<s>", "</s>"} & set(model["vocab"])


def test_a_monstrous_piece_takes_no_time(spm):
    spm["tokenizer.ggml.tokens"][-1] = "a" * 1_000_000
    assert "aaaa" in json.loads(tokenizer_json(Vocabulary.from_metadata(spm)))["model"]["vocab"]


def test_word_piece_needs_its_unknown_token(word_piece):
    del word_piece["tokenizer.ggml.unknown_token_id"]
    with pytest.raises(ModelFileError, match="unknown token"):
        tokenizer_json(Vocabulary.from_metadata(word_piece))


def test_the_library_refusing_is_a_sentence():
    with pytest.raises(ModelFileError, match="tokenizer of this model"):
        TokenizersEncoder('{"model": {"type": "BPE"}}')
