"""The Python API: a language model on an adapter."""

import statistics
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from wgpu_engine.engine.answers import Chunk, Completion, answer, collect, in_thread, iterate, iterate_in_threads
from wgpu_engine.engine.evaluation import log_probs, logits
from wgpu_engine.engine.kernel_check import check_log_probs
from wgpu_engine.engine.loading import LoadOptions, Precision, Progress
from wgpu_engine.engine.opening import load
from wgpu_engine.engine.sampling import SamplingParams
from wgpu_engine.engine.scheduler import Scheduler
from wgpu_engine.engine.sequence import Timings
from wgpu_engine.engine.tuning import save_tuning
from wgpu_engine.engine.turns import Turns
from wgpu_engine.errors import EngineError, RequestError
from wgpu_engine.gpu.device import AdapterInfo
from wgpu_engine.ops.kv import KVType
from wgpu_engine.ops.variants import Problem, Variant
from wgpu_engine.platform.closing import Closing
from wgpu_engine.platform.drive import drive

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Messages = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Statistics:
    """What a decode step costs, whatever the machine."""

    dispatches_per_token: int
    host_us_per_step: float
    """median µs of the engine's thread, without the wait for tokens; 0 before the first step"""
    weight_bytes_per_token: int
    buffers: int
    """alive on the device"""


class LLM(Closing):
    """A model loaded onto an adapter; close it, or use it as a context manager, to give its memory back.

    One answer is made at a time: other threads and tasks wait for their turn.

    Args:
        model: path of a GGUF file or of a folder of safetensors, or name of a model in the store.
        device: index of an adapter, or text of its name; by default the most capable kind.
        precision: "fast" quantizes activations to int8 for quantized weights and keeps F32 weights as F16, "exact"
            computes in floats with the weights as they are.
        ctx_size: positions of prompt and answer together; by default the model's own, up to 4096.
        kv_type: how keys and values are kept.
        memory_budget: bytes that the model may take on the adapter.
        quantize: a type such as "Q4_K" that weights in float are quantized to as they are loaded.
        progress: called with a stage ("weights", "kernels"), what is done and the total.

    Raises:
        EngineError: the model or the adapter is missing, unsupported or too small.
    """

    def __init__(
        self,
        model: str | Path,
        device: str | int | None = None,
        precision: Precision = "fast",
        ctx_size: int | None = None,
        *,
        kv_type: KVType = "f16",
        memory_budget: int | None = None,
        quantize: str | None = None,
        progress: Progress | None = None,
    ) -> None:
        options = LoadOptions(
            device, precision, ctx_size, kv_type=kv_type, memory_budget=memory_budget, quantize=quantize
        )
        self._loaded = loaded = drive(load(model, options, progress))
        self.path = loaded.path
        self.description = loaded.description
        self.tokenizer = loaded.tokenizer
        self.chat_template = loaded.chat_template
        self.warnings = loaded.warnings
        self.ctx_size = loaded.engine.ctx_size
        self._device = loaded.device
        self._engine = loaded.engine
        self._scheduler = Scheduler(loaded.engine)
        self._turns = Turns()
        self._closed = False
        self._log_probs_checked = False

    @property
    def adapter(self) -> AdapterInfo:
        """The adapter that the model is on."""
        return self._device.adapter

    @overload
    def generate(
        self, prompt: str | Sequence[int], *, stream: Literal[False] = False, **sampling: Any
    ) -> Completion: ...
    @overload
    def generate(self, prompt: str | Sequence[int], *, stream: Literal[True], **sampling: Any) -> Iterator[Chunk]: ...
    def generate(
        self, prompt: str | Sequence[int], *, stream: bool = False, **sampling: Any
    ) -> Completion | Iterator[Chunk]:
        """Continues a text or token ids.

        With `stream` an iterator of chunks; closing it stops the generation. `sampling` are the fields of
        `SamplingParams`: temperature, top_k, top_p, min_p, repetition_penalty, presence_penalty, frequency_penalty,
        seed, max_tokens, stop, ignore_eos, logit_bias, logprobs, cache_prompt.

        Raises:
            RequestError: a parameter is out of range, or the prompt is empty.
            ContextFullError: the prompt is longer than the context.
        """
        chunks = iterate(self._answer(self._ids(prompt), sampling, continues=True), self._turns)
        return chunks if stream else collect(chunks)

    def agenerate(self, prompt: str | Sequence[int], **sampling: Any) -> AsyncIterator[Chunk]:
        """The chunks of `generate`, without blocking the event loop."""
        return iterate_in_threads(self._answer(self._ids(prompt), sampling, continues=True), self._turns)

    @overload
    def chat(
        self, messages: Messages, *, stream: Literal[False] = False, tools: Sequence[Any] | None = None, **sampling: Any
    ) -> Completion: ...
    @overload
    def chat(
        self, messages: Messages, *, stream: Literal[True], tools: Sequence[Any] | None = None, **sampling: Any
    ) -> Iterator[Chunk]: ...
    def chat(
        self,
        messages: Messages,
        *,
        stream: bool = False,
        tools: Sequence[Any] | None = None,
        **sampling: Any,
    ) -> Completion | Iterator[Chunk]:
        """Answers a conversation of `{"role": …, "content": …}` messages, put into the model's chat template.

        Otherwise like `generate`; raises RequestError too where the model has no chat template.
        """
        chunks = iterate(self._answer(self._chat_ids(messages, tools), sampling, continues=False), self._turns)
        return chunks if stream else collect(chunks)

    def achat(self, messages: Messages, *, tools: Sequence[Any] | None = None, **sampling: Any) -> AsyncIterator[Chunk]:
        """The chunks of `chat`, without blocking the event loop."""
        return iterate_in_threads(self._answer(self._chat_ids(messages, tools), sampling, continues=False), self._turns)

    def logits(self, ids: Sequence[int]) -> "NDArray[np.float32]":
        """Logits float32 [tokens, vocab] at every position of `ids`; raises like `generate`."""
        ids = self._ids(ids)
        self._turns.take()
        try:
            return _array(drive(self._all_logits(ids)))
        finally:
            self._turns.give_back()

    async def alogits(self, ids: Sequence[int]) -> "NDArray[np.float32]":
        """`logits`, without blocking the event loop."""
        ids = self._ids(ids)
        await self._turns.take_async()
        try:
            return _array(await in_thread(self._all_logits(ids)))
        finally:
            self._turns.give_back()

    def logit_rows(self, ids: Sequence[int], first: int = 0) -> "Iterator[NDArray[np.float32]]":
        """`logits` from the position `first` on, some rows at a time, for where all at once would be too much."""
        for rows in iterate(logits(self._engine, self._ids(ids), first), self._turns):
            yield _array(rows)

    def log_probs(self, ids: Sequence[int], first: int = 1) -> list[float]:
        """Natural logarithms of the probabilities of the tokens of `ids` from the `first` on, each after those before.

        Only these come back from the device, exact to about 1e-6; NaN where the model gives no numbers.

        Raises:
            RequestError: `ids` is empty, holds an id that the model lacks, or `first` is below 1.
            ContextFullError: `ids` are more than the context holds.
        """
        if not _is_whole(first) or first < 1:
            raise RequestError(f"first must be 1 or more, since the first token follows none, not {first!r}")
        ids = self._ids(ids)
        self._turns.take()
        try:
            if not self._log_probs_checked:
                drive(check_log_probs(self._engine))
                self._log_probs_checked = True
            return drive(log_probs(self._engine, ids, first))
        finally:
            self._turns.give_back()

    def tokenize(self, text: str) -> list[int]:
        """Token ids of a text, with the BOS token where the model wants one."""
        return self.tokenizer.encode(text)

    def detokenize(self, ids: Sequence[int]) -> str:
        """The text of token ids; control tokens are left out."""
        return self.tokenizer.decode(ids)

    def statistics(self) -> Statistics:
        """What decode steps have cost so far."""
        times = self._scheduler.host_seconds
        return Statistics(
            dispatches_per_token=drive(self._engine.decode_plan()).dispatches,
            host_us_per_step=1e6 * statistics.median(times) if times else 0.0,
            weight_bytes_per_token=self._engine.model.weight_bytes_per_token,
            buffers=self._device.buffers,
        )

    def tune(self, progress: Progress | None = None) -> dict[Problem, Variant]:
        """Times the variants of this model's kernels on the adapter and keeps the fastest on disk for later starts.

        `progress` is called with "kernels", how many problems are done and how many there are.

        Raises:
            EngineError: the folder of the model store can't be written to.
        """
        self._turns.take()
        try:
            found = drive(self._engine.tune(partial(progress, "kernels") if progress else lambda done, total: None))
        finally:
            self._turns.give_back()
        try:
            save_tuning(self._device, found)
        except OSError as error:
            raise EngineError(
                f"what was found can't be kept ({error.strerror}): have WGPU_ENGINE_HOME name a folder that can be "
                "written to"
            ) from error
        return found

    def close(self) -> None:
        """Frees everything on the device; the LLM can't be used any more."""
        self._closed = True
        self._device.close()

    def _ids(self, prompt: str | Sequence[int]) -> list[int]:
        self._check_open()
        return self._loaded.prompt_ids(prompt)

    def _chat_ids(self, messages: Messages, tools: Sequence[Any] | None) -> list[int]:
        self._check_open()
        return self._loaded.chat_ids(messages, tools)

    def _check_open(self) -> None:
        if self._closed:
            raise RequestError("this LLM is closed: load the model again")

    def _answer(self, ids: list[int], sampling: Mapping[str, Any], *, continues: bool) -> AsyncGenerator[Chunk, None]:
        """The chunks of an answer, whose text `continues` the prompt's or begins anew.

        A request that can't be is refused here, before anybody waits for a chunk.
        """
        params = _params(sampling)
        self._scheduler.check(ids, params)
        timings = Timings()
        after = ids[-1] if continues else None
        return answer(self._scheduler.stream(ids, params, timings), self.tokenizer, params, timings, after)

    async def _all_logits(self, ids: list[int]) -> list[bytes]:
        return [row async for rows in logits(self._engine, ids) for row in rows]


def _array(rows: list[bytes]) -> "NDArray[np.float32]":
    import numpy

    return numpy.frombuffer(b"".join(rows), numpy.float32).reshape(len(rows), -1)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _params(sampling: Mapping[str, Any]) -> SamplingParams:
    known = {field.name for field in fields(SamplingParams)}
    for name in sampling:
        if name not in known:
            raise RequestError(f"{name!r} is no sampling parameter; there are {', '.join(sorted(known))}")
    return SamplingParams(**sampling)
