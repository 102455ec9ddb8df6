import pytest
from hypothesis import given
from hypothesis import strategies as st

from wgpu_engine.errors import RequestError
from wgpu_engine.text.stop import StopStrings

STOPS = st.lists(st.text(alphabet="ab\n", min_size=1, max_size=5), max_size=4)
CHUNKS = st.lists(st.text(alphabet="abc\n", max_size=6), max_size=12)


def run(stops, chunks):
    filter_ = StopStrings(stops)
    pushed = [filter_.push(chunk) for chunk in chunks]
    shown = "".join(text for text, _ in pushed) + filter_.finish()
    stopped = [stopped for _, stopped in pushed]
    assert stopped == sorted(stopped), "once stopped, always stopped"
    return shown, any(stopped)


def first_stop(stops, text):
    """Where the stop string that is complete first begins, or None; read letter by letter."""
    for end in range(len(text) + 1):
        starts = [end - len(stop) for stop in stops if text[:end].endswith(stop)]
        if starts:
            return min(starts)
    return None


@given(STOPS, CHUNKS)
def test_text_stops_before_the_first_stop_string_however_it_is_cut(stops, chunks):
    text = "".join(chunks)
    at = first_stop(stops, text)
    assert run(stops, chunks) == ((text, False) if at is None else (text[:at], True))


def test_only_what_may_become_a_stop_string_is_held():
    filter_ = StopStrings(["</answer>"])
    assert filter_.push("so it is <") == ("so it is ", False)
    assert filter_.push("/ans") == ("", False)
    assert filter_.push("wers> and") == ("</answers> and", False)
    assert filter_.push("</answer>, and more") == ("", True)
    assert filter_.push("later") == ("", True)
    assert filter_.finish() == ""


@pytest.mark.parametrize("stops", [[""], ["a" * 1025], ["x"] * 65])
def test_silly_stop_strings_are_refused(stops):
    with pytest.raises(RequestError, match="stop"):
        StopStrings(stops)
