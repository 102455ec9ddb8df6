"""How far one model's predictions are from another's over the same text: Kullback-Leibler divergence and its kin.

What is measured, and how errors are carried over: llama.cpp, tools/perplexity (`--kl-divergence`).
"""

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

QUANTILES = (0.999, 0.99, 0.95, 0.9, 0.5, 0.1, 0.05, 0.01, 0.001)


@dataclass(frozen=True)
class Predictions:
    """A base's predictions at some positions."""

    log_probs: "NDArray[np.float64]"
    """natural logarithms of probabilities [positions, vocab]"""
    found: "NDArray[np.float64]"
    """of the tokens that came [positions]"""
    likeliest: "NDArray[np.intp]"
    """the token of the largest probability [positions]"""


@dataclass
class Comparison:
    """Two runs, position by position: pieces of arrays, one for each `add`."""

    kl: "list[NDArray[np.float64]]" = field(default_factory=list)
    """KL(base, this) in nats"""
    nll: "list[NDArray[np.float64]]" = field(default_factory=list)
    base_nll: "list[NDArray[np.float64]]" = field(default_factory=list)
    same: "list[NDArray[np.bool_]]" = field(default_factory=list)
    """whether both find the same token likeliest"""

    def add(self, base: Predictions, log_probs: "NDArray[np.float64]", tokens: "NDArray[np.intp]") -> None:
        """Takes further positions: logarithms of probabilities [positions, vocab], and the tokens that came."""
        import numpy

        self.kl.append(divergence(base.log_probs, log_probs))
        self.nll.append(-log_probs[numpy.arange(len(tokens)), tokens])
        self.base_nll.append(-base.found)
        self.same.append(base.likeliest == log_probs.argmax(axis=1))

    def summary(self) -> "Summary":
        """All positions together."""
        import numpy

        nll, base_nll = numpy.concatenate(self.nll), numpy.concatenate(self.base_nll)
        kl, same = numpy.concatenate(self.kl), numpy.concatenate(self.same)
        change = numpy.exp(-nll) - numpy.exp(-base_nll)
        mean, base_mean = float(nll.mean()), float(base_nll.mean())
        ratio = math.exp(mean - base_mean)
        return Summary(
            positions=len(kl),
            base_perplexity=(math.exp(base_mean), math.exp(base_mean) * _error(base_nll)),
            # both runs stumble at the same places, so the error of the difference is far below that of either
            ratio=(ratio, ratio * _error(nll - base_nll)),
            kl=(float(kl.mean()), _error(kl)),
            kl_quantiles=_quantiles(kl),
            change=(float(change.mean()), _error(change)),
            change_rms=float(numpy.sqrt((change**2).mean())),
            change_quantiles=_quantiles(change),
            same=(float(same.mean()), _error(same.astype(numpy.float64))),
        )


@dataclass(frozen=True)
class Summary:
    """Pairs are a mean and its standard error."""

    positions: int
    base_perplexity: tuple[float, float]
    ratio: tuple[float, float]
    """of this perplexity to the base's"""
    kl: tuple[float, float]
    """nats"""
    kl_quantiles: dict[str, float]
    """by "maximum", "99.9 %" … "minimum" """
    change: tuple[float, float]
    """of the probability of the token that came"""
    change_rms: float
    change_quantiles: dict[str, float]
    same: tuple[float, float]
    """share of positions where both find the same token likeliest"""


def log_softmax(logits: "NDArray[np.float32]") -> "NDArray[np.float64]":
    """Logarithms of probabilities in float64, of rows of logits."""
    import numpy

    result = logits.astype(numpy.float64)
    result -= result.max(axis=1, keepdims=True)
    result -= numpy.log(numpy.exp(result).sum(axis=1, keepdims=True))
    return result


def divergence(base: "NDArray[np.float64]", other: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """KL(base, other) in nats of each row, of logarithms of probabilities [rows, vocab]."""
    import numpy

    return numpy.asarray((numpy.exp(base) * (base - other)).sum(axis=1))


def _error(values: "NDArray[np.float64]") -> float:
    """The standard error of the mean."""
    return float(values.std()) / math.sqrt(len(values) - 1) if len(values) > 1 else 0.0


def _quantiles(values: "NDArray[np.float64]") -> dict[str, float]:
    import numpy

    found = numpy.quantile(values, (1, *QUANTILES, 0))
    names = ("maximum", *(f"{100 * quantile:g} %" for quantile in QUANTILES), "minimum")
    return dict(zip(names, map(float, found), strict=True))
