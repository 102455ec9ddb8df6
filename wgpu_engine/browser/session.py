"""What the page's worker asks of the engine: a model loaded onto the browser's GPU, and answers of it.

web/engine/worker.js calls these methods. Requests and replies are JSON, which costs less than converting objects one by
one; bytes of models never come here.
"""

import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from wgpu_engine import __version__
from wgpu_engine.engine.answers import Chunk, answer
from wgpu_engine.engine.loading import LoadedModel, LoadOptions, load_file
from wgpu_engine.engine.sampling import SamplingParams
from wgpu_engine.engine.scheduler import Scheduler
from wgpu_engine.engine.sequence import Timings
from wgpu_engine.engine.tuning import save_tuning
from wgpu_engine.errors import DeviceLostError, RequestError
from wgpu_engine.files.model_file import open_sources
from wgpu_engine.gpu.browser import BrowserDevice, open_browser_device
from wgpu_engine.ops.known_answers import run_known_answers
from wgpu_engine.ops.sample import RING
from wgpu_engine.platform.browser_encoder import BrowserEncoder
from wgpu_engine.platform.browser_source import BrowserSource

Report = Callable[[str, int, int | None], None]


@dataclass
class _Loaded:
    model: LoadedModel
    scheduler: Scheduler
    measured: bool = False
    """whether its cache is at the mercy of `Session.cost`"""


class Session:
    """One model at a time, which gives one answer at a time."""

    def __init__(self) -> None:
        self._device: BrowserDevice | None = None
        self._loaded: _Loaded | None = None

    async def start(self, gpu: Any) -> str:
        """Takes the `GPU` of web/engine/device.js; returns what there is to know of it."""
        self._loaded = None
        self._device = device = await open_browser_device(gpu)
        adapter = device.adapter
        return json.dumps(
            {
                "version": __version__,
                "adapter": {
                    "name": adapter.name,
                    "kind": adapter.kind,
                    "driver": adapter.driver,
                    "features": sorted(adapter.features),
                    "subgroup_size": device.subgroup_size,
                    "limits": asdict(adapter.limits),
                },
            }
        )

    async def load(self, sources: Sequence[Any], options: str, report: Report) -> str:
        """Loads a model out of its files, the parts of a split one in order; returns what there is to know of it.

        Raises:
            EngineError: the model is damaged, unsupported, or more than the device has room for.
        """
        device = self._opened()
        with await open_sources([BrowserSource(source) for source in sources]) as file:
            model = await load_file(device, file, _options(json.loads(options)), BrowserEncoder, report)
            await model.engine.prepare()
        self._loaded = _Loaded(model, Scheduler(model.engine))
        description = model.description
        return json.dumps(
            {
                "name": str(file.metadata.get("general.name", file.path.stem)),
                "architecture": description.architecture,
                "parameters": description.parameters,
                "bytes": file.file_bytes,
                "context": description.context,
                "ctx_size": model.engine.ctx_size,
                "chat": model.chat_template is not None,
                "warnings": model.warnings,
            }
        )

    async def answer(self, request: str, emit: Callable[[str], None]) -> None:
        """Answers `messages` or continues a `prompt`; emits pieces, the last of which has a finish reason and timings.

        Raises:
            EngineError: the request can't be, or the device failed.
        """
        asked = json.loads(request)
        loaded = self._ready()
        if "messages" in asked:
            ids = loaded.model.chat_ids(asked["messages"])
        else:
            ids = loaded.model.prompt_ids(asked["prompt"])
        async for chunk in _chunks(loaded, ids, asked.get("sampling") or {}, continues="prompt" in asked):
            emit(json.dumps(_piece(chunk)))

    def stop(self) -> None:
        """Ends the answer that is being made, as if it had reached its length."""
        if self._loaded is None:
            return
        scheduler = self._loaded.scheduler
        for sequence in (*scheduler.waiting, *scheduler.running):
            scheduler.cancel(sequence)

    def tokenize(self, text: str) -> str:
        """The token ids of a text."""
        return json.dumps(self._ready().model.prompt_ids(text))

    async def doctor(self, report: Report) -> str:
        """Compares every kernel with answers that are known."""
        answers = await run_known_answers(self._opened(), report)
        return json.dumps([asdict(each) for each in answers])

    async def tune(self, report: Report) -> None:
        """Times the variants of the model's kernels and keeps the fastest for later starts."""
        found = await self._ready().model.engine.tune(lambda done, total: report("kernels", done, total))
        save_tuning(self._opened(), found)

    async def cost(self, replays: int) -> str:
        """What a decode step costs this thread, in µs: its replay in JavaScript, and what Python does beside it.

        Means of steps that are queued one after the other, without waiting for the device. Conversations start anew.

        Raises:
            RequestError: an answer is being made, or there is no step to be measured.
        """
        loaded = self._ready()
        engine = loaded.model.engine
        if loaded.scheduler.busy:
            raise RequestError("an answer is being made: measure when it has ended")
        # a token is given, another one ends the prompt, and a decode step makes the third
        if replays < 1 or engine.ctx_size < 3:
            raise RequestError("there is no step to measure: ask for a replay at least, and a context of 3 tokens")
        loaded.measured = True
        try:
            plan = await engine.decode_plan()
            replay_us = await self._opened().replay_cost(plan, replays)
            steps = min(replays, RING - 1)
            scheduler = Scheduler(engine, ahead=steps)
            params = SamplingParams(temperature=0, max_tokens=steps + 1, ignore_eos=True)
            async for _ in scheduler.stream([0], params, Timings()):
                pass
        finally:
            loaded.scheduler.reset()
            loaded.measured = False
        step_us = 1e6 * sum(scheduler.host_seconds) / len(scheduler.host_seconds)
        return json.dumps(
            {
                "dispatches": plan.dispatches,
                "replay_us": replay_us,
                "python_us": max(0.0, step_us - replay_us),
                "buffers": self._opened().buffers,
            }
        )

    def close(self) -> None:
        """Frees everything on the device."""
        self._loaded = None
        if self._device is not None:
            self._device.close()
            self._device = None

    def _opened(self) -> BrowserDevice:
        if self._device is None:
            raise DeviceLostError("there is no GPU device: load the model again")
        return self._device

    def _ready(self) -> _Loaded:
        if self._loaded is None:
            raise RequestError("no model is loaded: load one first")
        if self._loaded.measured:
            raise RequestError("the model is being measured: ask again when that has ended")
        return self._loaded


def _options(asked: dict[str, Any]) -> LoadOptions:
    known = {"ctx_size", "precision", "kv_type", "memory_budget"}
    for name in asked:
        if name not in known:
            raise RequestError(f"{name!r:.40} is no option of loading; there are {', '.join(sorted(known))}")
    return LoadOptions(**asked)


def _chunks(loaded: _Loaded, ids: list[int], sampling: dict[str, Any], *, continues: bool) -> AsyncIterator[Chunk]:
    known = {field.name for field in fields(SamplingParams)}
    for name in sampling:
        if name not in known:
            raise RequestError(f"{name!r:.40} is no sampling parameter; there are {', '.join(sorted(known))}")
    params, timings = SamplingParams(**sampling), Timings()
    stream = loaded.scheduler.stream(ids, params, timings)
    return answer(stream, loaded.model.tokenizer, params, timings, ids[-1] if continues and ids else None)


def _piece(chunk: Chunk) -> dict[str, Any]:
    piece: dict[str, Any] = {"text": chunk.text, "tokens": chunk.tokens}
    if chunk.finish_reason is not None and (timings := chunk.timings) is not None:
        piece["finish_reason"] = chunk.finish_reason
        piece["usage"] = {
            "prompt_tokens": timings.prompt_tokens,
            "cached_tokens": timings.cached_tokens,
            "completion_tokens": timings.completion_tokens,
        }
        piece["timings"] = {
            "prompt_ms": 1000 * timings.prompt_s,
            "first_token_ms": 1000 * timings.first_token_s,
            "predicted_ms": 1000 * timings.decode_s,
            "prompt_per_second": timings.prompt_per_s,
            "predicted_per_second": timings.decode_per_s,
        }
    return piece
