"""The Python API for embeddings of texts."""

import operator
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wgpu_engine.engine.answers import in_thread
from wgpu_engine.engine.encoder import Encoder
from wgpu_engine.engine.kernel_check import check_kernels
from wgpu_engine.engine.loading import Precision, Progress, load_weights
from wgpu_engine.engine.memory import check_budget, context_size, footprint, memory_budget, weight_bytes
from wgpu_engine.engine.opening import described, opened
from wgpu_engine.engine.tuning import load_tuning
from wgpu_engine.engine.turns import Turns
from wgpu_engine.errors import RequestError
from wgpu_engine.gpu.device import AdapterInfo
from wgpu_engine.models.registry import describe
from wgpu_engine.platform.closing import Closing
from wgpu_engine.platform.drive import drive
from wgpu_engine.platform.tokenizers_encoder import TokenizersEncoder
from wgpu_engine.text.opening import open_tokenizer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def is_encoder(model: str | Path) -> bool:
    """Whether a model makes embeddings, by its file's header; raises EngineError where it can't be read."""
    return drive(described(model)).encodes


class Embedder(Closing):
    """An encoder of texts on an adapter; close it, or use it as a context manager, to give its memory back.

    Args:
        model: path of a GGUF file or of a folder of safetensors, or name of a model in the store.
        device: index of an adapter, or text of its name; by default the most capable kind.
        precision: "fast" quantizes activations to int8 for quantized weights and keeps F32 weights as F16, "exact"
            computes in floats with the weights as they are.
        memory_budget: bytes that the model may take on the adapter.
        progress: called with a stage ("weights", "kernels"), what is done and the total.

    Raises:
        EngineError: the model or the adapter is missing, unsupported or too small.
    """

    def __init__(
        self,
        model: str | Path,
        device: str | int | None = None,
        precision: Precision = "fast",
        *,
        memory_budget: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        if precision not in ("fast", "exact"):
            raise RequestError(f"precision must be fast or exact, not {precision!r}")
        self.warnings: list[str] = []
        """what is odd about the model"""
        self._turns = Turns()
        self._closed = False
        drive(self._load(model, device, precision, memory_budget, progress))

    async def _load(
        self,
        model: str | Path,
        device: str | int | None,
        precision: Precision,
        budget: int | None,
        progress: Progress | None,
    ) -> None:
        async with opened(model, device) as (self._device, file):
            self.path = file.path
            self.description = describe(file.metadata, file.tensors)
            if not self.description.encodes:
                raise RequestError(
                    f"{self.path} is a language model ({self.description.architecture}), which makes no embeddings: "
                    "use a BERT, such as minilm"
                )
            self.max_tokens = context_size(self.description, None)
            """tokens that a text may have; of longer ones the end is cut off"""
            on_device = weight_bytes(file.tensors.values(), precision)
            need = footprint(self.description, on_device, self.max_tokens, "f32")
            check_budget(need, memory_budget(self._device.adapter) if budget is None else budget, self.max_tokens)
            self.tokenizer = open_tokenizer(file.metadata, self.description.vocab, TokenizersEncoder)
            weights = await load_weights(self._device, file, precision, self.warnings, progress)
            self._encoder = Encoder(
                self._device, weights, longest=self.max_tokens, precision=precision, tuning=load_tuning(self._device)
            )
            await check_kernels(self._encoder, file.tensors, self.warnings, progress)

    @property
    def adapter(self) -> AdapterInfo:
        """The adapter that the model is on."""
        return self._device.adapter

    @property
    def precision(self) -> Precision:
        """How it computes, which may be more exact than asked for where kernels need it."""
        return self._encoder.precision

    @property
    def width(self) -> int:
        """Values of an embedding."""
        return self.description.width

    def embed(self, texts: Sequence[str | Sequence[int]], progress: Progress | None = None) -> "NDArray[np.float32]":
        """Embeddings f32 [texts, width] of length 1, so that their products are cosines; needs NumPy.

        Texts may also be lists of token ids, which are taken as they are. Of a text of more than `max_tokens` tokens
        the end is cut off, with a UserWarning. An empty text has the embedding of the tokens that are put round each
        text, as in sentence-transformers, with a UserWarning too. `progress` is called with "texts", how many are done
        and the total.

        Raises:
            RequestError: something that is no list of texts, an empty list of ids, or an id outside the vocabulary.
        """
        ids = self._ids(texts)
        self._turns.take()
        try:
            rows = drive(self._embed(ids, progress))
        finally:
            self._turns.give_back()
        return self._array(rows)

    async def aembed(
        self, texts: Sequence[str | Sequence[int]], progress: Progress | None = None
    ) -> "NDArray[np.float32]":
        """The same without blocking the event loop; `progress` is called from a worker thread."""
        ids = self._ids(texts)
        await self._turns.take_async()
        try:
            rows = await in_thread(self._embed(ids, progress))
        finally:
            self._turns.give_back()
        return self._array(rows)

    def steps(self, lengths: Sequence[int]) -> list[list[int]]:
        """Texts of so many tokens, by their numbers, as they are embedded together: a list for each step."""
        return list(self._encoder.steps([min(length, self.max_tokens) for length in lengths]))

    async def _embed(self, texts: list[list[int]], progress: Progress | None) -> list[bytes]:
        found = [b""] * len(texts)
        done = 0
        for step in self._encoder.steps([len(ids) for ids in texts]):
            made = await self._encoder.embed([texts[number] for number in step])
            for number, row in zip(step, made, strict=True):
                found[number] = row
            done += len(step)
            if progress is not None:
                progress("texts", done, len(texts))
        return found

    def _array(self, rows: list[bytes]) -> "NDArray[np.float32]":
        import numpy

        return numpy.frombuffer(b"".join(rows), numpy.float32).reshape(len(rows), self.width)

    def _ids(self, texts: Sequence[str | Sequence[int]]) -> list[list[int]]:
        """The token ids of each text, none more than the model takes."""
        if self._closed:
            raise RequestError("this Embedder is closed: load the model again")
        if isinstance(texts, str | bytes):
            raise RequestError("texts must be a list: for one text give a list of one")
        try:
            found = [self.tokenizer.encode(text) if isinstance(text, str) else _checked(text) for text in texts]
        except TypeError:
            raise RequestError("texts must be a list of texts, or of lists of token ids") from None
        for ids in found:
            if not ids:
                raise RequestError("a text without any token has no embedding: leave it out")
            wrong = next((token for token in ids if not 0 <= token < self.description.vocab), None)
            if wrong is not None:
                most = self.description.vocab - 1
                raise RequestError(f"the token id {wrong!r:.40} is outside the vocabulary: give ids from 0 to {most}")
        empty = sum(isinstance(text, str) and not text.strip() for text in texts)
        if empty:
            warnings.warn(
                f"{empty} of {len(found)} texts {'is' if empty == 1 else 'are'} empty: such an embedding says nothing, "
                "leave the text out",
                stacklevel=3,
            )
        long = sum(len(ids) > self.max_tokens for ids in found)
        if long:
            warnings.warn(
                f"{long} of {len(found)} texts {'has' if long == 1 else 'have'} more than the {self.max_tokens} tokens "
                "that the model takes: what goes beyond is left out",
                stacklevel=3,
            )
        return [self._cut(ids) for ids in found]

    def _cut(self, ids: list[int]) -> list[int]:
        """A text's first tokens, with the one that ends it."""
        if len(ids) <= self.max_tokens:
            return ids
        ends = ids[-1:] if ids[-1] == self.tokenizer.vocabulary.sep_id else []
        return ids[: self.max_tokens - len(ends)] + ends

    def close(self) -> None:
        """Frees everything on the device; the Embedder can't be used any more."""
        self._closed = True
        self._device.close()


def _checked(ids: Sequence[int]) -> list[int]:
    return [operator.index(token) for token in ids]
