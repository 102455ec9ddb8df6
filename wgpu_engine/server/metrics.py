"""Figures for Prometheus."""

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response

from wgpu_engine.engine.sequence import Timings
from wgpu_engine.engine.service import Service
from wgpu_engine.server.embedding_service import EmbeddingService

_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """Counts of a server with a language model; names begin with `wgpu_engine_`."""

    def __init__(self, service: Service) -> None:
        self.registry = registry = CollectorRegistry()
        registry.register(_Now(lambda: _gauges(service)))
        self.first_token = _seconds(registry, "time_to_first_token", "From the request to its first token.")
        self.per_token = _seconds(registry, "time_per_output_token", "Between tokens after the first.")
        self.queue = _seconds(registry, "queue", "From the request to its first step.")
        self.prompt_tokens = _counter(registry, "prompt_tokens", "Tokens of prompts.")
        self.cached_tokens = _counter(registry, "cached_prompt_tokens", "Tokens of prompts that the KV cache had.")
        self.completion_tokens = _counter(registry, "completion_tokens", "Tokens of answers.")
        self.finished = _counter(registry, "requests", "Answers by how they ended.", "reason")

    def note(self, timings: Timings, reason: str) -> None:
        """An answer that ended: "stop", "length", "cancelled" or "error"."""
        self.finished.labels(reason).inc()
        self.prompt_tokens.inc(timings.prompt_tokens)
        self.cached_tokens.inc(timings.cached_tokens)
        self.completion_tokens.inc(timings.completion_tokens)
        if timings.completion_tokens:
            self.queue.observe(timings.queue_s)
            self.first_token.observe(timings.first_token_s)
        if timings.completion_tokens > 1:
            self.per_token.observe(timings.decode_s / (timings.completion_tokens - 1))


class EmbeddingMetrics:
    """Counts of a server with an encoder."""

    def __init__(self, service: EmbeddingService) -> None:
        self.registry = registry = CollectorRegistry()
        registry.register(_Now(lambda: _embedding_gauges(service)))
        self.seconds = _seconds(registry, "embedding", "From the request to its embeddings.")
        self.prompt_tokens = _counter(registry, "prompt_tokens", "Tokens of inputs.")
        self.finished = _counter(registry, "requests", "Requests by how they ended.", "reason")

    def note(self, seconds: float, tokens: int, reason: str) -> None:
        """A request that ended: "done", "cancelled" or "error"."""
        self.finished.labels(reason).inc()
        if reason == "done":
            self.seconds.observe(seconds)
            self.prompt_tokens.inc(tokens)


_Gauges = list[tuple[str, str, float]]
"""names, what they are, and values"""


class _Now(Collector):
    """What is asked of the service when somebody looks."""

    def __init__(self, gauges: Callable[[], _Gauges]) -> None:
        self._gauges = gauges

    def collect(self) -> Iterable[Metric]:
        for name, text, value in self._gauges():
            yield GaugeMetricFamily(f"wgpu_engine_{name}", text, value)


def _gauges(service: Service) -> _Gauges:
    blocks = service.scheduler.engine.blocks
    return [
        ("requests_running", "Sequences that have a slot.", service.running),
        ("requests_waiting", "Requests that wait for a slot.", service.waiting),
        ("kv_usage_ratio", "Share of the KV cache that sequences hold.", blocks.used / (blocks.used + blocks.free)),
        ("device_buffers", "Buffers that are alive on the device.", service.loaded.device.buffers),
    ]


def _embedding_gauges(service: EmbeddingService) -> _Gauges:
    return [
        ("requests_running", "Requests whose embeddings are being made.", service.running),
        ("requests_waiting", "Requests that wait for their turn.", service.waiting),
    ]


def _seconds(registry: CollectorRegistry, name: str, text: str) -> Histogram:
    return Histogram(f"wgpu_engine_{name}_seconds", text, buckets=_SECONDS, registry=registry)


def _counter(registry: CollectorRegistry, name: str, text: str, *labels: str) -> Counter:
    return Counter(f"wgpu_engine_{name}", text, labels, registry=registry)


async def metrics(request: Request) -> Response:
    """`GET /metrics`."""
    found: Metrics | EmbeddingMetrics = request.app.state.metrics
    return Response(generate_latest(found.registry), media_type="text/plain; version=0.0.4; charset=utf-8")
