from hypothesis import given
from hypothesis import strategies as st

from wgpu_engine.text.special_tokens import SpecialTokens


def test_the_leftmost_then_the_longest_is_taken():
    special = SpecialTokens({"<a": 1, "<a>": 2, "a><b": 3, "  ": 4, "    ": 5})
    assert list(special.split("x<a><b     y<a")) == ["x", 2, "<b", 5, " y", 1]


def test_nothing_to_find():
    assert list(SpecialTokens({}).split("text")) == ["text"]
    assert list(SpecialTokens({"<a>": 1}).split("")) == []
    assert list(SpecialTokens({"]": 1, "^": 2, "-": 3, "\\": 4}).split("a]^-\\b")) == ["a", 1, 2, 3, 4, "b"]


def test_white_space_after_some_tokens_is_dropped():
    special = SpecialTokens({"<a>": 1, "<b>": 2}, strip_after={1})
    assert list(special.split("<a> \n x<b> y<a>  ")) == [1, "x", 2, " y", 1]


@given(
    st.lists(st.text(alphabet="ab<", min_size=1, max_size=4), unique=True, max_size=6),
    st.text(alphabet="ab< ", max_size=40),
)
def test_pieces_add_up_and_no_token_is_left_in_front_of_another(tokens, text):
    special = SpecialTokens({token: index for index, token in enumerate(tokens)})
    pieces = list(special.split(text))
    assert "".join(piece if isinstance(piece, str) else tokens[piece] for piece in pieces) == text
    for piece in pieces:
        if isinstance(piece, str):
            assert piece
            assert not any(token in piece for token in tokens)
