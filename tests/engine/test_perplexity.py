"""Perplexity on the device against NumPy, and comparisons between runs."""

import math
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from wgpu_engine import LLM
from wgpu_engine.engine.kl_base import BaseHeader, BaseReader, BaseWriter
from wgpu_engine.engine.perplexity import Estimate, Scores, Window, check_windows, measure, windows
from wgpu_engine.errors import ContextFullError, DeviceError, ModelFileError, RequestError

TEXT = "Once upon a time, there was a little girl named Lily. She loved to play with her toys in the park. " * 12


def wanted_nll(llm: LLM, ids: list[int], plan: list[Window]) -> list[float]:
    """From all the logits of each window, in float64."""
    found = []
    for window in plan:
        text = [llm.tokenizer.vocabulary.bos_id, *ids[window.start + 1 : window.stop]]
        logits = llm.logits(text).astype(np.float64)
        for token in range(window.first - window.start, len(text)):
            row = logits[token - 1] - logits[token - 1].max()
            found.append(math.log(np.exp(row).sum()) - row[text[token]])
    return found


def last(steps: object) -> Scores:
    *_, scores = steps  # type: ignore[misc]
    return scores


# windows


def test_half_of_each_window_counts() -> None:
    assert list(windows(23, 8)) == [Window(0, 8, 5), Window(8, 16, 13)]
    assert [window.counted for window in windows(23, 8)] == [3, 3]
    assert next(windows(10, 5)) == Window(0, 5, 3)


@pytest.mark.parametrize(("tokens", "ctx_size", "stride"), [(23, 8, 3), (16, 8, 8), (24, 8, 1), (17, 8, 5)])
def test_with_a_stride_every_token_counts_once(tokens: int, ctx_size: int, stride: int) -> None:
    plan = list(windows(tokens, ctx_size, stride))
    counted = [token for window in plan for token in range(window.first, window.stop)]
    firsts = {window.start for window in plan if window.first == window.start + 1}
    assert counted == [token for token in range(tokens) if token not in firsts or (stride < ctx_size and token)]
    assert all(window.start == i * stride and window.stop - window.start <= ctx_size for i, window in enumerate(plan))
    assert plan[-1].stop == tokens and all(window.stop < tokens for window in plan[:-1])


@pytest.mark.parametrize(
    ("tokens", "ctx_size", "stride", "said"),
    [
        (99, 50, None, "at least 100 tokens, or a --ctx-size of at most 49"),
        (3, 50, None, "at least 100 tokens$"),
        (99, 3, None, "give at least 4"),
        (99, 8, 9, "from 1 to the context of 8"),
        (99, 50, 10, "at least 100 tokens"),
    ],
)
def test_what_can_not_be_is_refused(tokens: int, ctx_size: int, stride: int | None, said: str) -> None:
    with pytest.raises(RequestError, match=said):
        check_windows(tokens, ctx_size, stride)
    check_windows(100, 50, 50)


def test_errors_are_those_of_the_mean() -> None:
    values = [0.5, 2.0, 3.25, 1.0]
    found = Estimate.of(values)
    assert found.value == pytest.approx(1.6875)
    assert found.error == pytest.approx(np.std(values, ddof=1) / 2)
    assert found.exp().value == pytest.approx(math.exp(1.6875))
    assert found.exp().error == pytest.approx(math.exp(1.6875) * found.error)
    assert Estimate.of([7.0]) == Estimate(7.0, 0.0)


# on a device


@pytest.mark.conformance
@pytest.mark.parametrize(("ctx_size", "stride"), [(64, None), (96, 40)])
def test_is_that_of_numpy(tale: LLM, ctx_size: int, stride: int | None) -> None:
    ids = tale.tokenizer.encode(TEXT, parse_special=False)
    plan = list(islice(windows(len(ids), ctx_size, stride), 4))
    scores = last(measure(tale, ids, plan))
    wanted = wanted_nll(tale, ids, plan)
    np.testing.assert_allclose(scores.nll, wanted, atol=4e-6)
    assert scores.perplexity.value == pytest.approx(math.exp(np.mean(wanted)), rel=1e-6)
    error = np.std(wanted, ddof=1) / math.sqrt(len(wanted))
    assert scores.perplexity.error == pytest.approx(error * math.exp(np.mean(wanted)), rel=1e-5)
    assert scores.windows == 4 and scores.tokens_read == sum(window.stop - window.start for window in plan)
    assert 1 < scores.perplexity.value < 40, "it tells such stories itself"


def test_log_probs_are_those_of_the_logits(tiny: LLM) -> None:
    """Over several steps, from the first token on and from a later one."""
    ids = [1, *(3 + i * 7 % 250 for i in range(299))]
    logits = tiny.logits(ids).astype(np.float64)
    rows = logits - logits.max(axis=1, keepdims=True)
    wanted = (rows - np.log(np.exp(rows).sum(axis=1, keepdims=True)))[np.arange(299), ids[1:]]
    np.testing.assert_allclose(tiny.log_probs(ids), wanted, atol=4e-6)
    np.testing.assert_allclose(tiny.log_probs(ids, 200), wanted[199:], atol=4e-6)
    assert tiny.log_probs(ids, 300) == [] and tiny.log_probs([1]) == []
    np.testing.assert_array_equal(np.concatenate(list(tiny.logit_rows(ids, 200))), tiny.logits(ids)[200:])


def test_log_probs_refuse_what_generate_refuses(tiny: LLM) -> None:
    for ids, first, error in (
        ([], 1, RequestError),
        ([1, 10**6], 1, RequestError),
        ([1] * 641, 1, ContextFullError),
        ([1, 2], 0, RequestError),
    ):
        with pytest.raises(error):
            tiny.log_probs(ids, first)
    assert len(tiny.log_probs([1] * 640)) == 639


def test_generation_goes_on_after_log_probs(tiny: LLM) -> None:
    before = tiny.generate([1, 80, 90], temperature=0.0, max_tokens=5).tokens
    tiny.log_probs([1, 70, 71, 72])
    assert tiny.generate([1, 80, 90], temperature=0.0, max_tokens=5).tokens == before


@pytest.mark.usefixtures("no_kernel_check")
def test_a_wrong_kernel_is_found_before_it_is_used(
    tiny_llama: Callable[..., Path], spoil: Callable[[str, str, str], None]
) -> None:
    spoil("sample/log_prob", "logits[first + unit], inside)", "logits[first + unit] * 1.01, inside)")
    with LLM(tiny_llama(), ctx_size=64) as llm, pytest.raises(DeviceError, match="log probability fails its check"):
        llm.log_probs([1, 2, 3])


@pytest.mark.usefixtures("no_kernel_check")
def test_a_model_that_gives_no_numbers_is_told(tiny_llama: Callable[..., Path], tmp_path: Path) -> None:
    broken = tiny_llama(tensors={"output_norm.weight": np.full(64, np.nan, np.float32)})
    with LLM(broken, ctx_size=32) as llm:
        ids = llm.tokenize("the " * 30)
        with pytest.raises(ModelFileError, match="NaN"):
            last(measure(llm, ids, [Window(0, 8, 5)]))
        with write(tmp_path / "x.kl", llm, ids, 8) as writer, pytest.raises(ModelFileError, match="NaN"):
            last(measure(llm, ids, [Window(0, 8, 5)], writer=writer))


# comparisons


def write(path: Path, llm: LLM, ids: list[int], ctx_size: int, stride: int | None = None) -> BaseWriter:
    return BaseWriter(path, BaseHeader("a model", llm.description.vocab, ctx_size, stride, len(ids), 0, 0), ids)


def test_a_run_is_no_way_from_itself(tiny: LLM, tmp_path: Path) -> None:
    ids = tiny.tokenize("the other one in the net and then some more of it")
    plan = list(windows(len(ids), 16))
    with write(tmp_path / "base.kl", tiny, ids, 16) as writer:
        alone = last(measure(tiny, ids, plan, writer=writer))
        writer.commit()
    with BaseReader(tmp_path / "base.kl") as base:
        base.check(ids, tiny.description.vocab, 16, None)
        assert (base.header.windows, base.header.rows) == (len(plan), sum(window.counted for window in plan))
        scores = last(measure(tiny, ids, plan, base=base))
    assert scores.nll == alone.nll and scores.comparison is not None
    found = scores.comparison.summary()
    assert 0 <= found.kl[0] < 1e-7 and found.same == (1.0, 0.0)
    assert found.ratio[0] == pytest.approx(1, abs=1e-6) and found.change_rms < 1e-7
    np.testing.assert_allclose(scores.nll, last(measure(tiny, ids, plan)).nll, atol=4e-6)


def test_another_model_is_some_way_off(tiny: LLM, tiny_llama: Callable[..., Path], tmp_path: Path) -> None:
    """As far as all the logits say."""
    ids = tiny.tokenize("the other one in the net and then some more")
    plan = [Window(0, 16, 9)]
    with write(tmp_path / "base.kl", tiny, ids, 16) as writer:
        last(measure(tiny, ids, plan, writer=writer))
        writer.commit()
    with LLM(tiny_llama(seed=2), precision="exact", ctx_size=64) as other, BaseReader(tmp_path / "base.kl") as base:
        scores = last(measure(other, ids, plan, base=base))
        rows = [llm.logits(ids[:16])[8:15].astype(np.float64) for llm in (tiny, other)]
    p, q = (row - np.log(np.exp(row).sum(axis=1, keepdims=True)) for row in rows)
    kl = (np.exp(p) * (p - q)).sum(axis=1)
    assert scores.comparison is not None
    found = scores.comparison.summary()
    assert found.kl[0] == pytest.approx(kl.mean(), rel=1e-5) and found.kl[0] > 0.05
    assert found.kl_quantiles["maximum"] == pytest.approx(kl.max(), rel=1e-5)
    assert found.same[0] == np.mean(p.argmax(axis=1) == q.argmax(axis=1))
