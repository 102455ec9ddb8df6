"""The file that a run's predictions are kept in, so that another run can be compared with it.

A header of 1 KiB: eight bytes that say what it is, and JSON padded with spaces. Then the tokens of the text as u32, and
a row for each position that counts: f32 step, f32 logarithm of the probability of the token that came, u32 likeliest
token, and for each token of the vocabulary a u16, its distance from the likeliest in steps of its logarithm. All is
little-endian. Rows are scaled each for itself, so that a step is 1e-3 at most and usually less than half of it; what is
less likely than exp(-64) of the likeliest is kept as that. Probabilities are made to add up to 1 again when they are
read, which leaves of the rounding only its square: about 1e-8 in a divergence.
"""

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from wgpu_engine.engine.divergence import Predictions
from wgpu_engine.errors import EngineError, ModelFileError, RequestError
from wgpu_engine.platform.drive import drive
from wgpu_engine.platform.file_source import FileSource

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MAGIC = b"WGPU-KL\x01"
_HEADER = 1024
"""bytes"""
_REACH = 64.0
"""nats between the likeliest token and the least likely that is told apart"""
_MOST = (1 << 16) - 1
_LONGEST_NAME = 120


@dataclass(frozen=True)
class BaseHeader:
    """What a file of predictions is of."""

    model: str
    vocab: int
    ctx_size: int
    stride: int | None
    tokens: int
    """of the text"""
    windows: int
    rows: int


class BaseWriter:
    """Writes a file of predictions; without `commit` before the end of its block there is none.

    Raises:
        EngineError: the file can't be written.
    """

    def __init__(self, path: Path, header: BaseHeader, ids: Sequence[int]) -> None:
        import numpy

        self.path = path
        self._header = replace(header, model=header.model[:_LONGEST_NAME], windows=0, rows=0)
        self._rows = 0
        self._part = path.with_name(path.name + ".part")
        try:
            self._file = self._part.open("wb")
        except OSError as error:
            raise EngineError(f"{path} can't be written ({error.strerror}): check the path") from error
        self._file.write(bytes(_HEADER))
        self._file.write(numpy.asarray(ids, "<u4").tobytes())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        with suppress(OSError):
            self._part.unlink(missing_ok=True)

    def add(self, log_probs: "NDArray[np.float64]", found: "NDArray[np.float64]") -> None:
        """Takes positions: logarithms of probabilities [positions, vocab], and those of the tokens that came."""
        import numpy

        top = log_probs.max(axis=1, keepdims=True)
        below = numpy.minimum(top - log_probs, _REACH)
        rows = numpy.empty(len(log_probs), _row_type(self._header.vocab))
        rows["step"] = numpy.maximum(below.max(axis=1) / _MOST, 1e-30)
        # rounding may leave a little more than certainty
        rows["found"] = numpy.minimum(found, 0.0)
        rows["likeliest"] = log_probs.argmax(axis=1)
        numpy.rint(below / rows["step"].astype(numpy.float64)[:, None], out=below)
        rows["codes"] = numpy.minimum(below, _MOST)
        self._file.write(rows.tobytes())
        self._rows += len(rows)

    def end_window(self) -> None:
        """A window is whole; `commit` keeps what came before this."""
        self._header = replace(self._header, windows=self._header.windows + 1, rows=self._rows)

    def commit(self) -> None:
        """Keeps the windows that are whole, and puts the file in its place; keeps nothing where there is none."""
        header = self._header
        if not header.windows:
            return
        text = json.dumps(asdict(header), ensure_ascii=False).encode(errors="replace")
        self._file.flush()
        self._file.truncate(_HEADER + 4 * header.tokens + header.rows * _row_type(header.vocab).itemsize)
        self._file.seek(0)
        self._file.write((_MAGIC + text).ljust(_HEADER))
        self._file.flush()
        os.fsync(self._file.fileno())
        self._part.replace(self.path)


class BaseReader:
    """Reads a file of predictions, position after position.

    Raises:
        ModelNotFoundError: no such file.
        ModelFileError: it is none, or a damaged one.
    """

    def __init__(self, path: Path) -> None:
        self._source = FileSource(path)
        try:
            self.header = self._read_header()
        except BaseException:
            self._source.close()
            raise
        self._start = _HEADER + 4 * self.header.tokens
        self._row = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._source.close()

    def check(self, ids: Sequence[int], vocab: int, ctx_size: int, stride: int | None) -> None:
        """Refuses to be compared with a run over something else.

        Raises:
            RequestError: another vocabulary, text, context or stride.
        """
        import numpy

        header, name = self.header, self._source.name
        if header.vocab != vocab:
            raise RequestError(
                f"{name} is of a model of {header.vocab} tokens and this one has {vocab}: compare models with the same "
                "tokenizer"
            )
        if (header.ctx_size, header.stride) != (ctx_size, stride):
            raise RequestError(
                f"{name} was made with a context of {header.ctx_size} and {_stride(header.stride)}: give the same here"
            )
        tokens = numpy.frombuffer(drive(self._source.read(_HEADER, 4 * header.tokens)), "<u4")
        if not numpy.array_equal(tokens, ids):
            raise RequestError(f"{name} is of another text, or of another tokenizer: give the text that it was made of")

    def take(self, count: int) -> Predictions:
        """The predictions at the next `count` positions.

        Raises:
            ModelFileError: they can't be.
        """
        import numpy

        kind = _row_type(self.header.vocab)
        if self._row + count > self.header.rows:
            raise self._damaged("it ends too early")
        data = drive(self._source.read(self._start + self._row * kind.itemsize, count * kind.itemsize))
        rows = numpy.frombuffer(data, kind)
        self._row += count
        step, found = rows["step"].astype(numpy.float64), rows["found"].astype(numpy.float64)
        likeliest = rows["likeliest"].astype(numpy.intp)
        # written so that NaN fails
        if not (((step >= 0) & (step <= 1.01 * _REACH / _MOST)).all() and ((found <= 0) & (found > -1e38)).all()):
            raise self._damaged("it holds probabilities that can't be")
        if (likeliest >= self.header.vocab).any() or rows["codes"][numpy.arange(count), likeliest].any():
            raise self._damaged("its likeliest tokens aren't")
        log_probs = rows["codes"] * -step[:, None]
        log_probs -= numpy.log(numpy.exp(log_probs).sum(axis=1, keepdims=True))
        return Predictions(log_probs, found, likeliest)

    def _read_header(self) -> BaseHeader:
        size = self._source.size
        data = bytes(drive(self._source.read(0, min(size, _HEADER))))
        if len(data) < _HEADER or not data.startswith(_MAGIC + b"{"):
            raise ModelFileError(f"{self._source.name} is no file of predictions: make one with --kl-base")
        try:
            values = json.loads(data[len(_MAGIC) :])
            header = BaseHeader(**values)
        except (ValueError, TypeError, RecursionError):
            raise self._damaged("its header can't be read") from None
        if not _sound(header):
            raise self._damaged("its header can't be")
        if size != _HEADER + 4 * header.tokens + header.rows * _row_type(header.vocab).itemsize:
            raise self._damaged(f"its {size} bytes aren't those that its header tells of")
        return header

    def _damaged(self, what: str) -> ModelFileError:
        return ModelFileError(f"{self._source.name} is damaged: {what}; make it again with --kl-base")


def _sound(header: BaseHeader) -> bool:
    """Whether the values are of the right kind and within bounds."""
    numbers = [getattr(header, each.name) for each in fields(header) if each.name not in ("model", "stride")]
    whole = all(type(number) is int and 1 <= number < 1 << 40 for number in numbers)
    stride: Any = header.stride
    return (
        whole
        and header.vocab < 1 << 24
        and isinstance(header.model, str)
        and (stride is None or (type(stride) is int and 1 <= stride <= header.ctx_size))
    )


def _stride(stride: int | None) -> str:
    return "no stride" if stride is None else f"a stride of {stride}"


def _row_type(vocab: int) -> "np.dtype[Any]":
    import numpy

    return numpy.dtype([("step", "<f4"), ("found", "<f4"), ("likeliest", "<u4"), ("codes", "<u2", (vocab,))])
