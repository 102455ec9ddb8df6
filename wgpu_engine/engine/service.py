"""Runs a model in a thread of its own, for the requests of event loops."""

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue

from wgpu_engine.engine.answers import Chunk, answer
from wgpu_engine.engine.kernel_check import check_log_probs
from wgpu_engine.engine.loading import LoadedModel, LoadOptions, Progress
from wgpu_engine.engine.opening import load
from wgpu_engine.engine.sampling import SamplingParams
from wgpu_engine.engine.scheduler import Scheduler
from wgpu_engine.engine.sequence import Sampled, Sequence, Timings
from wgpu_engine.errors import DeviceLostError, EngineError, QueueFullError
from wgpu_engine.ops.top_tokens import TokenLogProbs
from wgpu_engine.platform.drive import drive

_log = logging.getLogger(__name__)

_Event = list[Sampled] | EngineError | None
"""tokens, what went wrong, or the end"""


class Request:
    """A sequence as its event loop sees it."""

    def __init__(self, ids: list[int], params: SamplingParams, scores: list[TokenLogProbs] | None) -> None:
        self.ids = ids
        self.params = params
        self.scores = scores
        self.timings = Timings()
        self.sequence: Sequence | None = None
        self.cancelled = False
        self._loop = asyncio.get_running_loop()
        self._events: asyncio.Queue[_Event] = asyncio.Queue()

    def tell(self, event: _Event) -> None:
        """Hands an event to the loop, from any thread; a loop that is closed doesn't want it any more."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._events.put_nowait, event)

    async def next(self) -> _Event:
        return await self._events.get()


class Service:
    """A model that answers many requests at a time; close it to give its memory back.

    After the loss of the device the model is loaded again: requests that ran are ended with an error, the next are
    served.
    """

    def __init__(
        self, model: str | Path, options: LoadOptions, *, queue: int = 64, progress: Progress | None = None
    ) -> None:
        """Loads the model; up to `queue` requests wait for a slot. Raises like `load`."""
        self._model, self._options, self._queue = model, options, queue
        self.loaded: LoadedModel = drive(load(model, options, progress))
        self.scheduler = Scheduler(self.loaded.engine)
        self._lost: EngineError | None = None
        self._log_probs_checked = False
        self._requests: set[Request] = set()
        self._commands: SimpleQueue[Request | None] = SimpleQueue()
        """requests that came or were cancelled; None says that the service closes"""
        self._lock = threading.Lock()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="wgpu_engine", daemon=True)
        self._thread.start()

    @property
    def running(self) -> int:
        """Sequences that have a slot."""
        return len(self.scheduler.running)

    @property
    def waiting(self) -> int:
        """Requests that wait for a slot."""
        return max(0, len(self._requests) - self.running)

    @property
    def most(self) -> int:
        """Requests that there is room for, in slots and in the queue."""
        return self.scheduler.engine.slots + self._queue

    async def answer(
        self,
        ids: list[int],
        params: SamplingParams,
        *,
        continues: bool = False,
        scores: list[TokenLogProbs] | None = None,
    ) -> AsyncGenerator[Chunk, None]:
        """The chunks of an answer, whose text `continues` the prompt's or begins anew; closing it cancels the request.

        `scores` is filled before the first chunk, as `Scheduler.add` says.

        Raises:
            RequestError: a prompt or a parameter that can't be.
            QueueFullError: too many requests wait already.
            DeviceError: the device failed; after a loss the next request loads the model again.
        """
        tokenizer = self.loaded.tokenizer
        request = self._submit(ids, params, scores)
        after = ids[-1] if continues else None
        try:
            async for chunk in answer(self._tokens(request), tokenizer, params, request.timings, after):
                yield chunk
        finally:
            request.cancelled = True
            self._commands.put(request)

    def close(self, patience_s: float = 0.0) -> None:
        """Ends requests that are still running after so many seconds, and frees everything."""
        with self._lock:
            self._closing = True
        if patience_s:
            self._commands.put(None)
            self._thread.join(patience_s)
        for request in list(self._requests):
            request.cancelled = True
            self._commands.put(request)
        self._commands.put(None)
        self._thread.join()
        self.loaded.device.close()

    def _submit(self, ids: list[int], params: SamplingParams, scores: list[TokenLogProbs] | None) -> Request:
        self.scheduler.check(ids, params)
        request = Request(ids, params, scores)
        with self._lock:
            if self._closing:
                raise QueueFullError("the server is shutting down: ask another one")
            if len(self._requests) >= self.most:
                raise QueueFullError(f"{self._queue} requests wait already: try again later")
            self._requests.add(request)
        self._commands.put(request)
        return request

    @staticmethod
    async def _tokens(request: Request) -> AsyncGenerator[Sampled, None]:
        while (event := await request.next()) is not None:
            if isinstance(event, EngineError):
                raise event
            for token in event:
                yield token

    def _run(self) -> None:
        while True:
            try:
                self._take_commands()
                if self._closing and not self._requests:
                    return
                if self._lost is None:
                    drive(self.scheduler.step())
                    self._deliver()
            except EngineError as error:
                _log.warning("requests are ended: %s", error)
                self._fail(error)
            except Exception as error:  # must not leave requests without an answer
                self._fail(_fault(error))

    def _take_commands(self) -> None:
        """Lets new requests in and cancelled ones go; waits for something to do."""
        while not self._commands.empty() or not (self._requests or self._closing):
            request = self._commands.get()
            if request is None or request not in self._requests:
                continue
            if request.cancelled:
                if request.sequence is not None:
                    self.scheduler.cancel(request.sequence)
                self._end(request, None)
            elif request.sequence is None:
                try:
                    request.sequence = self._add(request)
                except EngineError as error:
                    self._end(request, error)
                    if isinstance(error, DeviceLostError):
                        self._fail(error)
                except Exception as error:
                    self._end(request, _fault(error))

    def _deliver(self) -> None:
        for request in list(self._requests):
            sequence = request.sequence
            if sequence is None:
                continue
            if sequence.tokens:
                request.tell(list(sequence.tokens))
                sequence.tokens.clear()
            if sequence.finished:
                self._end(request, None)

    def _end(self, request: Request, event: _Event) -> None:
        with self._lock:
            self._requests.discard(request)
        request.tell(event)

    def _fail(self, error: EngineError) -> None:
        """Ends all requests that have been let in."""
        self.scheduler.reset()
        if isinstance(error, DeviceLostError):
            self._lost = error
        else:
            drive(self.scheduler.drain())
        for request in list(self._requests):
            if request.sequence is not None:
                self._end(request, error)

    def _add(self, request: Request) -> Sequence:
        """Lets a request in; after the loss of a device the model is loaded again first."""
        if self._lost is not None:
            self.loaded.device.close()
            self.loaded = drive(load(self._model, self._options))
            self.scheduler = Scheduler(self.loaded.engine)
            self._lost, self._log_probs_checked = None, False
        if request.scores is not None and not self._log_probs_checked:
            drive(check_log_probs(self.loaded.engine))
            self._log_probs_checked = True
        return self.scheduler.add(request.ids, request.params, request.timings, request.scores)


def _fault(error: Exception) -> EngineError:
    """What those are told who meet a fault of ours."""
    _log.exception("requests are ended by a fault of the engine", exc_info=error)
    return EngineError(f"the engine failed ({error!r}): try again, and report it if it comes back")
