"""How far predictions are apart, against direct formulas."""

import math

import numpy as np
import pytest

from wgpu_engine.engine.divergence import Comparison, Predictions, divergence, log_softmax

COUNT, VOCAB = 40, 30


@pytest.fixture
def pair(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two runs' logarithms of probabilities [COUNT, VOCAB], and the tokens that came."""
    logits = rng.standard_normal((COUNT, VOCAB)).astype(np.float32)
    other = logits + rng.standard_normal((COUNT, VOCAB)).astype(np.float32) / 4
    return log_softmax(logits), log_softmax(other), rng.integers(0, VOCAB, COUNT)


def test_log_softmax(rng: np.random.Generator) -> None:
    logits = (rng.standard_normal((3, 9)) * 30 + 1000).astype(np.float32)
    found = log_softmax(logits)
    np.testing.assert_allclose(np.exp(found).sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(found - found[:, :1], logits.astype(np.float64) - logits[:, :1], atol=1e-12)


def test_divergence(pair: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    p, q, _ = pair
    wanted = [sum(math.exp(a) * (a - b) for a, b in zip(*rows, strict=True)) for rows in zip(p, q, strict=True)]
    np.testing.assert_allclose(divergence(p, q), wanted, rtol=1e-12)
    assert np.abs(divergence(p, p)).max() == 0


def test_the_summary_is_of_all_pieces(pair: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    p, q, tokens = pair
    comparison = Comparison()
    for piece in (slice(0, 7), slice(7, 8), slice(8, COUNT)):
        rows = p[piece]
        base = Predictions(rows, rows[np.arange(len(rows)), tokens[piece]], rows.argmax(axis=1))
        comparison.add(base, q[piece], tokens[piece])
    found = comparison.summary()
    base_nll, nll = (-rows[np.arange(COUNT), tokens] for rows in (p, q))
    kl, change = divergence(p, q), np.exp(-nll) - np.exp(-base_nll)

    def error(values: np.ndarray) -> float:
        return float(np.std(values, ddof=1) / math.sqrt(COUNT))

    assert found.positions == COUNT
    assert found.base_perplexity == pytest.approx((np.exp(base_nll.mean()), np.exp(base_nll.mean()) * error(base_nll)))
    ratio = np.exp(nll.mean()) / np.exp(base_nll.mean())
    # the variance of a difference, by way of the covariance
    spread = np.cov(nll, base_nll) / COUNT
    assert found.ratio == pytest.approx((ratio, ratio * math.sqrt(spread[0, 0] + spread[1, 1] - 2 * spread[0, 1])))
    assert found.kl == pytest.approx((kl.mean(), error(kl)))
    assert found.change == pytest.approx((change.mean(), error(change)))
    assert found.change_rms == pytest.approx(math.sqrt((change**2).mean()))
    share = float((p.argmax(axis=1) == q.argmax(axis=1)).mean())
    assert found.same == pytest.approx((share, math.sqrt(share * (1 - share) / (COUNT - 1))))
    assert found.kl_quantiles["maximum"] == kl.max() and found.kl_quantiles["50 %"] == pytest.approx(np.median(kl))
    assert found.change_quantiles["minimum"] == change.min()
    assert list(found.kl_quantiles)[1:-1] == ["99.9 %", "99 %", "95 %", "90 %", "50 %", "10 %", "5 %", "1 %", "0.1 %"]
