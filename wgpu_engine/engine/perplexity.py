"""Perplexity of a text: how surprised a model is by its tokens, window by window.

Desktop only: NumPy does the arithmetic, in float64, and is imported where it is used.
"""

import math
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wgpu_engine.engine.divergence import Comparison, log_softmax
from wgpu_engine.engine.kl_base import BaseReader, BaseWriter
from wgpu_engine.errors import ModelFileError, RequestError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from wgpu_engine.engine.llm import LLM

SMALLEST_CONTEXT = 4
"""tokens, so that the second half of a window has one to predict"""
_ROWS = 32
"""positions in float64 at once"""


@dataclass(frozen=True)
class Window:
    """Tokens start..stop of a text, read together."""

    start: int
    stop: int
    first: int
    """the first token that counts; those before it are only there to be known"""

    @property
    def counted(self) -> int:
        return self.stop - self.first


def windows(tokens: int, ctx_size: int, stride: int | None = None) -> Iterator[Window]:
    """How a text of so many tokens is read.

    Without a stride: runs of `ctx_size` tokens, of which the second half counts (llama.cpp, llama-perplexity). With
    one: runs that begin `stride` tokens apart, each token counted once, after as many others as the context holds
    (transformers, "Perplexity of fixed-length models").
    """
    if stride is None:
        for start in range(0, tokens - ctx_size + 1, ctx_size):
            yield Window(start, start + ctx_size, start + ctx_size // 2 + 1)
        return
    done = 0
    for start in range(0, tokens, stride):
        stop = min(start + ctx_size, tokens)
        # the first token of a window follows none
        yield Window(start, stop, max(done, start + 1))
        done = stop
        if stop == tokens:
            return


def check_windows(tokens: int, ctx_size: int, stride: int | None = None) -> None:
    """Refuses what `windows` can't be made of.

    Raises:
        RequestError: a number is out of range, or the text is shorter than two contexts.
    """
    if ctx_size < SMALLEST_CONTEXT:
        raise RequestError(f"a context of {ctx_size} is too short to predict from: give at least {SMALLEST_CONTEXT}")
    if stride is not None and not 1 <= stride <= ctx_size:
        raise RequestError(f"the stride must be from 1 to the context of {ctx_size}, not {stride}")
    if tokens < 2 * ctx_size:
        shorter = f", or a --ctx-size of at most {tokens // 2}" if tokens >= 2 * SMALLEST_CONTEXT else ""
        raise RequestError(
            f"the text has {tokens} tokens, and a context of {ctx_size} needs twice as many: give a text of at least "
            f"{2 * ctx_size} tokens{shorter}"
        )


@dataclass(frozen=True)
class Estimate:
    """A mean and its standard error, 0 for a single value."""

    value: float
    error: float

    @staticmethod
    def of(values: Sequence[float]) -> "Estimate":
        import numpy

        error = float(numpy.std(values)) / math.sqrt(len(values) - 1) if len(values) > 1 else 0.0
        return Estimate(float(numpy.mean(values)), error)

    def exp(self) -> "Estimate":
        """Of the exponential, the error carried over to first order."""
        value = math.exp(min(self.value, 700.0))
        return Estimate(value, value * self.error)


@dataclass
class Scores:
    """What has been found so far."""

    windows: int = 0
    tokens_read: int = 0
    nll: "array[float]" = field(default_factory=lambda: array("d"))
    """negative natural logarithm of each counted token's probability"""
    comparison: Comparison | None = None

    @property
    def perplexity(self) -> Estimate:
        return Estimate.of(self.nll).exp()


def measure(
    llm: "LLM",
    ids: Sequence[int],
    plan: Sequence[Window],
    *,
    base: BaseReader | None = None,
    writer: BaseWriter | None = None,
) -> Iterator[Scores]:
    """Reads the windows of a text; yields the scores so far after each, always the same object.

    Where the model wants a BOS token, each window begins with one in place of its first token.

    Args:
        llm: a model whose context holds a window.
        base: the probabilities of another run over the same windows, to compare with.
        writer: takes this run's probabilities, for another to be compared with.

    Raises:
        ModelFileError: the model gives NaN, or the base is damaged.
    """
    scores = Scores(comparison=Comparison() if base is not None else None)
    vocabulary = llm.tokenizer.vocabulary
    for window in plan:
        text = list(ids[window.start : window.stop])
        if vocabulary.add_bos and vocabulary.bos_id is not None:
            text[0] = vocabulary.bos_id
        first = window.first - window.start
        if base is None and writer is None:
            nll = [-value for value in llm.log_probs(text, first)]
            if not all(map(math.isfinite, nll)):
                raise _no_numbers()
            scores.nll.extend(nll)
        else:
            for log_probs, tokens in _distributions(llm, text, first):
                found = _picked(log_probs, tokens)
                scores.nll.extend((-found).tolist())
                if writer is not None:
                    writer.add(log_probs, found)
                if base is not None and scores.comparison is not None:
                    scores.comparison.add(base.take(len(tokens)), log_probs, tokens)
        scores.windows += 1
        scores.tokens_read += len(text)
        if writer is not None:
            writer.end_window()
        yield scores


def _distributions(
    llm: "LLM", text: Sequence[int], first: int
) -> Iterator[tuple["NDArray[np.float64]", "NDArray[np.intp]"]]:
    """Logarithms of probabilities [positions, vocab] before tokens from the `first` on, and these tokens, piecemeal."""
    import numpy

    at = first
    for logits in llm.logit_rows(text, first - 1):
        for start in range(0, len(logits), _ROWS):
            # the last position has no successor
            tokens = numpy.asarray(text[at : at + len(logits[start : start + _ROWS])], numpy.intp)
            if len(tokens):
                log_probs = log_softmax(logits[start : start + len(tokens)])
                if not numpy.isfinite(log_probs).all():
                    raise _no_numbers()
                yield log_probs, tokens
                at += len(tokens)


def _picked(log_probs: "NDArray[np.float64]", tokens: "NDArray[np.intp]") -> "NDArray[np.float64]":
    import numpy

    return log_probs[numpy.arange(len(tokens)), tokens]


def _no_numbers() -> ModelFileError:
    return ModelFileError(
        "the model gives NaN or infinite values where probabilities should be: try --precision exact, or a sound file"
    )
